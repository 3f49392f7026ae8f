"""A password that changes: the Sentinels are told the new one while the servers take both."""

from __future__ import annotations

import time
from collections.abc import Mapping

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.dial import Credentials, Dialer
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.observe import TIMEOUT_S
from valkeyctl.dataplane.sentinel import steps
from valkeyctl.dataplane.sentinel.apply import Hands
from valkeyctl.dataplane.sentinel.model import Sentinel, SentinelSpec
from valkeyctl.dataplane.sentinel.observe import sentinels_over
from valkeyctl.dataplane.sentinel.view import SentinelView
from valkeyctl.dataplane.translate import where

WITHIN_S = 10.0
_LOOK_S = 0.05


def renew_sign_in(
    spec: SentinelSpec,
    sentinels: Mapping[Member, Endpoint],
    dialer: Dialer,
    monitor_as: Credentials,
    *,
    within_s: float = WITHIN_S,
) -> None:
    """Tell every Sentinel that monitors the name with what it signs in at the servers from now on.

    One after the other: each has been let in by the primary again before the next is told. What a Sentinel signs in
    with can't be read from it, so this is no part of a plan: whoever changes a password calls it while the servers take
    the old one and the new one, and drops the old one afterwards. Idempotent. Raises what reaching them raises, and
    `errors.NoAnswer` when one isn't let in by the primary within so many seconds: the old password must stay then.
    """
    with Links(dialer, timeout_s=TIMEOUT_S, max_parallel=1) as links:
        hands = Hands(links, links, monitor_as)
        for member in (m for m in spec.everybody if m in sentinels):
            if _told(links, spec, sentinels, member).monitored is None:
                continue
            for error in hands.carry_out([steps.SetAuth(member, spec.name, spec.user)], sentinels, {}).values():
                raise error
            _await_answer(links, spec, sentinels, member, within_s)


def _await_answer(
    links: Links, spec: SentinelSpec, sentinels: Mapping[Member, Endpoint], member: Sentinel, within_s: float
) -> None:
    """Return once the primary has answered well since now: a link alone may yet be refused."""
    began = time.monotonic()
    while True:
        since_ms = (time.monotonic() - began) * 1000
        monitored = _told(links, spec, sentinels, member).monitored
        if monitored is None or monitored.answered_ms < since_ms:
            return
        if since_ms > within_s * 1000:
            raise errors.NoAnswer(
                f"it doesn't reach {monitored.address} with what it signs in with now",
                where=where(sentinels[member]),
                remedy="Leave the old password valid, and see whether the servers take the new one.",
            )
        time.sleep(_LOOK_S)


def _told(links: Links, spec: SentinelSpec, sentinels: Mapping[Member, Endpoint], member: Sentinel) -> SentinelView:
    outcome = sentinels_over(links, spec, {member: sentinels[member]})[member]
    if isinstance(outcome, SentinelView):
        return outcome
    raise errors.NoAnswer("it doesn't tell what it monitors", where=where(sentinels[member]))
