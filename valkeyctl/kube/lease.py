"""The Lease of an instance: one converge at a time, whoever runs it.

A holder renews it every few seconds. It counts as stale when it has not changed for its duration as seen by the
waiter's own monotonic clock: clocks of two machines are never compared. Every write names the resourceVersion that was
read, so of two that take a Lease one gets it. A holder that was killed on this very machine is recognised by its pid
and start time, and its Lease is taken at once.

An agent gives way to an `up`: that writes its wish into an annotation, the agent finds it at its next heartbeat, stops
before its next step and releases. No agent takes a Lease that somebody wishes for, for as long as a wisher may need.
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
#: Who asks the present holder to give way. Gone as soon as somebody takes the Lease.
WISH_ANNOTATION = "valkeyctl/wish"
#: What the purpose of a holder begins with that gives way to whoever wishes for its Lease.
AGENT_PURPOSE = "agent "
#: So long an agent leaves a Lease to its wisher, by the agent's own clock: the wisher may have died meanwhile.
WISH_KEPT_S = 10.0
#: In the place of a count of transitions: somebody held it at the last look, and will have looked after all.
_HELD = -1
_MAX_TRUSTED_DURATION_S = 60.0


@dataclass(frozen=True)
class Timing:
    """`duration_s`: silent for so long, a holder is taken for dead. `patience_s`: how long a live one is waited for.

    `agent_patience_s`: the same for an agent, which was asked to give way and ends the step that it is at first.
    """

    duration_s: int = 10
    heartbeat_s: float = 2.5
    patience_s: float = 6.0
    agent_patience_s: float = 20.0
    poll_s: float = 0.2


#: An agent renews often, so that it soon hears of a wish, and counts as dead soon: its Pod may be gone with its node.
AGENT_TIMING = Timing(duration_s=6, heartbeat_s=0.8)


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
        self._gives_way = claim.holder.purpose.startswith(AGENT_PURPOSE)
        self._wished_by = _wish_of(body)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises Interrupted once the Lease is lost, could not be renewed for its duration, or, for an agent, once
        somebody else wishes for it. Asks nobody.
        """
        if self._lost:
            raise Interrupted(self._lost, remedy="What was done is kept; run it again.")
        if self._gives_way and self._wished_by:
            raise Interrupted(f"it gives way to {self._wished_by}", remedy="What was done is kept.")
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
        for _ in range(2):  # Somebody may write a wish just now: then once more, over what is read.
            spec = {**self._body["spec"], "holderIdentity": "", "renewTime": _now()}
            try:
                self._api.replace(self._path, {**self._body, "spec": spec})
            except ApiConflict:
                if self._still_ours():
                    continue
            except KubeError:
                pass
            return

    def _beat(self) -> None:
        while not self._stop.wait(self._timing.heartbeat_s):
            asked = time.monotonic()
            try:
                self._body = self._api.replace(self._path, _renewed(self._body))
            except (ApiConflict, ApiNotFound):
                # Somebody else wrote: a note, a wish, or that it is theirs. What is still ours is renewed at once.
                if not self._still_ours():
                    return
                with suppress(KubeError):
                    self._body = self._api.replace(self._path, _renewed(self._body))
                    self._valid_until = asked + self._timing.duration_s
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
        self._wished_by = _wish_of(current)
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

    An absent or released Lease is taken at once, so is one whose holder died on this machine. An agent that holds it is
    asked to give way. For any other live holder it waits `timing.patience_s`, for a silent one until that is stale.
    Errors: LeaseHeld, saying who holds it since when.
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
            if holds_as_agent(current) and _wish_of(current) != claim.holder.identity:
                wish = {"metadata": {"annotations": {WISH_ANNOTATION: claim.holder.identity}}}
                watch.wrote(current, api.merge(claim.path, wish))
        except ApiConflict:
            continue  # Another one was faster: look who it is.
        except ApiNotFound as error:
            if current is None:
                raise ApiError(f"namespace {claim.namespace} does not exist, so there is no Lease to take") from error
            continue
        watch.wait(current, claim.instance, progress)


class AgentTurn:
    """One agent's tries to take the Lease: it never waits, and knows from one try to the next what it has seen."""

    def __init__(self, api: Api, namespace: str, instance: str, *, pod: str, timing: Timing = AGENT_TIMING) -> None:
        self._api = api
        self._claim = Claim(namespace, instance, "", this_process(f"{AGENT_PURPOSE}{pod}"), timing)
        self._watch = _Watch(timing)
        self._wish, self._wished_at = "", 0.0
        self._seen: int | None = None

    def take(self, *, after_others: bool) -> Lease | None:
        """The Lease, where it is free and nobody wishes for it; None where it is not ours to take now.

        `after_others` False: nor where anybody else has held it since this agent last did, or looked: who did has seen
        what is wrong, and told it. Errors: those of the API; ApiNotFound where there is no Lease, which `up` makes.
        """
        asked = time.monotonic()
        current = self._api.get(self._claim.path)
        free = self._watch.free(current) and not self._is_wished_for(current, asked)
        seen, self._seen = self._seen, _transitions(current) if free else _HELD
        if not free or not (after_others or seen in (None, self._seen)):
            return None
        try:
            body = self._api.replace(self._claim.path, _taken(current, self._claim))
        except ApiConflict:
            return None
        self._seen = _transitions(body)
        return Lease(self._api, self._claim, body, asked)

    @property
    def held_by_others(self) -> bool:
        """Whether somebody else held it, or wished for it, at the last try."""
        return self._seen == _HELD

    def _is_wished_for(self, current: Object, now: float) -> bool:
        wish = _wish_of(current)
        if wish != self._wish:
            self._wish, self._wished_at = wish, now
        return bool(wish) and now - self._wished_at < WISH_KEPT_S


def ensure_lease(api: Api, namespace: str, instance: str, owner: str) -> None:
    """Makes the Lease, held by nobody, where there is none: agents may take it and not make it. Idempotent."""
    claim = Claim(namespace, instance, owner, this_process("none"), Timing())
    if api.find(claim.path) is None:
        body = _new(claim)
        body["metadata"]["annotations"].pop(HOLDER_ANNOTATION)
        body["spec"] = {"holderIdentity": "", "leaseDurationSeconds": claim.timing.duration_s, "leaseTransitions": 0}
        with suppress(ApiConflict):
            api.create(claim.collection, body)


def holds_as_agent(lease: Object) -> bool:
    """Whether the present holder is an agent, which gives way when it is asked."""
    known = parse_holder((lease["metadata"].get("annotations") or {}).get(HOLDER_ANNOTATION))
    identity = (lease.get("spec") or {}).get("holderIdentity")
    return known is not None and known.identity == identity and known.purpose.startswith(AGENT_PURPOSE)


def _wish_of(lease: Object) -> str:
    return str((lease["metadata"].get("annotations") or {}).get(WISH_ANNOTATION) or "")


def _transitions(lease: Object) -> int:
    return int((lease.get("spec") or {}).get("leaseTransitions") or 0)


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

    def wrote(self, before: Object, after: Object) -> None:
        """Takes note of what the waiter itself wrote: that is no sign of life of the holder."""
        if before["metadata"].get("resourceVersion") == self._version:
            self._version = after["metadata"].get("resourceVersion")

    def wait(self, lease: Object, instance: str, progress: Callable[[str], None]) -> None:
        """Waits a moment; raises LeaseHeld once patience is over and the holder has shown that it lives."""
        spec: dict[str, Any] = lease.get("spec") or {}
        holder, since = spec.get("holderIdentity"), spec.get("acquireTime")
        now = time.monotonic()
        patience_s = self._timing.agent_patience_s if holds_as_agent(lease) else self._timing.patience_s
        if self._renewals > 0 and now - self._began >= patience_s:
            stated = spec.get("leaseDurationSeconds")
            raise LeaseHeld(
                f"instance {instance} is being worked on by {holder}, since {since}; its Lease was renewed just now "
                f"({spec.get('renewTime')}) and runs {stated} s from each renewal",
                remedy="Wait until that has ended, then run this again.",
            )
        if now - self._told_at >= 1:
            self._told_at = now
            asked = " and was asked to give way" if holds_as_agent(lease) else ""
            progress(f"waiting for {holder}, which holds {instance} since {since}{asked}")
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
    """Of a Lease that is taken. An agent leaves the owner as it is."""
    owner = {OWNER_ANNOTATION: claim.owner} if claim.owner else {}
    return {**owner, HOLDER_ANNOTATION: claim.holder.as_json()}


def _taken(current: Object, claim: Claim) -> Object:
    metadata = dict(current["metadata"])
    kept: dict[str, str] = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != WISH_ANNOTATION}
    metadata["annotations"] = {**kept, **_annotations(claim)}
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
