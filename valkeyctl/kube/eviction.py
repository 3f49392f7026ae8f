"""Pods that are to be made anew: evicted, so that disruption budgets have their say, or deleted where nothing runs."""

from __future__ import annotations

from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.errors import ApiBusy, ApiConflict, ApiNotFound

TOO_MANY_REQUESTS = 429


def evict(api: Api, namespace: str, pod: str, *, uid: str) -> str:
    """Evicts this very Pod. "" when it goes, or has gone; else why it may not go now, in the API server's words.

    Idempotent. Errors: those of the API, ApiForbidden where the user lacks `create` on `pods/eviction`.
    """
    body: Object = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    try:
        api.create(f"{path_of('v1', 'pods', namespace, pod)}/eviction", body)
    except (ApiNotFound, ApiConflict):
        return ""  # Gone, or another Pod is there by now.
    except ApiBusy as error:
        if error.status != TOO_MANY_REQUESTS:
            raise
        return error.what.partition(": ")[2] or error.what
    return ""


def delete_now(api: Api, namespace: str, pod: str, *, uid: str) -> None:
    """Deletes this very Pod and asks no budget: its server doesn't run, or a plan has weighed it. Idempotent."""
    try:
        api.delete(path_of("v1", "pods", namespace, pod), uid=uid)
    except ApiConflict:
        return  # Another Pod is there by now.
