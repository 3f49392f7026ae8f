"""What an instance can't become in place: a cluster is no dataset, and no dataset a cluster."""

from __future__ import annotations

from collections.abc import Collection

from valkeyctl.kube.access import Object, path_of
from valkeyctl.kube.declared import declared_architecture
from valkeyctl.kube.labels import CLUSTER, OWNER_ANNOTATION, declared_name
from valkeyctl.kube.status import read_status
from valkeyctl.lifecycle.changes import ChangeRefused
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.session import api_of


def refuse_another_kind(place: Place, architecture: str, owners: Collection[str]) -> None:
    """Refuses `architecture` where the instance is there already, and of another kind. Errors: ChangeRefused; those of
    the API.

    `replica` and `failover` become each other: their data and their objects are the same.
    """
    api = api_of(place)
    known = api.find(path_of("v1", "configmaps", place.namespace, declared_name(place.instance)))
    before = declared_architecture(known)
    if not before or (before == CLUSTER) == (architecture == CLUSTER) or _owner(known) not in owners:
        return
    status = read_status(api, place.namespace, place.instance)
    if status is None or status.destroying:
        return
    raise ChangeRefused(
        f"{place.instance} is a {before} instance, and {architecture} is declared: "
        + (
            "its keys are spread over shards by slots, which one dataset hasn't"
            if before == CLUSTER
            else "a server that isn't part of a cluster can't become one with its data, and clients have to speak "
            "otherwise to a cluster"
        ),
        where="architecture",
        remedy=f"Put `architecture: {before}` back. To change it, declare a new instance of the architecture "
        f"{architecture} beside it, copy the data, lead the applications there, and take {place.instance} out then.",
    )


def _owner(known: Object | None) -> str:
    metadata = (known or {}).get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(OWNER_ANNOTATION) or "")
