"""Namespaces: created where absent, deleted only where they are ours and nothing that must stay is in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from valkeyctl.kube.access import Api, Object, path_of, terminating
from valkeyctl.kube.errors import ApiConflict, ApiError, ApiForbidden, ApiNotFound
from valkeyctl.kube.labels import MANAGED_BY_LABEL, OWNER_ANNOTATION

RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/warn": "restricted",
}
TERMINATING_WAIT_S = 120.0
GONE_WAIT_S = 60.0
_POLL_S = 0.5
_AT_ONCE = 8
#: What every namespace gets by itself, or what goes with something else that is counted.
_IGNORED_KINDS = frozenset({"Event", "Endpoints", "EndpointSlice", "ControllerRevision", "PodMetrics", "Binding"})
_IGNORED = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})


def stack_of(owner: str) -> str:
    """The stack in an owner `<organization>/<project>/<stack>/<instance>`: instances of one stack share a namespace."""
    return "/".join(owner.split("/")[:3])


def ensure_namespace(
    api: Api,
    name: str,
    owner: str,
    progress: Callable[[str], None],
    *,
    former: Iterable[str] = (),
    wait_s: float = TERMINATING_WAIT_S,
) -> bool:
    """Creates the namespace, ours and restricted, where it is absent. True where it is ours, new or old. Idempotent.

    One that is being deleted is waited for, one of a `former` owner taken along. Errors: ApiError where
    that takes longer than `wait_s`.
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
    if is_ours(known, owner):
        api.merge(path, {"metadata": {"labels": body["metadata"]["labels"]}})
        return True
    if any(is_ours(known, one) for one in former):
        written = {key: body["metadata"][key] for key in ("labels", "annotations")}
        api.merge(path, {"metadata": written})
        return True
    return False


def delete_namespace(
    api: Api, name: str, owner: str, progress: Callable[[str], None], wait_s: float = GONE_WAIT_S
) -> str:
    """Deletes the namespace if the stack of `owner` created it and nothing in it has to stay; waits until it is gone.

    Returns what a person should know: why it was kept, or that it is not gone yet; "" where it is gone. Idempotent.
    """
    path = path_of("v1", "namespaces", None, name)
    known = api.find(path)
    if known is None:
        return ""
    if not is_ours(known, owner):
        return f"namespace {name} was not created by this stack, and stays"
    if not terminating(known):
        try:
            kept = contents(api, name, lambda kind, item: _lifecycle_trace(kind, item, owner))
        except ApiForbidden as error:
            return f"namespace {name} stays: what is in it cannot be seen ({error.what})"
        if kept:
            told = ", ".join(kept[:8]) + (f" and {len(kept) - 8} more" if len(kept) > 8 else "")
            return f"namespace {name} stays, for what is in it: {told}"
        api.delete(path, uid=str(known["metadata"]["uid"]))
    progress(f"waiting until namespace {name} is gone")
    left = wait_gone(api, name, wait_s)
    return "" if left is None else f"namespace {name} is not gone after {wait_s:.0f} s: {hindrance(left)}"


def _lifecycle_trace(kind: str, item: Object, owner: str) -> bool:
    """The status and the Lease of an instance of this stack: they go with the instance, just after the namespace."""
    marked = str((item["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) or "")
    name = str(item["metadata"]["name"])
    ours = bool(marked) and stack_of(marked) == stack_of(owner)
    return ours and (kind == "Lease" or (kind == "ConfigMap" and name.endswith("-status")))


def is_ours(namespace: Object, owner: str) -> bool:
    """Whether the stack of `owner` created the namespace."""
    marked = str((namespace["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) or "")
    return bool(marked) and stack_of(marked) == stack_of(owner)


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
    if (kind, metadata["name"]) in _IGNORED or terminating(item):
        return False
    # What has an owner goes with it, and the owner is counted where it stays. That includes claims: one that has to
    # stay is not owned by its StatefulSet.
    if metadata.get("ownerReferences"):
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
