"""Whose objects are these? Server-side apply would adopt somebody else's without a word."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from valkeyctl.kube.access import Api, Object, path_of, terminating
from valkeyctl.kube.errors import ApiNotFound, OwnedByOthers
from valkeyctl.kube.labels import OWNER_ANNOTATION

#: The plural names of what an instance is made of; anything else is looked up in the API's own list.
PLURALS: Mapping[str, str] = {
    "ConfigMap": "configmaps",
    "EndpointSlice": "endpointslices",
    "Lease": "leases",
    "NetworkPolicy": "networkpolicies",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "StatefulSet": "statefulsets",
}
_AT_ONCE = 4


@dataclass(frozen=True, order=True)
class Wanted:
    """An object that an instance is going to write."""

    api_version: str
    kind: str
    name: str


@dataclass(frozen=True)
class Foreign:
    """An object that exists and is not ours; `owner` is "" where it carries none."""

    wanted: Wanted
    owner: str

    def __str__(self) -> str:
        return f"{self.wanted.kind} {self.wanted.name} " + (f"of {self.owner}" if self.owner else "(without owner)")


def foreign(wanted: Iterable[Wanted], found: Mapping[Wanted, Object], owners: Collection[str]) -> list[Foreign]:
    """Those of `wanted` that exist in `found` and belong to none of `owners`. Pure."""
    workloads = {one.name for one, item in found.items() if one.kind == "StatefulSet" and owner_of(item) in owners}
    result: list[Foreign] = []
    for one in wanted:
        known = found.get(one)
        if known is not None:
            owner = owner_of(known)
            if owner not in owners and not (owner == "" and made_for(one, workloads)):
                result.append(Foreign(one, owner))
    return result


def made_for(one: Wanted, workloads: Collection[str]) -> bool:
    """Whether it is a claim of one of these StatefulSets, `<template>-<StatefulSet>-<ordinal>`.

    Where a claim was deleted by hand, the StatefulSets' controller makes another one for the next Pod, and gives it no
    owner.
    """
    workload, _, ordinal = one.name.partition("-")[2].rpartition("-")
    return one.kind == "PersistentVolumeClaim" and ordinal.isdecimal() and workload in workloads


def owner_of(known: Object) -> str:
    """The owner that an object carries, "" for none."""
    return str((known["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) or "")


def find(api: Api, namespace: str, wanted: Collection[Wanted]) -> dict[Wanted, Object]:
    """Those of the wanted objects that exist, with their metadata: one request for each kind, a few at once."""
    kinds = sorted({(one.api_version, one.kind) for one in wanted})

    def listed(kind: tuple[str, str]) -> dict[Wanted, Object]:
        path = path_of(kind[0], plural_of(api, *kind), namespace)
        try:
            items = api.items(path, metadata_only=True)
        except ApiNotFound:
            return {}
        return {Wanted(*kind, str(item["metadata"]["name"])): item for item in items}

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        every = list(pool.map(listed, kinds))
    names = set(wanted)
    return {one: item for found in every for one, item in found.items() if one in names}


def refuse_foreign(
    api: Api, namespace: str, wanted: Collection[Wanted], owners: Collection[str]
) -> Mapping[Wanted, Object]:
    """Raises OwnedByOthers, naming each, where one of the objects exists and is not ours; else those that exist.

    Writes nothing.
    """
    found = find(api, namespace, wanted)
    others = foreign(sorted(set(wanted)), found, owners)
    if not others:
        return found
    named = ", ".join(str(one) for one in others[:10]) + (f" and {len(others) - 10} more" if len(others) > 10 else "")
    example = others[0].wanted
    mine = next(iter(owners), "")
    raise OwnedByOthers(
        f"namespace {namespace} already holds what this instance would write: {named}",
        remedy="Choose another name or namespace, or delete them. To hand one over on purpose, kubectl -n "
        f"{namespace} annotate {example.kind.lower()} {example.name} --overwrite {OWNER_ANNOTATION}={mine}",
    )


def remove_owned(api: Api, namespace: str, wanted: Collection[Wanted], owners: Collection[str]) -> list[Wanted]:
    """Deletes those of the objects that exist and are one of the owners'; returns them. Idempotent.

    Not those that are being deleted: they go when what they wait for, the Pods of a StatefulSet, has gone.
    """
    removed: list[Wanted] = []
    for one, known in sorted(find(api, namespace, wanted).items(), key=lambda item: item[0]):
        if owner_of(known) in owners and not terminating(known):
            path = path_of(one.api_version, plural_of(api, one.api_version, one.kind), namespace, one.name)
            if api.delete(path, uid=str(known["metadata"]["uid"])):
                removed.append(one)
    return removed


def plural_of(api: Api, api_version: str, kind: str) -> str:
    """The plural name under which the API serves a kind."""
    known = PLURALS.get(kind)
    if known:
        return known
    root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
    for resource in api.get(root).get("resources") or []:
        if resource.get("kind") == kind and "/" not in str(resource.get("name")):
            return str(resource["name"])
    raise ApiNotFound(f"the API server knows no {kind} in {api_version}")
