"""What keeps data: volumes, what happens to them, and changes that would lose what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..model import UNKNOWN, Finding, Params, Resource, Surroundings
from ..pods import is_sentinel, server_of
from ..reading import at, is_vague, items, text
from .resources import may_be_persistent

#: Written by the component on the claims that it declares, since an object in Kubernetes has no other word for it.
RECLAIM_ANNOTATION = "valkeyctl/reclaim-policy"
_SERVING = ("StatefulSet", "Deployment")
_KEEPS = ("StatefulSet", "PersistentVolumeClaim")
#: Fields of which Kubernetes lets nobody change any, so that Pulumi replaces the object.
_FIXED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "StatefulSet": (
        ("metadata", "name"),
        ("metadata", "namespace"),
        ("spec", "podManagementPolicy"),
        ("spec", "revisionHistoryLimit"),
        ("spec", "selector"),
        ("spec", "serviceName"),
        ("spec", "volumeClaimTemplates"),
    ),
    "PersistentVolumeClaim": (
        ("metadata", "name"),
        ("metadata", "namespace"),
        ("spec", "accessModes"),
        ("spec", "selector"),
        ("spec", "storageClassName"),
        ("spec", "volumeName"),
    ),
}
#: What holds where a program says nothing.
_UNSAID = {"spec.podManagementPolicy": "OrderedReady"}
TOPOLOGY = "pulumi-python:dynamic/valkey:Topology"


def retained(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Data that lives in memory only, and volumes that go with what used them."""
    if resource.kind in _SERVING and server_of(resource) is not None and not is_sentinel(resource):
        if params["required"] and not may_be_persistent(resource):
            yield Finding(resource, "its servers keep their data in memory only: there is no volume")
        policy = at(resource.props, "spec", "persistentVolumeClaimRetentionPolicy")
        for when in ("whenDeleted", "whenScaled"):
            if at(policy, when) == "Delete":
                yield Finding(resource, f"deletes its volume claims (persistentVolumeClaimRetentionPolicy.{when})")
    elif resource.kind == "PersistentVolumeClaim" and resource.is_kubernetes:
        if at(resource.props, "metadata", "annotations", RECLAIM_ANNOTATION) == "Delete":
            yield Finding(resource, "is deleted with its instance (reclaimPolicy: Delete)")
    elif resource.kind in ("StorageClass", "PersistentVolume"):
        field = "reclaimPolicy" if resource.kind == "StorageClass" else "persistentVolumeReclaimPolicy"
        stated = at(resource.props, *(("spec", field) if resource.kind == "PersistentVolume" else (field,)))
        # A class that says nothing deletes.
        by_default = (
            resource.kind == "StorageClass" and stated is None and bool(text(at(resource.props, "provisioner")))
        )
        if stated == "Delete" or by_default:
            yield Finding(resource, f"lets volumes go with their claims ({field}: Delete)")


def storage_classes(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Volumes of another class than the approved ones."""
    approved: Sequence[str] = params["classes"]
    if not approved or not resource.is_kubernetes:
        return
    specs = [at(resource.props, "spec")] if resource.kind == "PersistentVolumeClaim" else []
    if resource.kind == "StatefulSet":
        specs = [at(template, "spec") for template in items(at(resource.props, "spec", "volumeClaimTemplates"))]
    for spec in specs:
        name = at(spec, "storageClassName")
        if spec is None or name is UNKNOWN or name in approved:
            continue
        what = f"storage class {name}" if name else "the cluster's default storage class, whichever that is"
        yield Finding(resource, f"takes {what}, and approved are only {', '.join(approved)}")


def protected(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """What a slip could delete."""
    if resource.is_kubernetes and resource.kind in params["kinds"] and not resource.protect:
        yield Finding(resource, "isn't protected from deletion (Pulumi's option protect)")


def kept(resources: Sequence[Resource], params: Params, surroundings: Surroundings) -> Iterator[Finding]:
    """Changes that delete or replace what holds data. A claim that Pulumi retains is no loss."""
    now = {resource.urn: resource for resource in resources}
    for urn, old in surroundings.before().items():
        if old.kind not in _KEEPS or not old.is_kubernetes or _allowed(old, params):
            continue
        new = now.get(urn)
        if new is None:
            if not old.retained:
                yield Finding(old, "would be deleted, and what it holds with it")
        elif fields := list(_replacing(old, new)):
            yield Finding(new, f"would be replaced, all its Pods or its data at once ({', '.join(fields)} changed)")


def slots_moved(resource: Resource, params: Params, surroundings: Surroundings) -> Iterator[Finding]:
    """Layouts that move more slots in one `up` than was agreed on."""
    if resource.type != TOPOLOGY:
        return
    planned = at(resource.props, "layout")
    old = surroundings.before().get(resource.urn)
    if old is None or planned is UNKNOWN or is_vague(planned) or not isinstance(planned, Mapping):
        return
    known = at(old.props, "planned_layout") or at(old.props, "layout")
    moved = slots_that_move(_layout(known), _layout(planned))
    if moved > params["maxSlots"]:
        yield Finding(resource, f"would move {moved} slots in one `up`, and at most {params['maxSlots']} may")


def slots_that_move(old: Mapping[str, frozenset[int]], new: Mapping[str, frozenset[int]]) -> int:
    """How many slots have another shard afterwards. A slot that nobody had moves nowhere."""
    before = {slot: shard for shard, slots in old.items() for slot in slots}
    return sum(before.get(slot, shard) != shard for shard, slots in new.items() for slot in slots)


def _layout(layout: Any) -> dict[str, frozenset[int]]:
    """Shard → its slots, from `{"s0": "0-5460,7000", …}`."""
    shards: Mapping[str, Any] = layout if isinstance(layout, Mapping) else {}
    return {str(shard): frozenset(_slots(text(ranges))) for shard, ranges in shards.items()}


def _slots(ranges: str) -> Iterator[int]:
    for part in filter(None, ranges.replace(" ", "").split(",")):
        if match := re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part):
            yield from range(int(match[1]), int(match[2] or match[1]) + 1)


def _allowed(resource: Resource, params: Params) -> bool:
    return any(fnmatchcase(resource.name, pattern) for pattern in params["allowed"])


def _replacing(old: Resource, new: Resource) -> Iterator[str]:
    """The fixed fields that both tell, and tell differently."""
    for path in _FIXED[old.kind]:
        field = ".".join(path)
        was, is_ = at(old.props, *path), at(new.props, *path)
        if any(field == ignored or field.startswith(f"{ignored}.") for ignored in new.ignore_changes):
            continue
        if is_vague(was) or is_vague(is_) or any(at(one.props, path[0]) is None for one in (old, new)):
            continue
        was, is_ = was or _UNSAID.get(field), is_ or _UNSAID.get(field)
        # Kubernetes adds nothing to a selector, and no template where there is none.
        more = field == "spec.selector" and was != is_
        more = more or (field == "spec.volumeClaimTemplates" and bool(was) != bool(is_))
        if more or (was is not None and is_ is not None and not _alike(was, is_)):
            yield field


def _alike(was: Any, is_: Any) -> bool:
    """Whether what the program declared (`was`) is still in what is (`is_`), which may tell defaults too."""
    if isinstance(was, Mapping) and isinstance(is_, Mapping):
        return all(key in is_ and _alike(part, is_[key]) for key, part in was.items())
    if isinstance(was, list) and isinstance(is_, Sequence) and not isinstance(is_, str):
        return len(was) == len(is_) and all(map(_alike, was, is_))
    return bool(was == is_)
