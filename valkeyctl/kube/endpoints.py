"""The EndpointSlices behind a dataset's Services `<instance>-rw` and `<instance>-ro`, written by hand.

Those Services have no selector, so that a switch is one atomic write: the old primary's address goes as the new one's
comes. `up` makes the slices; `up` and the agents write them, each only over what it has read. So a writer that was
frozen between looking and writing is refused, and looks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from valkeyctl.dataplane.model import Endpoint
from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.errors import ApiConflict
from valkeyctl.kube.labels import (
    MANAGER,
    OWNER_ANNOTATION,
    instance_labels,
    primary_service_name,
    replicas_service_name,
)

GROUP = "discovery.k8s.io/v1"
SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_LABEL = "endpointslice.kubernetes.io/managed-by"
PORT_NAME = "valkey"
"""The name of the port, in the Services as here."""


@dataclass(frozen=True)
class Wanted:
    """Who is to be behind the Services: `rw` behind that of the primary, `ro` behind that of the replicas.

    None leaves a slice as it is: of whom nothing is known, nothing is said.
    """

    rw: tuple[Endpoint, ...] | None = None
    ro: tuple[Endpoint, ...] | None = None


def wanted(primary: Endpoint | None, replicas: Sequence[Endpoint]) -> Wanted:
    """Who is to be behind them: the one primary; and the replicas in sync, or where there are none the primary. Pure.

    Without a known primary nothing changes: the one that is there may serve still, and only we not see it.
    """
    if primary is None:
        return Wanted()
    others = tuple(sorted((one for one in replicas if one.member != primary.member), key=lambda one: one.member))
    return Wanted(rw=(primary,), ro=others or (primary,))


def slice_path(namespace: str, name: str | None = None) -> str:
    """Where a slice is; where they are created without a name."""
    return path_of(GROUP, "endpointslices", namespace, name)


def ensure_endpoints(api: Api, namespace: str, instance: str, owner: str, *, architecture: str) -> None:
    """Makes both slices, empty, where there are none: agents may write them and not make them. Idempotent.

    They are of the family of addresses that the Service has.
    """
    for name in (primary_service_name(instance), replicas_service_name(instance)):
        if api.find(slice_path(namespace, name)) is not None:
            continue
        service = api.find(path_of("v1", "services", namespace, name)) or {}
        families: list[str] = (service.get("spec") or {}).get("ipFamilies") or ["IPv4"]
        with suppress(ApiConflict):
            body = new_slice(namespace, instance, name, owner, architecture=architecture, family=families[0])
            api.create(slice_path(namespace), body)


def remove_endpoints(api: Api, namespace: str, instance: str, owner: str) -> None:
    """Deletes both slices, where they are this owner's. Idempotent."""
    for name in (primary_service_name(instance), replicas_service_name(instance)):
        path = slice_path(namespace, name)
        known = api.find(path)
        if known is not None and (known["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) in (
            "",
            None,
            owner,
        ):
            api.delete(path, uid=str(known["metadata"]["uid"]))


def write_endpoints(api: Api, namespace: str, instance: str, what: Wanted) -> tuple[str, ...]:
    """Writes what differs, that of the primary first; one line for each slice that was written. Idempotent.

    Errors: ApiConflict where somebody else wrote meanwhile, so that one has to look again before another try;
    ApiNotFound where there is no slice, which `up` makes; those of the API.
    """
    lines: list[str] = []
    for name, endpoints in ((primary_service_name(instance), what.rw), (replicas_service_name(instance), what.ro)):
        if endpoints is None:
            continue
        path = slice_path(namespace, name)
        known = api.get(path)
        body = filled(known, endpoints)
        if body is not None:
            api.replace(path, body)
            lines.append(f"{name}: {', '.join(str(one.member) for one in endpoints) or 'nobody'}")
    return tuple(lines)


def new_slice(
    namespace: str, instance: str, name: str, owner: str, *, architecture: str, family: str = "IPv4"
) -> Object:
    """An empty slice behind the Service of the same name. Pure."""
    labels = {**instance_labels(instance, architecture), SERVICE_LABEL: name, MANAGED_LABEL: MANAGER}
    return {
        "apiVersion": GROUP,
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {OWNER_ANNOTATION: owner},
        },
        "addressType": family,
        "endpoints": [],
        "ports": [],
    }


def filled(known: Object, endpoints: Sequence[Endpoint]) -> Object | None:
    """A slice with these members in it, over what was read of it; None where it has just them already. Pure."""
    namespace = str(known["metadata"]["namespace"])
    members = [_entry(one, namespace) for one in endpoints]
    ports = [{"name": PORT_NAME, "port": one.port, "protocol": "TCP"} for one in endpoints[:1]]
    if _same(known.get("endpoints") or [], members) and _same(known.get("ports") or [], ports):
        return None
    return {**known, "endpoints": members, "ports": ports}


def members_in(known: Object) -> tuple[str, ...]:
    """The names of the Pods that a slice has, in its order. Pure."""
    return tuple(str((entry.get("targetRef") or {}).get("name") or "") for entry in known.get("endpoints") or [])


def _entry(one: Endpoint, namespace: str) -> Object:
    return {
        "addresses": [one.address],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "targetRef": {"kind": "Pod", "name": one.pod, "namespace": namespace},
    }


def _same(known: Sequence[Mapping[str, Any]], made: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each has all that was made; what the API server adds by itself doesn't count."""
    return len(known) == len(made) and all(
        all(there.get(key) == value for key, value in one.items()) for there, one in zip(known, made, strict=True)
    )
