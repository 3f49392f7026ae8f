"""Carry out moves of slots: have servers do it by themselves, or open slots, send their keys, and give them over.

The second way, in phases, each at all members at once, so that it can end after any of them, or in the middle:

1. the taker opens the slots as importing, then the giver as migrating: from here on the giver sends clients that ask
   for a key it hasn't got to the taker, which serves them,
2. the giver sends its keys. A key is never without an owner that serves it: the giver deletes it when the taker has
   it. `REPLACE`, since after a send that broke off the taker may have it already; the giver's is never the older one,
   for it serves a key as long as it has it. A slot that wasn't open and of which the taker holds keys is left alone,
3. slots of which the giver holds nothing any more are the taker's: it says so first, with a new epoch that outweighs
   the giver's claim, then the giver. The taker tells all others by itself.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from valkeyctl.dataplane import errors, wire
from valkeyctl.dataplane.fanout import fan_out
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.session import Command, Reply, Session
from valkeyctl.dataplane.slots import SlotSet
from valkeyctl.dataplane.steps import MigrateSlots, MoveKeys
from valkeyctl.dataplane.translate import where

Move = MigrateSlots | MoveKeys
AnyMove = TypeVar("AnyMove", bound="MigrateSlots | MoveKeys")
Failed = dict[Move, errors.ValkeyctlError]

TURN_S = 1.0
"""How long keys are sent before everybody is looked at again."""
SEND_TIMEOUT_S = 60.0
"""How long one batch may take; a single key can be large."""
PATIENCE_S = 2 * SEND_TIMEOUT_S
SHORT_S, LONG_S = 0.05, 0.2
"""How long an exchange may take in which a server sends keys and serves nobody else: then the next one is smaller."""
FIRST_KEYS = 16
"""Keys in the first exchange, while nobody knows how large they are."""
SLOTS_ASKED = 64
LANES = 8
"""Over so many connections a member is told to set slots."""


def carry_out_moves(links: Links, moves: Sequence[Move], endpoints: Mapping[Member, Endpoint]) -> Failed:
    """Carry out moves at all their members at once. Returns those that failed, each with its error."""
    work = _Work(links.patient(PATIENCE_S), endpoints, links)
    work.copy_functions([move for move in moves if move.first])
    work.start([move for move in moves if isinstance(move, MigrateSlots)])
    by_keys = [move for move in moves if isinstance(move, MoveKeys)]
    if by_keys:
        work.open(by_keys)
        work.send(by_keys)
        work.give_over(by_keys)
    return work.failed


@dataclass
class _Work:
    """Moves under way. What fails in one phase takes no part in the next ones."""

    patient: Links
    endpoints: Mapping[Member, Endpoint]
    links: Links
    failed: Failed = field(default_factory=dict[Move, errors.ValkeyctlError])
    emptied: dict[MoveKeys, SlotSet] = field(default_factory=dict[MoveKeys, SlotSet])

    def copy_functions(self, moves: Sequence[Move]) -> None:
        """Give the functions of a giver to a taker that has none: clients call them where their keys are.

        A taker that can't be given them gets no slots from anybody: once it has some, nobody looks for functions again.
        """
        held = self._ask(self.links, {move.to: move for move in moves}, lambda _: [("FUNCTION", "LIST")])
        lacking = [move for move in moves if held.get(move.to) == [[]]]
        dumps = self._ask(
            self.links,
            {move.member: move for move in lacking},
            lambda _: [("FUNCTION", "LIST"), ("FUNCTION", "DUMP")],
        )
        unread = {move.member: self.failed[move] for move in lacking if move in self.failed}
        wanted: dict[Member, tuple[Move, bytes]] = {}
        for move in lacking:
            told = dumps.get(move.member)
            if told and told[0] and isinstance(told[1], bytes):
                wanted.setdefault(move.to, (move, told[1]))
        given = self._ask(
            self.links,
            {to: move for to, (move, _) in wanted.items()},
            lambda to: [("FUNCTION", "RESTORE", wanted[to][1])],
        )
        without = {move.to: error for move, error in self.failed.items() if move.to not in given}
        for move in lacking:
            if move.to not in wanted and move.member in unread:
                without.setdefault(move.to, unread[move.member])
        self.failed.update({move: without[move.to] for move in moves if move.to in without})

    def start(self, moves: Sequence[MigrateSlots]) -> None:
        """Have givers begin to move slots by themselves."""
        self._each(
            self.links,
            self._by(moves, lambda move: move.member),
            lambda move: [("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", *move.slots.bounds, "NODE", move.to_id)],
        )

    def open(self, moves: Sequence[MoveKeys]) -> None:
        """Open the slots at both ends, the taker's first. Refuses where a taker holds keys of a slot that is new."""
        counts = self._each(
            self.links,
            self._by(moves, lambda move: move.to),
            lambda move: [wire.count_keys(slot) for slot in move.slots - move.begun],
        )
        for move, told in counts.items():
            held = [slot for slot, count in zip(move.slots - move.begun, told, strict=True) if count]
            if held:
                self.failed[move] = errors.ErrorReply(
                    f"it holds keys of {len(held)} slots that it doesn't own, the first of them {held[0]}",
                    where=where(self.endpoints[move.to]),
                    remedy="See whether they are wanted; if not, delete them (CLUSTER GETKEYSINSLOT, DEL).",
                )
        self._set_slots(
            self._by(moves, lambda move: move.to),
            lambda move: move.slots,
            lambda move: ("IMPORTING", move.member_id),
        )
        self._set_slots(
            self._by(moves, lambda move: move.member),
            lambda move: move.slots,
            lambda move: ("MIGRATING", move.to_id),
        )

    def send(self, moves: Sequence[MoveKeys]) -> None:
        """Send keys for a moment, at every giver."""
        credentials = self.patient.credentials
        by_giver = self._by(moves, lambda move: move.member)

        def talk(session: Session) -> Mapping[MoveKeys, SlotSet | errors.ValkeyctlError]:
            until = time.monotonic() + TURN_S / len(by_giver[session.endpoint.member])
            emptied: dict[MoveKeys, SlotSet | errors.ValkeyctlError] = {}
            for move in by_giver[session.endpoint.member]:
                to = self.endpoints[move.to]
                who: tuple[str, ...] = ()
                if credentials.password is not None:
                    who = ("AUTH", credentials.password)
                    if credentials.user is not None:
                        who = ("AUTH2", credentials.user, credentials.password)
                head: Command = ("MIGRATE", to.address, to.port, "", 0, int(SEND_TIMEOUT_S * 1000), "REPLACE", *who)
                try:
                    emptied[move] = _Sender(session, head, move.pipeline).send(move.slots, until)
                except errors.ErrorReply as error:
                    emptied[move] = error
                until += TURN_S / len(by_giver[session.endpoint.member])
            return emptied

        endpoints = {member: self.endpoints[member] for member in by_giver}
        for member, told in self.patient.each(endpoints, talk).items():
            for move in by_giver[member]:
                got = told if isinstance(told, errors.ValkeyctlError) else told[move]
                if isinstance(got, errors.ValkeyctlError):
                    self.failed[move] = got
                else:
                    self.emptied[move] = got

    def give_over(self, moves: Sequence[MoveKeys]) -> None:
        """Give slots over of which the giver holds nothing any more: the taker says so first."""
        emptied = [move for move in moves if self.emptied.get(move)]
        for by_member in (self._by(emptied, lambda move: move.to), self._by(emptied, lambda move: move.member)):
            still = {member: [move for move in some if move not in self.failed] for member, some in by_member.items()}
            self._set_slots(still, lambda move: self.emptied[move], lambda move: ("NODE", move.to_id))

    def _set_slots(
        self,
        by_member: Mapping[Member, Sequence[MoveKeys]],
        slots: Callable[[MoveKeys], SlotSet],
        words: Callable[[MoveKeys], Command],
    ) -> None:
        """Set slots over several connections to each member: a server waits for its replicas to confirm each slot, and
        takes the next command of that connection only then.
        """

        def one(lane: int) -> None:
            self._each(
                self.links.patient(PATIENCE_S, lane),
                by_member,
                lambda move: [("CLUSTER", "SETSLOT", slot, *words(move)) for slot in list(slots(move))[lane::LANES]],
            )

        fan_out(range(LANES), one, max_parallel=LANES, timeout_s=PATIENCE_S, late=lambda _: None)

    def _by(self, moves: Iterable[AnyMove], member: Callable[[AnyMove], Member]) -> dict[Member, list[AnyMove]]:
        """The moves that haven't failed, by one of their members."""
        found: dict[Member, list[AnyMove]] = defaultdict(list)
        for move in moves:
            if move not in self.failed:
                found[member(move)].append(move)
        return found

    def _each(
        self,
        links: Links,
        by_member: Mapping[Member, Sequence[AnyMove]],
        commands: Callable[[AnyMove], Sequence[Command]],
    ) -> dict[AnyMove, list[Reply]]:
        """Send the commands of each move to its member, those of one member in one round trip; notes what failed."""

        def talk(session: Session) -> dict[AnyMove, list[Reply]]:
            asked = [(move, list(commands(move))) for move in by_member[session.endpoint.member]]
            replies = iter(session.ask([command for _, some in asked for command in some]))
            return {move: [next(replies) for _ in some] for move, some in asked}

        done: dict[AnyMove, list[Reply]] = {}
        for member, told in links.each({member: self.endpoints[member] for member in by_member}, talk).items():
            for move in by_member[member]:
                replies: list[Reply] = [told] if isinstance(told, errors.ValkeyctlError) else told[move]
                error = next((reply for reply in replies if isinstance(reply, errors.ValkeyctlError)), None)
                if error is not None:
                    self.failed[move] = error
                else:
                    done[move] = replies
        return done

    def _ask(
        self,
        links: Links,
        members: Mapping[Member, Move],
        commands: Callable[[Member], Sequence[Command]],
    ) -> dict[Member, list[Reply]]:
        """Ask members on behalf of a move each; notes what failed."""
        asked = {member: [move] for member, move in members.items() if move not in self.failed}
        member_of = {move: member for member, move in members.items()}
        told = self._each(links, asked, lambda move: commands(member_of[move]))
        return {member_of[move]: replies for move, replies in told.items()}


class _Sender:
    """Has one server send the keys of slots to another, as many at a time as it does in a moment."""

    def __init__(self, session: Session, head: Command, most: int) -> None:
        self._session = session
        self._head = head
        self._most = most
        self._size = min(FIRST_KEYS, most)

    def send(self, slots: SlotSet, until: float) -> SlotSet:
        """Send until all is sent or the time (monotonic) is over. Returns the slots that are empty now.

        Raises `errors.ErrorReply` for what the server answers, `errors.Unreachable` where the talk breaks off.
        """
        empty: list[int] = []
        left = deque(slots)
        while left:
            some = [left.popleft() for _ in range(min(SLOTS_ASKED, len(left)))]
            empty += self._send_some(some, until)
            if time.monotonic() >= until:
                break
        return SlotSet.of(empty)

    def _send_some(self, slots: Sequence[int], until: float) -> list[int]:
        pending = list(slots)
        while pending:
            asked = self._ask([("CLUSTER", "GETKEYSINSLOT", slot, self._most) for slot in pending])
            batches = deque(
                batch
                for keys in cast("list[list[bytes]]", asked)
                for batch in (keys[at : at + self._size] for at in range(0, len(keys), self._size))
            )
            if not batches:
                return list(slots)
            self._send_batches(batches, until)
            if time.monotonic() >= until:
                counts = self._ask([wire.count_keys(slot) for slot in slots])
                return [slot for slot, count in zip(slots, counts, strict=True) if count == 0]
            pending = [slot for slot, keys in zip(pending, asked, strict=True) if keys]
        return list(slots)

    def _send_batches(self, batches: deque[list[bytes]], until: float) -> None:
        """Send batches, of one slot each, several in an exchange. The largest exchange is what a server may be busy
        with while others wait.
        """
        while batches:
            some = [batches.popleft()]
            while batches and sum(map(len, some)) + len(batches[0]) <= self._size:
                some.append(batches.popleft())
            began = time.monotonic()
            self._ask([(*self._head, "KEYS", *batch) for batch in some])
            took_s = time.monotonic() - began
            if took_s > LONG_S:
                self._size = max(1, self._size // 2)
            elif took_s < SHORT_S:
                self._size = min(self._most, self._size * 2)
            if time.monotonic() >= until:
                return

    def _ask(self, commands: Sequence[Command]) -> list[Reply]:
        replies = self._session.ask(commands)
        for reply in replies:
            if isinstance(reply, errors.ValkeyctlError):
                raise reply
        return replies
