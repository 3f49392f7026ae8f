"""The start guard: whether a member's server may start now, or must wait for another that has newer data.

A primary's server that died and comes back within the node timeout, empty or from an old snapshot, is a primary still,
and its replicas would copy its emptiness (reports C15, F4, F5). So a primary starts only when no other member of its
shard is ahead of it; while one is, it waits until that one was promoted (`stand_in`), and then joins as a replica.
It joins as one only if a server that runs tells its own server so: where just disks know that another owns its slots
by now, it would serve until that one comes up, and lose what it took meanwhile.

Everything here is pure: it judges tales, it neither asks nor acts. ADR 0050 tells why it judges so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from valkeyctl.agent.tale import Kind, Owner, Server, Tale
from valkeyctl.agent.worth import Scale
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import SlotSet, union
from valkeyctl.dataplane.view import Role

Told = Mapping[Member, Tale]
"""The other members that have told of themselves, each by its newest tale. Tales older than a second don't belong here:
what they say of a server that runs may be over."""


@dataclass(frozen=True)
class Rules:
    """How long is waited, in seconds; every wait ends by itself.

    `absent_s`   for members that don't tell. Longer than an election of the servers' own takes, so that a copy whose
                 agent is mute can still be promoted by them.
    `stuck_s`    for a member that has newer data, or knows who has, and whose server doesn't run.
    `alive_s`    for one whose server runs: reading a dataset takes as long as that is large.
    `log_s`      for members that don't tell, by a primary that has its log and wasn't replaced: they have little more.
    `silent_s`   the same, by a replica that was in sync (`stand_in`).
    `force_s`    how long an election may take before it counts as failed (`stand_in`).
    `again_s`    how long until a failed election is tried again (`stand_in`).
    `former_s`   for the word of those who run, by a member that may have been forgotten (`former`).
    `disk_s`     for a disk that can't be read.
    """

    absent_s: float = 15.0
    stuck_s: float = 60.0
    alive_s: float = 600.0
    log_s: float = 3.0
    silent_s: float = 1.0
    force_s: float = 2.0
    again_s: float = 10.0
    former_s: float = 5.0
    disk_s: float = 5.0

    @classmethod
    def for_node_timeout(cls, node_timeout_s: float) -> Rules:
        """The rules for servers with this `cluster-node-timeout`."""
        return cls(absent_s=max(cls.absent_s, 2 * node_timeout_s + 5.0))

    def patience_s(self, tale: Tale) -> float:
        """How long a member with newer data, or one that knows who has it, is waited for."""
        return self.alive_s if tale.running else self.stuck_s


RULES = Rules()


@dataclass(frozen=True)
class Start:
    """The server may start. `warning` says that newer data may be lost by it: that is to be told loudly.

    `anew`: as a new node; what is on its disk is a former member's, and has to be set aside before.
    """

    why: str
    warning: bool = False
    anew: bool = False

    def __str__(self) -> str:
        """One line for a log."""
        return f"the server may start: {self.why}"


@dataclass(frozen=True)
class Hold:
    """The server must not start yet. The wait ends at `until_s` whatever happens, counted as `waited_s` is."""

    why: str
    until_s: float

    def __str__(self) -> str:
        """One line for a log."""
        return f"the server waits, for {self.until_s:g} s at most: {self.why}"


def decide(
    me: Tale, told: Told, waited_s: float, *, declared: Collection[Member] = (), rules: Rules = RULES
) -> Start | Hold:
    """Whether the server of `me`, which is down, may start now.

    `told` should have the members of other shards too: they know of newer owners. `declared` are the members that the
    shard has beside those in the node table of `me`; they are waited for as well. `waited_s` counts from when the start
    was asked for.
    """
    if not me.node_id:
        return Start("it is a new node")
    if me.role is Role.REPLICA:
        return Start("it is a replica, and gets its data from its primary")
    if not me.slots:
        return Start("it owns no slots")
    heirs = tuple(newer_owners(me.node_id, me.slots, me.config_epoch, _running(told)))
    if me.slots.issubset(union(heir.slots for heir in heirs)):
        return Start(f"{_names(heirs)} owns its slots by now, so it joins as a replica")
    return _among_others(me, told, waited_s, _mates(me, declared), rules)


def newer_owners(node_id: str, slots: SlotSet, epoch: int, told: Told) -> Iterator[Owner]:
    """Other nodes that, by what they or others tell, own some of a node's slots since a newer epoch than its own."""
    for tale in told.values():
        for owner in tale.claims:
            if owner.node_id != node_id and owner.config_epoch > epoch and owner.slots & slots:
                yield owner


def follows(tale: Tale, primary_id: str) -> bool:
    """Whether a member is a replica of this node, so that its data is a copy of that node's."""
    return tale.role is Role.REPLICA and tale.primary_id == primary_id


@dataclass(frozen=True)
class _Newer:
    """Somebody has newer data, or may have: who and how in words, and for how long that one is waited for."""

    why: str
    patience_s: float


def _among_others(me: Tale, told: Told, waited_s: float, mates: Collection[Member], rules: Rules) -> Start | Hold:
    """Decide by what the others have and know: `mates` are those that have to be heard."""
    own = f"its own data ({_describe(me)})"
    newer = [*_heirs_that_are_away(me, told, rules), *_copies_ahead(me, told, own, rules)]
    awaited = [one for one in newer if waited_s < one.patience_s]
    if awaited:
        return Hold("; ".join(one.why for one in awaited), max(one.patience_s for one in awaited))
    silent = sorted(mate for mate in mates if mate not in told)
    nameless = sum(1 for one in me.followers if one.primary_id == me.node_id and one.member is None)
    missing = ", ".join([*map(str, silent), *(["a replica without a name"] * nameless)])
    patience_s = rules.log_s if _wasnt_replaced(me, told) else rules.absent_s
    if missing and waited_s < patience_s:
        return Hold(f"not heard yet: {missing}", patience_s)
    if newer:
        late = "; ".join(one.why for one in newer)
        lost = "what only that one has is lost, or what is written until it comes back"
        return Start(f"{late}; it didn't come up, or wasn't promoted, in {waited_s:.0f} s: {lost}", warning=True)
    if missing:
        return Start(f"not heard in {waited_s:.0f} s: {missing}; nobody else is ahead", warning=True)
    return Start(f"no other member of its shard has newer data than {own}")


def _heirs_that_are_away(me: Tale, told: Told, rules: Rules) -> Iterator[_Newer]:
    """Those who own slots of it by now, as only they or others tell whose servers don't run, or don't serve yet.

    Any of these servers, once it serves, tells its own one; so each of them is waited for, and the heir itself.
    """
    known = union(heir.slots for heir in newer_owners(me.node_id, me.slots, me.config_epoch, _running(told)))
    mine = me.slots - known
    heirs = {heir.node_id: heir for heir in newer_owners(me.node_id, mine, me.config_epoch, told)}
    for node_id, heir in sorted(heirs.items()):
        tellers = [
            tale
            for _, tale in sorted(told.items())
            if any(one.node_id == node_id for one in newer_owners(me.node_id, mine, me.config_epoch, {me.member: tale}))
        ]
        patience_s = max(map(rules.patience_s, tellers))
        if all(tale.node_id != node_id for tale in told.values()):
            patience_s = max(patience_s, rules.absent_s)
        by = ", ".join(f"{tale.member} (server {tale.server})" for tale in tellers)
        yield _Newer(f"{_names([heir])} owns slots of it since a newer epoch, as only {by} can tell", patience_s)


def _copies_ahead(me: Tale, told: Told, own: str, rules: Rules) -> Iterator[_Newer]:
    """The replicas that have newer data, or may have: a server that runs and doesn't answer isn't one without data."""
    copies = [tale for tale in told.values() if follows(tale, me.node_id)]
    scale = Scale(copies)
    for tale in sorted(copies, key=lambda tale: tale.member):
        if not scale.is_ahead(tale, me):
            continue
        what = f"has a copy ({_describe(tale)})" if tale.data.kind is not Kind.UNKNOWN else "doesn't tell what it has"
        which = "newer" if tale.data.kind is not Kind.UNKNOWN else "which may be newer"
        yield _Newer(f"{tale.member} (server {tale.server}) {what}, {which} than {own}", rules.patience_s(tale))


def _running(told: Told) -> Told:
    """What those tell whose servers serve: a server that comes up learns it from them at once."""
    return {member: tale for member, tale in told.items() if tale.server is Server.UP}


def _wasnt_replaced(me: Tale, told: Told) -> bool:
    """Whether a primary with its log knows that nobody served in its place since: then its log is as good as it can be.

    Whoever is elected in its place is so by a majority of the primaries, so that hearing all but a minority of them
    means hearing one who voted; a newer owner told by that one would have been found before. One who voted and didn't
    see what came of it knows an epoch that belongs to nobody.
    """
    if me.data.kind not in (Kind.LOG, Kind.FULL_LOG):
        return False
    owned = max(owner.config_epoch for tale in (me, *told.values()) for owner in tale.claims)
    if any(tale.current_epoch > max(owned, me.current_epoch) for tale in told.values()):
        return False
    voters = {owner.node_id for owner in me.owners if owner.slots} | {me.node_id}
    heard = sum(1 for tale in told.values() if tale.node_id in voters and tale.server is Server.UP)
    majority = len(voters) // 2 + 1
    return heard > len(voters) - majority


def _mates(me: Tale, declared: Collection[Member]) -> set[Member]:
    """The members that may have a copy of its data: those that are declared, and those that followed it last."""
    followed = {one.member for one in me.followers if one.primary_id == me.node_id and one.member is not None}
    return (followed | {member for member in declared if member.shard == me.member.shard}) - {me.member}


def _describe(tale: Tale) -> str:
    at = "" if tale.data.offset is None else f" at offset {tale.data.offset}"
    return f"{tale.data.kind}{at}"


def _names(owners: Collection[Owner]) -> str:
    return ", ".join(sorted({str(owner.member or f"node {owner.node_id[:8]}") for owner in owners}))
