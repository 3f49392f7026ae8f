"""The Lease of an instance: one converge at a time, whoever runs it.

A holder renews it every few seconds. It counts as stale when it has not changed for its duration as seen by the
waiter's own monotonic clock: clocks of two machines are never compared. Every write names the resourceVersion that was
read, so of two that take a Lease one gets it. A holder that was killed on this very machine is recognised by its pid
and start time, and its Lease is taken at once.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from valkeyctl.dataplane.errors import Interrupted
from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.errors import ApiConflict, ApiError, ApiNotFound, KubeError, LeaseHeld
from valkeyctl.kube.holder import Holder, parse_holder, this_process
from valkeyctl.kube.labels import OWNER_ANNOTATION, instance_labels

HOLDER_ANNOTATION = "valkeyctl/holder"
_MAX_TRUSTED_DURATION_S = 60.0


@dataclass(frozen=True)
class Timing:
    """`duration_s`: silent for so long, a holder is taken for dead. `patience_s`: how long a live one is waited for."""

    duration_s: int = 10
    heartbeat_s: float = 2.5
    patience_s: float = 6.0
    poll_s: float = 0.2


@dataclass(frozen=True)
class Claim:
    """Whose Lease is wanted, and by whom."""

    namespace: str
    instance: str
    owner: str
    holder: Holder
    timing: Timing

    @property
    def collection(self) -> str:
        """Where Leases of the namespace are created."""
        return path_of("coordination.k8s.io/v1", "leases", self.namespace)

    @property
    def path(self) -> str:
        """Where the instance's Lease is."""
        return f"{self.collection}/{self.instance}"


def _nobody(_line: str) -> None:
    pass


class Lease:
    """A Lease that is held. `check` says whether it still is."""

    def __init__(self, api: Api, claim: Claim, body: Object, valid_from: float) -> None:
        self.holder = claim.holder
        self._api, self._path, self._body, timing = api, claim.path, body, claim.timing
        self._timing = timing
        self._valid_until = valid_from + timing.duration_s
        self._lost = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises Interrupted once the Lease is lost, or could not be renewed for its duration. Asks nobody."""
        if self._lost:
            raise Interrupted(self._lost, remedy="What was done is kept; run it again.")
        if time.monotonic() >= self._valid_until:
            told = f"the Lease could not be renewed for {self._timing.duration_s} s: the API server does not answer"
            raise Interrupted(told, remedy="What was done is kept; run it again.")

    def release(self) -> None:
        """Ends the heartbeat and gives the Lease back. Idempotent; a Lease that cannot be given back runs out."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join(timeout=15)
        if self._lost:
            return
        spec = {**self._body["spec"], "holderIdentity": "", "renewTime": _now()}
        with suppress(KubeError):
            self._api.replace(self._path, {**self._body, "spec": spec})

    def _beat(self) -> None:
        while not self._stop.wait(self._timing.heartbeat_s):
            asked = time.monotonic()
            try:
                self._body = self._api.replace(self._path, _renewed(self._body))
            except (ApiConflict, ApiNotFound):
                if not self._still_ours():
                    return
                continue
            except KubeError:
                continue
            self._valid_until = asked + self._timing.duration_s

    def _still_ours(self) -> bool:
        try:
            current = self._api.find(self._path)
        except KubeError:
            return True
        if current is None:
            self._lost = "the Lease was deleted while it was held"
            return False
        identity = (current.get("spec") or {}).get("holderIdentity")
        if identity != self.holder.identity:
            self._lost = f"the Lease was taken over by {identity or 'somebody who has released it'}"
            return False
        self._body = current
        return True


@contextmanager
def hold(
    api: Api,
    namespace: str,
    instance: str,
    *,
    owner: str,
    purpose: str,
    timing: Timing | None = None,
    progress: Callable[[str], None] = _nobody,
    may_go_on: Callable[[], None] = lambda: None,
) -> Generator[Lease, None, None]:
    """Holds the instance's Lease for the block, with a heartbeat, and gives it back at its end.

    An absent or released Lease is taken at once, so is one whose holder died on this machine. For a live holder it
    waits `timing.patience_s`, for a silent one until that is stale. Errors: LeaseHeld, saying who holds it since when.
    """
    claim = Claim(namespace, instance, owner, this_process(purpose), timing or Timing())
    lease = acquire(api, claim, progress=progress, may_go_on=may_go_on)
    try:
        yield lease
    finally:
        lease.release()


def acquire(
    api: Api,
    claim: Claim,
    *,
    progress: Callable[[str], None] = _nobody,
    may_go_on: Callable[[], None] = lambda: None,
) -> Lease:
    """See `hold`; the caller releases."""
    watch = _Watch(claim.timing)
    while True:
        may_go_on()
        asked = time.monotonic()
        current = api.find(claim.path)
        try:
            if current is None:
                body = api.create(claim.collection, _new(claim))
                return Lease(api, claim, body, asked)
            if watch.free(current):
                body = api.replace(claim.path, _taken(current, claim))
                return Lease(api, claim, body, asked)
        except ApiConflict:
            continue  # Another one was faster: look who it is.
        except ApiNotFound as error:
            if current is None:
                raise ApiError(f"namespace {claim.namespace} does not exist, so there is no Lease to take") from error
            continue
        watch.wait(current, claim.instance, progress)


class _Watch:
    """What one waiter has seen of a Lease that somebody else holds."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._began = time.monotonic()
        self._version: object = None
        self._changed_at = self._began
        self._renewals = -1
        self._told_at = float("-inf")

    def free(self, lease: Object) -> bool:
        """Whether it may be taken now: released, its holder gone from this machine, or silent for its duration."""
        spec: dict[str, Any] = lease.get("spec") or {}
        if not spec.get("holderIdentity"):
            return True
        known = parse_holder((lease["metadata"].get("annotations") or {}).get(HOLDER_ANNOTATION))
        if known is not None and known.identity == spec["holderIdentity"] and known.is_gone():
            return True
        now = time.monotonic()
        if lease["metadata"].get("resourceVersion") != self._version:
            self._version = lease["metadata"].get("resourceVersion")
            self._changed_at, self._renewals = now, self._renewals + 1
        stated = float(spec.get("leaseDurationSeconds") or self._timing.duration_s)
        return now - self._changed_at >= min(stated, _MAX_TRUSTED_DURATION_S)

    def wait(self, lease: Object, instance: str, progress: Callable[[str], None]) -> None:
        """Waits a moment; raises LeaseHeld once patience is over and the holder has shown that it lives."""
        spec: dict[str, Any] = lease.get("spec") or {}
        holder, since = spec.get("holderIdentity"), spec.get("acquireTime")
        now = time.monotonic()
        if self._renewals > 0 and now - self._began >= self._timing.patience_s:
            stated = spec.get("leaseDurationSeconds")
            raise LeaseHeld(
                f"instance {instance} is being worked on by {holder}, since {since}; its Lease was renewed just now "
                f"({spec.get('renewTime')}) and runs {stated} s from each renewal",
                remedy="Wait until that has ended, then run this again.",
            )
        if now - self._told_at >= 1:
            self._told_at = now
            progress(f"waiting for {holder}, which holds {instance} since {since}")
        time.sleep(self._timing.poll_s)


def _now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _new(claim: Claim) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": claim.instance,
            "namespace": claim.namespace,
            "labels": instance_labels(claim.instance),
            "annotations": _annotations(claim),
        },
        "spec": _spec(claim, transitions=0),
    }


def _annotations(claim: Claim) -> dict[str, str]:
    return {OWNER_ANNOTATION: claim.owner, HOLDER_ANNOTATION: claim.holder.as_json()}


def _taken(current: Object, claim: Claim) -> Object:
    metadata = dict(current["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **_annotations(claim)}
    transitions = int((current.get("spec") or {}).get("leaseTransitions") or 0) + 1
    return {**current, "metadata": metadata, "spec": _spec(claim, transitions)}


def _spec(claim: Claim, transitions: int) -> Object:
    now = _now()
    return {
        "holderIdentity": claim.holder.identity,
        "leaseDurationSeconds": claim.timing.duration_s,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": transitions,
    }


def _renewed(body: Object) -> Object:
    return {**body, "spec": {**body["spec"], "renewTime": _now()}}
