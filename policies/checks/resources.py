"""CPU and memory, and how long a server has to stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model import UNKNOWN, Finding, Params, Resource, Surroundings
from ..pods import configuration, containers, once, pod_spec, server_of, servers
from ..reading import at, is_reference, is_vague, items, memory_bytes, quantity, text, whole

_DEFAULT_GRACE_S = 30


def declared(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Containers that don't say what they need, or what they may take."""
    for container in containers(resource):
        lacking = [
            name.replace("requests.", "request for ").replace("limits.", "limit of ")
            for name in params["required"]
            # A limit of zero is none to the kubelet.
            if (stated := at(container.spec, "resources", *name.split("."))) in (None, "") or quantity(stated) == 0
        ]
        if lacking:
            yield Finding(resource, f"{container.where} has no {' and no '.join(lacking)}")


def maxmemory(resources: Sequence[Resource], params: Params, _: Surroundings) -> Iterator[Finding]:
    """Servers whose dataset may take what the container may not."""
    yield from once(_maxmemory(resources, params))


def _maxmemory(resources: Sequence[Resource], params: Params) -> Iterator[Finding]:
    for workload in servers(resources):
        limit = quantity(at(server_of(workload), "resources", "limits", "memory"))
        settings = configuration(workload, resources)
        if limit is None or settings is None:
            continue
        stated = " ".join(settings.get("maxmemory", ["0"]))
        if "include" in settings and "maxmemory" not in settings:
            continue
        value, most = memory_bytes(stated), int(limit * params["maxPercent"] / 100)
        if value == 0:
            yield Finding(workload, "its servers have no maxmemory, and a memory limit")
        elif value is None and not is_reference(stated):
            yield Finding(workload, f"maxmemory is {stated}, which no server takes as an amount of bytes")
        elif value is not None and value > most:
            allowed = f"{params['maxPercent']} % of the memory limit of {int(limit)} bytes is {most}"
            yield Finding(workload, f"maxmemory is {value} bytes, and {allowed}")


def grace_period(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Servers that are killed before they could hand over, or write what they have."""
    if server_of(resource) is None:
        return
    spec = pod_spec(resource)
    stated = at(spec, "terminationGracePeriodSeconds")
    if stated is UNKNOWN:
        return
    seconds = _DEFAULT_GRACE_S if stated is None else whole(stated) or 0
    least, why = params["seconds"], "a server needs"
    if is_persistent(resource):
        least, why = max(least, params["secondsPersistent"]), "a server that writes to a disk needs"
    if seconds < least:
        yield Finding(resource, f"its Pods have {seconds} s to stop, and {why} {least}")


def is_persistent(resource: Resource) -> bool:
    """Whether its Pods keep data on volumes that outlive them, as far as that is known."""
    claimed = (
        text(at(volume, "persistentVolumeClaim", "claimName")) for volume in items(at(pod_spec(resource), "volumes"))
    )
    return bool(items(at(resource.props, "spec", "volumeClaimTemplates"))) or any(claimed)


def may_be_persistent(resource: Resource) -> bool:
    """The same, where what isn't known counts as a volume."""
    templates, volumes = at(resource.props, "spec", "volumeClaimTemplates"), at(pod_spec(resource), "volumes")
    return is_persistent(resource) or is_vague(templates) or is_vague(volumes)
