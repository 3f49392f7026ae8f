"""Ask every member what it is, all at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from valkeyctl.dataplane import errors, wire
from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member, Spec
from valkeyctl.dataplane.session import Reply, Session
from valkeyctl.dataplane.translate import where
from valkeyctl.dataplane.view import Absent, NodeView, Outcome, Unreachable, View, Why

TIMEOUT_S = 2.0
MAX_PARALLEL = 32

Seen = TypeVar("Seen")

_WHY: tuple[tuple[type[errors.ValkeyctlError], Why], ...] = (
    (errors.AuthFailed, Why.AUTH_FAILED),
    (errors.RightMissing, Why.RIGHT_MISSING),
    (errors.Loading, Why.LOADING),
    (errors.ErrorReply, Why.ERROR_REPLY),
    (errors.NotUnderstood, Why.NOT_UNDERSTOOD),
    (errors.NoAnswer, Why.NO_ANSWER),
    (errors.ConnectFailed, Why.CONNECT_FAILED),
)


def observe(
    spec: Spec,
    endpoints: Mapping[Member, Endpoint],
    dialer: Dialer,
    *,
    timeout_s: float = TIMEOUT_S,
    max_parallel: int = MAX_PARALLEL,
) -> View:
    """What every declared member, and every one that is leaving, says of itself now. Only reads.

    A member without an endpoint is Absent, one that doesn't answer within `timeout_s`, or answers with an error, is
    Unreachable with the reason; neither raises. At most `max_parallel` members are asked at a time, one round trip
    each.
    """
    with Links(dialer, timeout_s=timeout_s, max_parallel=max_parallel) as links:
        return observe_over(links, spec, endpoints)


def observe_over(links: Links, spec: Spec, endpoints: Mapping[Member, Endpoint]) -> View:
    """As `observe`, over connections that stay open."""
    declared = {member: endpoints[member] for member in spec.everybody if member in endpoints}

    def talk(session: Session) -> Outcome:
        return _ask(session, with_timeout=spec.node_timeout_ms is not None)

    told = links.each(declared, talk)
    view = View({member: outcome_of(member, declared, told) for member in spec.everybody})
    return _with_open_slot_keys(links, view)


def _ask(session: Session, *, with_timeout: bool) -> Outcome:
    questions = [*wire.OBSERVATION, *((wire.NODE_TIMEOUT,) if with_timeout else ())]
    # Moves are asked for first: the slots of one that is told as ended are told as they are after it. The other way
    # round, a move that ends in between would leave its slots where they were, with nobody moving them.
    tells_moves = session.moves_atomically
    told, *replies = session.ask([wire.JOBS, *questions]) if tells_moves else [None, *session.ask(questions)]
    for reply in (told, *replies):
        if isinstance(reply, errors.ValkeyctlError):
            raise reply
    texts = [reply for reply in replies[: len(wire.OBSERVATION)] if isinstance(reply, bytes)]
    try:
        node = wire.node_view(session.endpoint, texts, replies[len(wire.OBSERVATION)] if with_timeout else None)
        session.moves_atomically = node.moves_atomically
        if node.moves_atomically and not tells_moves:
            # Now that it is known to understand the question, all is asked in that order.
            return _ask(session, with_timeout=with_timeout)
        return replace(node, jobs=wire.jobs(told)) if tells_moves else node
    except wire.StillLoading as e:
        detail = f"{where(session.endpoint)}: the server still reads its dataset"
        return Unreachable(session.endpoint, Why.LOADING, detail, node_id=e.node_id)
    except (ValueError, LookupError) as e:
        raise errors.NotUnderstood(
            "what answers there doesn't speak like a server of a cluster", where=where(session.endpoint)
        ) from e


def outcome_of(
    member: Member, asked: Mapping[Member, Endpoint], told: Mapping[Member, Seen | errors.ValkeyctlError]
) -> Seen | Unreachable | Absent:
    """What one round of questions, put to `asked`, says of a member of any kind."""
    outcome = told.get(member)
    if outcome is None:
        return Absent(member)
    if isinstance(outcome, errors.ValkeyctlError):
        return unreachable(asked[member], outcome)
    return outcome


def unreachable(endpoint: Endpoint, error: errors.ValkeyctlError) -> Unreachable:
    """The outcome for a member with which a talk failed."""
    why = next((why for kind, why in _WHY if isinstance(error, kind)), Why.ERROR_REPLY)
    return Unreachable(endpoint, why, str(error))


def _with_open_slot_keys(links: Links, view: View) -> View:
    """Add how many keys each node holds in slots that are open anywhere: a second round trip, where there are any."""
    slots = sorted({slot for node in view.nodes.values() for slot in (*node.migrating, *node.importing)})
    if not slots:
        return view
    commands = [wire.count_keys(slot) for slot in slots]

    def talk(session: Session) -> list[Reply]:
        return session.ask(commands)

    told = links.each({member: node.endpoint for member, node in view.nodes.items()}, talk)
    outcomes: dict[Member, Outcome] = dict(view.outcomes)
    for member, node in view.nodes.items():
        counts = told[member]
        if isinstance(counts, errors.ValkeyctlError):
            outcomes[member] = unreachable(node.endpoint, counts)
            continue
        failed = next((reply for reply in counts if not isinstance(reply, int)), None)
        if isinstance(failed, errors.ValkeyctlError):
            outcomes[member] = unreachable(node.endpoint, failed)
        else:
            keys = {slot: count for slot, count in zip(slots, counts, strict=True) if isinstance(count, int) and count}
            outcomes[member] = _counted(node, keys)
    return View(outcomes)


def _counted(node: NodeView, keys: Mapping[int, int]) -> NodeView:
    return replace(node, open_slot_keys=keys)
