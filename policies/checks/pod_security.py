"""The `restricted` Pod Security Standard, as Kubernetes defines it, for Linux Pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import UNKNOWN, Finding, Params, Resource, Surroundings
from ..pods import Container, containers, pod_spec
from ..reading import at, is_vague, items, text, whole

_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_SECCOMP = ("RuntimeDefault", "Localhost")


def restricted(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Everything in which the Pods are less than restricted, each with its field."""
    spec = pod_spec(resource)
    if spec is None or spec is UNKNOWN:
        return
    found = [*_pod(spec), *(wrong for one in containers(resource) for wrong in _container(one, spec, params))]
    for wrong in found:
        yield Finding(resource, wrong)


def _pod(spec: Any) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if at(spec, field) is True:
            yield f"its Pods share the node's namespace ({field})"
    for volume in items(at(spec, "volumes")):
        kinds = [key for key, value in dict(volume).items() if key != "name" and value is not None]
        for kind in kinds:
            if kind not in _VOLUMES:
                yield f"its Pods mount a volume of the kind {kind} ({text(at(volume, 'name'))})"


def _container(container: Container, spec: Any, params: Params) -> Iterator[str]:
    own, pods = at(container.spec, "securityContext"), at(spec, "securityContext")
    if is_vague(own) or is_vague(pods):
        return
    where = container.where
    if at(own, "privileged") is True:
        yield f"{where} is privileged"
    if at(own, "allowPrivilegeEscalation") is not False:
        yield f"{where} may gain privileges (allowPrivilegeEscalation isn't false)"
    capabilities = at(own, "capabilities")
    if "ALL" not in items(at(capabilities, "drop")):
        yield f"{where} keeps capabilities (capabilities.drop lacks ALL)"
    if set(map(str, items(at(capabilities, "add")))) - {"NET_BIND_SERVICE"}:
        yield f"{where} adds capabilities"
    if _either(own, pods, "runAsNonRoot") is not True:
        yield f"{where} may run as root (runAsNonRoot isn't true)"
    if whole(_either(own, pods, "runAsUser")) == 0:
        yield f"{where} runs as root (runAsUser is 0)"
    if text(at(_either(own, pods, "seccompProfile"), "type")) not in _SECCOMP:
        yield f"{where} has no seccomp profile (seccompProfile.type)"
    if params["readOnlyRoot"] and at(own, "readOnlyRootFilesystem") is not True:
        yield f"{where} may write to its root (readOnlyRootFilesystem isn't true)"
    if any(at(port, "hostPort") for port in items(at(container.spec, "ports"))):
        yield f"{where} takes a port of its node (hostPort)"


def _either(own: Any, pods: Any, field: str) -> Any:
    """A container's own word counts, else its Pod's."""
    stated = at(own, field)
    return at(pods, field) if stated is None else stated
