"""The `restricted` Pod Security Standard, as Kubernetes defines it, for Linux Pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import UNKNOWN, Finding, Params, Resource, Surroundings
from ..pods import Container, containers, pod_spec
from ..reading import at, is_vague, items, mapping, text, whole

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
_APP_ARMOR = (None, "", UNKNOWN, "RuntimeDefault", "Localhost")
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)


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
    for sysctl in items(at(spec, "securityContext", "sysctls")):
        if (name := text(at(sysctl, "name"))) and name not in _SYSCTLS:
            yield f"its Pods set a sysctl that isn't safe ({name})"
    for volume in items(at(spec, "volumes")):
        kinds = [key for key, value in mapping(volume).items() if key != "name" and value is not None]
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
    yield from _kernel(where, own, pods)
    if params["readOnlyRoot"] and at(own, "readOnlyRootFilesystem") is not True:
        yield f"{where} may write to its root (readOnlyRootFilesystem isn't true)"
    if any(at(port, "hostPort") for port in items(at(container.spec, "ports"))):
        yield f"{where} takes a port of its node (hostPort)"


def _kernel(where: str, own: Any, pods: Any) -> Iterator[str]:
    """What keeps a container apart from its node, turned off."""
    if at(_either(own, pods, "windowsOptions"), "hostProcess") is True:
        yield f"{where} runs as a process of its node (windowsOptions.hostProcess)"
    if at(own, "procMount") not in (None, "", "Default"):
        yield f"{where} sees what is hidden in /proc (procMount)"
    if at(_either(own, pods, "appArmorProfile"), "type") not in _APP_ARMOR:
        yield f"{where} turns AppArmor off (appArmorProfile.type)"
    selinux = _either(own, pods, "seLinuxOptions")
    if text(at(selinux, "type")) not in _SELINUX_TYPES or text(at(selinux, "user")) or text(at(selinux, "role")):
        yield f"{where} runs with an SELinux context of its own (seLinuxOptions)"


def _either(own: Any, pods: Any, field: str) -> Any:
    """A container's own word counts, else its Pod's."""
    stated = at(own, field)
    return at(pods, field) if stated is None else stated
