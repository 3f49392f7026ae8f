"""What is being deleted and is to be written again: it must be gone first.

The API server takes a change of an object that is on its way out, and then lets go of the object: a StatefulSet, which
waits for its Pods to stop, would be "made" by such a write and gone a moment later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from valkeyctl.kube.access import Api, Object, terminating
from valkeyctl.kube.errors import ApiError
from valkeyctl.kube.ownership import Wanted, find, made_for

#: Longer than a server with a disk may take to stop, by its Pod's grace period.
GONE_WAIT_S = 180.0
_POLL_S = 0.5


def leaving(found: Mapping[Wanted, Object]) -> list[Wanted]:
    """Those that are being deleted, in their order. Pure.

    A claim that the Pods of a StatefulSet still use goes only with the Pod, and so isn't waited for: it's the roll that
    lets it go.
    """
    workloads = {one.name for one in found if one.kind == "StatefulSet"}
    going = [one for one, item in found.items() if terminating(item)]
    return sorted(one for one in going if not made_for(one, workloads))


def wait_until_gone(
    api: Api,
    namespace: str,
    found: Mapping[Wanted, Object],
    progress: Callable[[str], None],
    wait_s: float = GONE_WAIT_S,
) -> None:
    """Waits until none of the objects is being deleted any more, and tells what is waited for. Writes nothing.

    `found`: what there was a moment ago; only where something of it goes is the API server asked again.
    Errors: ApiError where that takes longer than `wait_s` seconds. Idempotent.
    """
    deadline = time.monotonic() + wait_s
    while rest := leaving(found):
        named = ", ".join(f"{one.kind} {one.name}" for one in rest[:4]) + (" …" if len(rest) > 4 else "")
        if time.monotonic() >= deadline:
            raise ApiError(
                f"still being deleted after {wait_s:.0f} s, and to be made anew: {named}",
                where=f"namespace {namespace}",
                remedy=f"See what keeps it: `kubectl -n {namespace} get pods -o wide` shows Pods that don't stop (of a "
                "node that is gone for good, `kubectl delete node` frees them). Then run it again.",
            )
        progress(f"waiting until it is gone, as it is still being deleted: {named}")
        time.sleep(_POLL_S)
        found = find(api, namespace, list(found))
