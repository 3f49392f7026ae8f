"""Namespaces: created where absent, deleted only where they are ours and nothing that must stay is in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.errors import ApiConflict, ApiError, ApiForbidden, ApiNotFound
from valkeyctl.kube.labels import MANAGED_BY_LABEL, OWNER_ANNOTATION

RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/warn": "restricted",
}
TERMINATING_WAIT_S = 120.0
_POLL_S = 0.5
_AT_ONCE = 8
#: What every namespace gets by itself, or what goes with something else that is counted.
_IGNORED_KINDS = frozenset({"Event", "Endpoints", "EndpointSlice", "ControllerRevision", "PodMetrics", "Binding"})
_IGNORED = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})


def stack_of(owner: str) -> str:
    """The stack in an owner `<organization>/<project>/<stack>/<instance>`: instances of one stack share a namespace."""
    return "/".join(owner.split("/")[:3])


def ensure_namespace(
    api: Api, name: str, owner: str, progress: Callable[[str], None], wait_s: float = TERMINATING_WAIT_S
) -> bool:
    """Creates the namespace, ours and restricted, where it is absent. True where it is ours, new or old. Idempotent.

    One that is being deleted is waited for. Errors: ApiError where that takes longer than `wait_s`.
    """
    path = path_of("v1", "namespaces", None, name)
    body: Object = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {MANAGED_BY_LABEL: "pulumi", **RESTRICTED},
            "annotations": {OWNER_ANNOTATION: owner},
        },
    }
    known = api.find(path)
    if known is not None and terminating(known):
        progress(f"waiting for namespace {name}, which is still being deleted")
        left = wait_gone(api, name, wait_s)
        if left is not None:
            raise ApiError(f"namespace {name} is still being deleted after {wait_s:.0f} s: {hindrance(left)}")
        known = None
    if known is None:
        try:
            api.create("/api/v1/namespaces", body)
        except ApiConflict:
            known = api.get(path)
        else:
            return True
    if not is_ours(known, owner):
        return False
    api.merge(path, {"metadata": {"labels": body["metadata"]["labels"]}})
    return True


def is_ours(namespace: Object, owner: str) -> bool:
    """Whether the stack of `owner` created the namespace."""
    marked = str((namespace["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) or "")
    return bool(marked) and stack_of(marked) == stack_of(owner)


def terminating(namespace: Object) -> bool:
    """Whether the namespace is being deleted."""
    return bool(namespace["metadata"].get("deletionTimestamp"))


def hindrance(namespace: Object) -> str:
    """What keeps a namespace from being gone, as its conditions tell."""
    conditions = (namespace.get("status") or {}).get("conditions") or []
    told = [str(c.get("message")) for c in conditions if c.get("status") == "True" and c.get("message")]
    return "; ".join(told) or "its contents are still being deleted"


def wait_gone(api: Api, name: str, wait_s: float) -> Object | None:
    """Waits until the namespace is gone, and returns None; or what is left of it after `wait_s`."""
    deadline = time.monotonic() + wait_s
    while True:
        known = api.find(path_of("v1", "namespaces", None, name))
        if known is None or time.monotonic() >= deadline:
            return known
        time.sleep(_POLL_S)


def contents(api: Api, namespace: str, ignored: Callable[[str, Object], bool]) -> list[str]:
    """What is in a namespace that no controller of Kubernetes put there, as "kind name", apart from what is `ignored`.

    Errors: ApiForbidden where a kind may not be listed, since what cannot be seen cannot be called empty.
    """

    def listed(kind: tuple[str, str, str]) -> list[str]:
        version, plural, name = kind
        try:
            items = api.items(path_of(version, plural, namespace), metadata_only=True)
        except ApiNotFound:
            return []
        except ApiForbidden:
            raise
        except ApiError as error:
            if error.status == 405:
                return []
            raise
        return [f"{name} {item['metadata']['name']}" for item in items if _counts(name, item, ignored)]

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        found = list(pool.map(listed, sorted(set(_namespaced(api)))))
    return sorted({one for some in found for one in some})


def _counts(kind: str, item: Object, ignored: Callable[[str, Object], bool]) -> bool:
    metadata = item["metadata"]
    if (kind, metadata["name"]) in _IGNORED or metadata.get("deletionTimestamp"):
        return False
    # A claim that outlives its StatefulSet may still name it as an owner; whether it stays is what matters here.
    if kind != "PersistentVolumeClaim" and any(o.get("controller") for o in metadata.get("ownerReferences") or []):
        return False
    return not ignored(kind, item)


def _namespaced(api: Api) -> Iterable[tuple[str, str, str]]:
    """Every kind that can be listed and deleted in a namespace, as (apiVersion, plural, kind)."""
    groups = api.get("/apis").get("groups") or []
    for version in ["v1", *(str(group["preferredVersion"]["groupVersion"]) for group in groups)]:
        root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        try:
            resources = api.get(root).get("resources") or []
        except (ApiNotFound, ApiError):
            continue  # An aggregated API whose server is away: its kinds cannot be asked for now.
        for resource in resources:
            verbs = set(resource.get("verbs") or [])
            plain = "/" not in str(resource["name"]) and resource.get("kind") not in _IGNORED_KINDS
            if plain and resource.get("namespaced") and {"list", "delete"} <= verbs:
                yield version, str(resource["name"]), str(resource["kind"])
