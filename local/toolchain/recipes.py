"""What is built, from which pinned Go modules, and what it is made of besides.

The versions stand in the go.mod of each tool's folder, and only there; a key of that folder and of the recipe names
what was built, so that a change of either builds anew and nothing else does.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..cache import key_of

TOOLS = Path(__file__).resolve().parent.parent / "tools"
"""One folder for each tool: go.mod, go.sum, and the sources where the module has no main package of its own."""

PROVIDER_VERSION = "4.25.0"
"""Of Pulumi's Kubernetes provider: the version of the Python package pulumi-kubernetes that goes with it. The
provider's Go module carries no version of its own."""

_STRIPPED = "-s -w"
_KUBE_BASE = "k8s.io/component-base/version"
_PROVIDER = "github.com/pulumi/pulumi-kubernetes/provider/v4"
_SDK = "github.com/pulumi/pulumi/sdk/v3"
_ROUTER = "github.com/cloudnativelabs/kube-router/v2"


@dataclass(frozen=True)
class ModuleFile:
    """A file of a module that takes part in a build, beside what the compiler finds by itself."""

    module: str
    path: str
    """In the module."""
    version: str | None = None
    """Of a JSON file: what to write into its field `version`."""

    @property
    def name(self) -> str:
        return Path(self.path).name


@dataclass(frozen=True)
class Recipe:
    """How one tool is built."""

    name: str
    """Of the folder with its go.mod, and of the program."""
    package: str = "."
    """The main package."""
    ldflags: str = _STRIPPED
    links: tuple[str, ...] = ()
    """Names under which the one program acts as several; the program's own name isn't used then."""
    sources: tuple[ModuleFile, ...] = ()
    """Copied beside the main package before the build."""
    scripts: tuple[ModuleFile, ...] = ()
    """Installed beside the program."""
    static: bool = False
    """Without the C library, for a container image that hasn't got one."""
    cost_s: int = field(default=0, repr=False, compare=False)
    """About how long a build from nothing takes on two cores: the longest go first."""

    @property
    def folder(self) -> Path:
        return TOOLS / self.name

    @property
    def programs(self) -> tuple[str, ...]:
        """All that the build puts in the tool's folder."""
        return (*(self.links or (self.name,)), *(script.name for script in self.scripts))

    def key(self) -> str:
        """Stands for everything that decides what comes out, but for Go's own version."""
        parts = [repr(self).encode()]
        for path in sorted(module_files(self.folder)):
            parts += [path.relative_to(self.folder).as_posix().encode(), path.read_bytes()]
        return key_of(parts)


def module_files(folder: Path) -> list[Path]:
    """The files of a tool's folder that its build needs; tests and generated files are not among them."""
    sources = [path for path in folder.rglob("*.go") if not path.name.endswith("_test.go")]
    return [folder / "go.mod", folder / "go.sum", *sources]


def required_go(recipes: Iterable[Recipe]) -> tuple[int, ...]:
    """The least version of Go that all these modules accept, as in (1, 26, 6)."""
    return max(go_directive((recipe.folder / "go.mod").read_text()) for recipe in recipes)


def go_directive(go_mod: str) -> tuple[int, ...]:
    """The version in the `go` line of a go.mod."""
    for line in go_mod.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "go":
            return tuple(int(number) for number in words[1].split("."))
    raise ValueError("this go.mod has no go line")


def pinned(tool: str, module: str) -> str:
    """The version of a module in a tool's go.mod, as in v1.34.4."""
    for line in (TOOLS / tool / "go.mod").read_text().splitlines():
        words = line.removeprefix("require").split()
        if len(words) >= 2 and words[0] == module and words[1].startswith("v"):
            return words[1]
    raise ValueError(f"the go.mod of {tool} doesn't pin {module}")


def compact_json(text: bytes, version: str | None) -> bytes:
    """The same JSON without white space, with its field `version` set where one is given."""
    content = json.loads(text)
    if version is not None:
        content["version"] = version
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


KUBERNETES_VERSION = pinned("kubernetes", "k8s.io/kubernetes").removeprefix("v")

PULUMI = Recipe(
    "pulumi",
    "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    ldflags=f"{_STRIPPED} -X {_SDK}/go/common/version.Version={pinned('pulumi', _SDK)}",
    cost_s=210,
)
LANGUAGE_HOST = Recipe(
    "pulumi-language-python",
    scripts=(
        ModuleFile(_SDK, "python/cmd/pulumi-language-python-exec"),
        ModuleFile(_SDK, "python/dist/pulumi-resource-pulumi-python"),
    ),
    cost_s=40,
)
PROVIDER = Recipe(
    "pulumi-resource-kubernetes",
    ldflags=f"{_STRIPPED} -X {_PROVIDER}/pkg/version.Version={PROVIDER_VERSION}",
    sources=(
        ModuleFile(_PROVIDER, "cmd/pulumi-resource-kubernetes/schema.json", version=PROVIDER_VERSION),
        ModuleFile(_PROVIDER, "cmd/pulumi-resource-kubernetes/terraform-mapping.json"),
    ),
    cost_s=390,
)
KUBERNETES = Recipe(
    "kubernetes",
    # The kubelet and the API server tell one another's versions apart by what is set here.
    ldflags=f"{_STRIPPED} -X {_KUBE_BASE}.gitVersion=v{KUBERNETES_VERSION}"
    f" -X {_KUBE_BASE}.gitMajor=1 -X {_KUBE_BASE}.gitMinor={KUBERNETES_VERSION.split('.')[1]}",
    links=("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"),
    cost_s=250,
)
ETCD = Recipe("etcd", "go.etcd.io/etcd/server/v3", cost_s=30)
COREDNS = Recipe("coredns", cost_s=90)
KUBE_ROUTER = Recipe(
    "kube-router",
    f"{_ROUTER}/cmd/kube-router",
    ldflags=f"{_STRIPPED} -X {_ROUTER}/pkg/version.Version={pinned('kube-router', _ROUTER)}",
    cost_s=90,
)
PAUSE = Recipe("pause", static=True, cost_s=10)
"""Part of a container image."""
ACTIONLINT = Recipe("actionlint", "github.com/rhysd/actionlint/cmd/actionlint", cost_s=20)
"""Checks the CI examples; the tests build it when they need it."""

TOOLS_TO_RUN = (PULUMI, LANGUAGE_HOST, PROVIDER, KUBERNETES, ETCD, COREDNS, KUBE_ROUTER)
ALL = (*TOOLS_TO_RUN, PAUSE, ACTIONLINT)
