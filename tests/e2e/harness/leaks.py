"""Looks for secrets where none may be."""

import base64
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from tests.e2e.harness.kube import GROUPS, Kube
from tests.e2e.harness.program import Stack

_PROCESSES = "for f in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do tr '\\0' ' ' < $f; echo; done 2>/dev/null"


def secret_of(kube: Kube, namespace: str, name: str, key: str) -> str:
    """The text in a Secret."""
    secret = kube.get("secrets", namespace, name)
    assert secret is not None, f"no Secret {name}"
    return base64.b64decode(secret["data"][key]).decode()


def spellings(secret: str) -> list[str]:
    """Ways in which a careless program writes a secret."""
    return [secret, base64.b64encode(secret.encode()).decode(), quote(secret, safe="")]


def leaks(kube: Kube, stack: Stack, namespace: str, secrets: Iterable[str]) -> list[str]:
    """The places outside Secrets where one of `secrets` is readable."""
    wanted = [text for secret in secrets for text in spellings(secret)]
    places = list(_places(kube, stack, namespace))
    assert len(places) > 10, "hardly any place was looked at"
    return [where for where, text in places if any(secret in text for secret in wanted)]


def _places(kube: Kube, stack: Stack, namespace: str) -> Iterator[tuple[str, str]]:
    yield "stack export", stack.run("stack", "export").output
    yield "stack output", stack.run("stack", "output", "--json", "--show-secrets").output
    for result in stack.results:
        yield f"output of {result.arguments}", result.output
        if result.log.path.exists():
            yield f"events of {result.arguments}", result.log.path.read_text()
    # State, its backups and the history of updates.
    for path in stack.backend.rglob("*"):
        if path.is_file():
            yield f"backend {path.relative_to(stack.backend)}", path.read_text(errors="replace")
    for path in (stack.project / "stacks").iterdir():
        yield f"config {path.name}", path.read_text()
    for kind in GROUPS:
        for item in kube.items(kind, namespace):
            name = item["metadata"]["name"]
            # A Secret's bytes are where they belong; its annotations are readable to more people.
            shown = item["metadata"] if kind == "secrets" else item
            yield f"{kind} {name}", str(shown)
            if kind == "pods":
                for container in item["spec"]["containers"]:
                    where = container["name"]
                    done = kube.execute(namespace, name, ["sh", "-c", _PROCESSES], container=where)
                    assert "PATH=" in done.out, f"{name}/{where}: its processes were not readable: {done.err}"
                    yield f"processes of {name}/{where}", done.out
                    log = kube.text(f"{kube.path('pods', namespace, name)}/log", container=where)
                    yield f"log of {name}/{where}", log
