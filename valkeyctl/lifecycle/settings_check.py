"""The last thing that an `up` does: every member is asked whether it has the declared settings.

The Pods' agents apply them, within a second or two of the change. A member whose Pod still runs a former template is
only warned of: its agent may be older, and its memory smaller, than what the settings are meant for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from valkeyctl.dataplane import Member
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.observe import MAX_PARALLEL, TIMEOUT_S
from valkeyctl.dataplane.session import Session as Talk
from valkeyctl.dataplane.settings import differing, pairs_of
from valkeyctl.kube.access import Api, path_of
from valkeyctl.kube.errors import KubeError
from valkeyctl.kube.labels import REFUSED_REASON
from valkeyctl.kube.pods import pod_facts
from valkeyctl.lifecycle.session import Session

PATIENCE_S = 20.0
"""How long the agents have for it."""
_LOOK_S = 0.25
_SHOWN = 6
_CORRECT = "Correct the setting in the stack config and run it again; what a server refused is not in effect there."
_SEE_AGENTS = "See what the agents tell: kubectl logs of these Pods, container agent."


class SettingsDiffer(ValkeyctlError):  # noqa: N818 - reads as what happened
    """Members don't have the settings that are declared: says which, what they have, and the servers' own words."""


@dataclass(frozen=True)
class Difference:
    """One setting of one member. `found` is None where the server doesn't tell it, or doesn't answer."""

    member: Member
    name: str
    declared: str
    found: str | None

    def __str__(self) -> str:
        has = "nothing" if self.found is None else repr(self.found)
        return f"{self.member} has {has} for {self.name} where {self.declared!r} is declared"


def await_settings(
    session: Session, *, deadline: float, tell: Callable[[str], None], may_go_on: Callable[[], None]
) -> list[str]:
    """Returns once every member has the declared live settings; warnings for a person, one a member that may wait.

    Reads only. Waits for the agents for `PATIENCE_S` at most, and no longer than to `deadline` (monotonic). Errors:
    SettingsDiffer, those of the API, what `may_go_on` raises.
    """
    declared = session.declaration.live_settings
    if not declared:
        return []
    until = min(time.monotonic() + PATIENCE_S, deadline)
    with Links(session.dialer, timeout_s=TIMEOUT_S, max_parallel=MAX_PARALLEL) as links:
        while True:
            may_go_on()
            found = differences(session, links, declared)
            if not found:
                return []
            if time.monotonic() >= until:
                return _judge(session, found)
            tell(f"waiting for settings: {found[0]}{f' and {len(found) - 1} more' if len(found) > 1 else ''}")
            time.sleep(_LOOK_S)


def differences(session: Session, links: Links, declared: Mapping[str, str]) -> list[Difference]:
    """What the members have otherwise than declared, by member and name."""
    endpoints = session.directory()
    wanted = {member: endpoints[member] for member in session.spec.members if member in endpoints}

    def ask(talk: Talk) -> Mapping[str, str]:
        reply = talk.ask([("CONFIG", "GET", *declared)])[0]
        if isinstance(reply, ValkeyctlError):
            raise reply
        return pairs_of(reply) if isinstance(reply, list) else {}

    answers = links.each(wanted, ask)
    found: list[Difference] = []
    for member in session.spec.members:
        answer = answers.get(member, {})
        has = {} if isinstance(answer, ValkeyctlError) else answer
        found += [Difference(member, name, value, has.get(name)) for name, value in differing(declared, has).items()]
    return found


def _judge(session: Session, found: list[Difference]) -> list[str]:
    facts = {fact.member: fact for fact in pod_facts(session.directory, session.spec.members)}
    waiting = [one for one in found if one.member in facts and facts[one.member].outdated]
    wrong = [one for one in found if one not in waiting]
    if not wrong:
        return [f"{one}; its Pod runs the former template, and will have it when it is replaced" for one in waiting]
    shown = "; ".join(str(one) for one in wrong[:_SHOWN])
    more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    pods = {facts[one.member].pod for one in wrong if one.member in facts}
    words = _refusals(session.api, session.place.namespace, pods)
    raise SettingsDiffer(
        f"settings are not in effect {PATIENCE_S:.0f} s after they were declared: {shown}{more}"
        + (f". The agents tell: {'; '.join(words)}" if words else ""),
        where=session.place.instance,
        remedy=_CORRECT if words else _SEE_AGENTS,
    )


def _refusals(api: Api, namespace: str, pods: set[str]) -> list[str]:
    """What the agents of these Pods told last of settings that their servers refuse; nothing where that isn't told."""
    try:
        events = api.items(path_of("v1", "events", namespace), {"fieldSelector": f"reason={REFUSED_REASON}"})
    except KubeError:
        return []
    newest: dict[str, tuple[str, str]] = {}
    for event in events:
        pod = str((event.get("involvedObject") or {}).get("name") or "")
        at, text = str(event.get("lastTimestamp") or ""), str(event.get("message") or "")
        if pod in pods and at >= newest.get(pod, ("", ""))[0]:
            newest[pod] = (at, text)
    return [text for _, (_, text) in sorted(newest.items())][:3]
