"""Who is to be the primary: the rules of the data plane, asked with what the members' agents tell (ADR 0110, 0120)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from valkeyctl.agent.primacy.word import Word
from valkeyctl.dataplane.model import Address, Endpoint, Member
from valkeyctl.dataplane.replication import wire
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.view import Outcome, ReplicationView, ServerView
from valkeyctl.dataplane.view import ReplicaLink, Unreachable, Why

EndpointOf = Callable[[Member], Endpoint]
"""Under which name and address servers know a member."""


@dataclass(frozen=True)
class Choice:
    """`heir` is who is to be the primary, None while that can't be told; then `why` says what for, to people."""

    heir: Member | None
    why: str = ""


def choose(spec: ReplicationSpec, words: Mapping[Member, Word], endpoint_of: EndpointOf) -> Choice:
    """Who of these members is to be the primary.

    To be asked only by who knows that nobody else can take writes: whoever isn't among `words` is not waited for where
    somebody has data of this life, which is all that can be had. `spec.last_primary` is the last holder.
    """
    view = ReplicationView(
        spec.instance, {member: _outcome(words.get(member), endpoint_of(member)) for member in spec.everybody}
    )
    view = ReplicationView(spec.instance, {member: _cut_loose(view, one) for member, one in view.outcomes.items()})
    found = decide_primary(Knowledge(replace(spec, patience_s=0.0, decided_elsewhere=False), view))
    if found.problem is not None:
        return Choice(None, found.problem.reason)
    if found.waits:
        return Choice(None, "; ".join(f"{member}: {what}" for member, what in found.waits))
    heir = found.primary or found.heir
    return Choice(heir.member) if heir is not None else Choice(None, "nobody answers")


def view_of(word: Word, endpoint: Endpoint) -> ServerView | None:
    """The server in the terms of the data plane; None where it doesn't serve, or tells something else."""
    text = "\n".join(f"{name}:{value}" for name, value in word.facts.items())
    try:
        view = wire.server_view(endpoint, text.encode(), [b"", b""])
    except (wire.StillLoading, ValueError, LookupError):
        return None
    if word.kept and view.link is not None:
        # It was the primary in this life, or followed one: its data isn't of unknown age, though INFO can't tell that.
        view = replace(view, link=replace(view.link, was_up=True))
    return view


def _outcome(word: Word | None, endpoint: Endpoint) -> Outcome:
    if word is None:
        return Unreachable(endpoint, Why.NO_ANSWER, "its agent doesn't answer", for_s=1.0)
    why = Why.LOADING if word.phase == "loading" else Why.CONNECT_FAILED
    return view_of(word, endpoint) or Unreachable(endpoint, why, f"its server is {word.phase}", for_s=1.0)


def _cut_loose(view: ReplicationView, one: Outcome) -> Outcome:
    """A link to somebody who doesn't answer is none: whoever that is, he takes no writes any more."""
    if not isinstance(one, ServerView) or one.link is None or view.member_at(one.upstream) in view.nodes:
        return one
    return replace(one, link=ReplicaLink(up=False, syncing=one.link.syncing, was_up=one.link.was_up), cut_off_s=0)


def address_of(word: Word) -> Address | None:
    """Whom a replica's server is told to follow; None for a primary."""
    facts = word.facts
    if facts.get("role") != "slave":
        return None
    return Address(facts.get("master_host", ""), int(facts.get("master_port", "0") or 0))
