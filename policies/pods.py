"""The Pods of a resource, whatever kind of workload it is: template, containers, server, files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .model import UNKNOWN, Finding, Resource
from .reading import arguments, at, directives, image, is_vague, items, mapping, selects, text

_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "StatefulSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "Pod": (),
}
SERVER = "server"
#: What images of the server are called, without host and folders: the project's own, and those of the distributors.
_SERVER_IMAGE = re.compile(r"valkey(-(server|sentinel|cluster|bundle|\d+(-\w+)?))?")
_PROGRAM = r"(?:\S*/)?valkey-(?:server|sentinel)"
_IS_PROGRAM = re.compile(_PROGRAM)
#: The server at the beginning of a command in a shell's script.
_IN_SCRIPT = re.compile(rf"(?:^|[;&|(\n]|\b(?:exec|then|do|else)\s)\s*{_PROGRAM}(?=\s|;|$)")
#: What the server's image also has, and jobs and waiting init containers use it for.
_TOOL = r"(?:\S*/)?(?:valkey|redis)-(?:cli|benchmark|check-aof|check-rdb)"
_IS_TOOL = re.compile(_TOOL)
_HAS_TOOL = re.compile(rf"(?:^|[\s;&|(!`]){_TOOL}(?=\s|;|$)")
_POD_NAME = "statefulset.kubernetes.io/pod-name"
INSTANCE_LABEL = "app.kubernetes.io/instance"


@dataclass(frozen=True)
class Container:
    """A container and how to call it. `sidecar`: an init container that goes on beside the others."""

    where: str
    spec: Any
    init: bool = False

    @property
    def sidecar(self) -> bool:
        """Whether it runs as long as the Pod does, though it stands among the init containers."""
        return self.init and at(self.spec, "restartPolicy") == "Always"


def pod(resource: Resource) -> Any:
    """The Pod template (for a Pod: itself); None where the resource has none, UNKNOWN where it isn't known."""
    path = _TEMPLATES.get(resource.kind)
    if path is None or not resource.is_kubernetes:
        return None
    # Before it exists, a resource may have no outputs at all: then its Pods are unknown, not missing.
    template = at(resource.props, *path) if path else resource.props
    return UNKNOWN if template is None else template


def pod_spec(resource: Resource) -> Any:
    """The Pod's spec; None and UNKNOWN as in `pod`."""
    template = pod(resource)
    return None if template is None else UNKNOWN if template is UNKNOWN else at(template, "spec")


def pod_labels(resource: Resource) -> Any:
    """The labels of the resource's Pods."""
    return at(pod(resource), "metadata", "labels")


def containers(resource: Resource) -> list[Container]:
    """All known containers of its Pods, init containers first, as they start."""
    spec = pod_spec(resource)
    found: list[Container] = []
    for field, init in (("initContainers", True), ("containers", False)):
        for number, container in enumerate(items(at(spec, field))):
            name = text(at(container, "name")) or f"{field}[{number}]"
            kind = "init container" if init and at(container, "restartPolicy") != "Always" else "container"
            found.append(Container(f"{kind} {name}", container, init))
    return found


def server_of(resource: Resource) -> Any:
    """The container that runs a Valkey server or a Sentinel; None where there is none."""
    running = [c for c in containers(resource) if not c.init]
    sure = (c for c in running if runs_server(c.spec))
    named = (c for c in running if text(at(c.spec, "name")) in (SERVER, "sentinel", "valkey"))
    found = next(sure, None) or next(named, None)
    return found.spec if found else None


def runs_server(container: Any) -> bool:
    """Whether a container runs a Valkey server or a Sentinel, by its image or by its command.

    What is only called after Valkey (an exporter, an operator, a tool) does not, nor what runs a tool of its image.
    """
    words = command_of(container)
    before = ["", *words]
    # The value of an option is no command: `--server-image valkey-server`.
    by_command = any(
        _IN_SCRIPT.search(word) if _is_script(word) else _IS_PROGRAM.fullmatch(word) and not _is_option(last)
        for last, word in zip(before, words, strict=False)
    )
    return by_command or bool(_SERVER_IMAGE.fullmatch(image(text(at(container, "image"))).last) and not _is_tool(words))


def _is_tool(words: Sequence[str]) -> bool:
    scripts = (_HAS_TOOL.search(word) for word in words if _is_script(word))
    return bool(words) and (bool(_IS_TOOL.fullmatch(words[0])) or any(scripts))


def _is_script(word: str) -> bool:
    return " " in word or "\n" in word


def _is_option(word: str) -> bool:
    return word.startswith("--") and len(word) > 2


def command_of(container: Any) -> list[str]:
    """Command and arguments, as far as they are known."""
    return [str(word) for field in ("command", "args") for word in items(at(container, field))]


def is_sentinel(resource: Resource) -> bool:
    """Whether its Pods are Sentinels."""
    server = server_of(resource)
    words = command_of(server)
    by_image = image(text(at(server, "image"))).last == "valkey-sentinel"
    labelled = at(pod_labels(resource), "app.kubernetes.io/component") == "sentinel"
    return labelled or by_image or "--sentinel" in words or any(word.endswith("valkey-sentinel") for word in words[:1])


def servers(resources: Sequence[Resource]) -> Iterator[Resource]:
    """The workloads of data servers: what runs Valkey and isn't a Sentinel."""
    for resource in resources:
        if server_of(resource) is not None and not is_sentinel(resource):
            yield resource


def namespace_of(resource: Resource) -> Any:
    """Its namespace; UNKNOWN also where it is left to the provider."""
    namespace = at(resource.props, "metadata", "namespace")
    return UNKNOWN if namespace is None else namespace


def same_namespace(one: Resource, other: Resource) -> bool:
    """Whether both are, or may be, in one namespace."""
    places = (namespace_of(one), namespace_of(other))
    return UNKNOWN in places or places[0] == places[1]


def once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """What is wrong with an instance as a whole is told once, not for each shard that it is wrong with."""
    told: set[tuple[object, str]] = set()
    for finding in findings:
        instance = at(pod_labels(finding.resource), INSTANCE_LABEL)
        whose = (str(namespace_of(finding.resource)), instance) if isinstance(instance, str) else finding.resource.urn
        if (whose, finding.detail) not in told:
            told.add((whose, finding.detail))
            yield finding


def takes(selector: Any, workload: Resource) -> bool | None:
    """Whether a label selector takes Pods of a workload, or one of them; None where that isn't known yet."""
    labels = pod_labels(workload)
    wanted, name = at(selector, "matchLabels", _POD_NAME), text(at(workload.props, "metadata", "name"))
    # Kubernetes itself writes this one on each Pod of a StatefulSet.
    own = text(wanted).rpartition("-")
    if workload.kind == "StatefulSet" and own[0] == (name or workload.name) and own[2].isdigit():
        labels = {**mapping(labels), _POD_NAME: wanted}
    return selects(selector, labels)


def configuration(workload: Resource, resources: Sequence[Resource]) -> dict[str, list[str]] | None:
    """The server's settings, as its command line and the ConfigMaps that it mounts tell them; later ones hold.

    None where not all of them are known: a ConfigMap that isn't the program's, or isn't known yet.
    """
    lines = configuration_lines(workload, resources)
    return None if lines is None else dict(lines)


def configuration_lines(workload: Resource, resources: Sequence[Resource]) -> list[tuple[str, list[str]]] | None:
    """The same line by line, for settings of which each line is one more."""
    spec = pod_spec(workload)
    if is_vague(at(spec, "volumes")) or is_vague(command_of(server_of(workload))):
        return None
    lines: list[tuple[str, list[str]]] = []
    for name in _mounted(spec, server_of(workload)):
        data = _data(name, workload, resources)
        if data is None:
            return None
        for file, content in data.items():
            if file.endswith(".conf"):
                lines += directives(content)
    return [*lines, *arguments(command_of(server_of(workload)))]


def _mounted(spec: Any, server: Any) -> Iterator[str]:
    """The ConfigMaps of the volumes that the server mounts; those of all volumes where it mounts none by name."""
    mounts = {text(at(mount, "name")) for mount in items(at(server, "volumeMounts"))}
    for volume in items(at(spec, "volumes")):
        if mounts and at(volume, "name") not in mounts:
            continue
        sources = [at(volume, "configMap", "name")]
        sources += [at(source, "configMap", "name") for source in items(at(volume, "projected", "sources"))]
        yield from (name for name in sources if isinstance(name, str))


def configs_of(workload: Resource) -> set[str]:
    """The names of all ConfigMaps that its Pods mount, or take their environment from."""
    spec = pod_spec(workload)
    names: set[Any] = set()
    for volume in items(at(spec, "volumes")):
        for source in (volume, *items(at(volume, "projected", "sources"))):
            names.add(text(at(source, "configMap", "name")))
    for container in containers(workload):
        names |= {text(at(source, "configMapRef", "name")) for source in items(at(container.spec, "envFrom"))}
        variables = items(at(container.spec, "env"))
        names |= {text(at(variable, "valueFrom", "configMapKeyRef", "name")) for variable in variables}
    return names - {""}


def _data(name: str, workload: Resource, resources: Sequence[Resource]) -> Mapping[str, str] | None:
    for resource in resources:
        if resource.kind == "ConfigMap" and resource.is_kubernetes and same_namespace(resource, workload):
            called = at(resource.props, "metadata", "name") or resource.name
            data = at(resource.props, "data")
            if called == name:
                # A ConfigMap without text has nothing to say (it may hold a program); an unknown one may say anything.
                binary = at(resource.props, "binaryData")
                missing = data is None and binary is None
                return None if missing or is_vague(data) else {str(k): text(v) for k, v in mapping(data).items()}
    return None
