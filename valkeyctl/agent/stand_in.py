"""When a replica takes over from a primary whose server is down and kept down by its own agent.

The servers would elect a replica themselves, once a node timeout has passed, if most primaries vote and if its data is
young enough. Here the primary's agent promises that its server doesn't run and won't start before it says so
(`Tale.held`), so nothing has to be waited for: first an election at once (CLUSTER FAILOVER FORCE: a majority of the
primaries agrees on the epoch), and where no majority votes, CLUSTER FAILOVER TAKEOVER. That promise is what makes a
takeover safe: there is no second primary. Without it nothing is done here, whatever else is known.

Every replica judges the same tales in the same way, so that they agree on who it is without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from valkeyctl.agent.guard import RULES, Rules, Told, follows, newer_owners
from valkeyctl.agent.tale import Kind, Owner, Server, Tale
from valkeyctl.agent.worth import NONE, Scale
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import union
from valkeyctl.dataplane.view import Role


class How(StrEnum):
    """The option of CLUSTER FAILOVER."""

    FORCE = "FORCE"
    TAKEOVER = "TAKEOVER"


@dataclass(frozen=True)
class Promote:
    """The replica is to be promoted now. `warning`: newer data may be lost by it, which is to be told loudly."""

    how: How
    why: str
    warning: bool = False

    def __str__(self) -> str:
        """One line for a log."""
        return f"it stands in for its primary ({self.how}): {self.why}"


@dataclass(frozen=True)
class Stay:
    """The replica remains one for now."""

    why: str

    def __str__(self) -> str:
        """One line for a log."""
        return f"it doesn't stand in for its primary: {self.why}"


def stand_in(
    me: Tale, told: Told, down_s: float, *, forced_s: float | None = None, rules: Rules = RULES
) -> Promote | Stay:
    """Whether the server of `me`, a replica, is to be promoted now, and how.

    `down_s` counts from when its primary was first told to be down, `forced_s` from when CLUSTER FAILOVER FORCE was
    last sent for it (None: not since then). `me` and the primary's tale must be from after that, and the primary's not
    older than a second: a takeover rests on it. Acting twice on the same answer does no harm.
    """
    office = next((owner for owner in me.owners if owner.node_id == me.primary_id), None)
    refusal = _unfit(me, office)
    if refusal or office is None:
        return Stay(refusal)
    case = _Case(me, office, told, rules)
    refusal = case.primary_refuses() or case.others_first(down_s)
    return Stay(refusal) if refusal else case.promotion(forced_s)


def _unfit(me: Tale, office: Owner | None) -> str:
    """Why it could never stand in as it is, whatever others tell; "" when it could."""
    if me.server is not Server.UP or me.role is not Role.REPLICA:
        return "it is no replica that serves"
    if office is None or not office.slots:
        return "its primary owns no slots"
    if me.data.kind is Kind.NOTHING:
        return "it never had a whole copy of its primary's data"
    if me.data.kind is Kind.UNKNOWN:
        return "it isn't known what data it has"
    return ""


def _shows(tale: Tale) -> bool:
    """Whether a replica's data can be had, or compared: not that in the memory of a server that doesn't answer."""
    return tale.data.kind is not Kind.UNKNOWN and (tale.server is Server.UP or tale.data.kind is not Kind.LIVE)


class _Case:
    """One replica, the office of its primary (its node and slots as this replica knows them), and what others tell."""

    def __init__(self, me: Tale, office: Owner, told: Told, rules: Rules) -> None:
        self.me, self.office, self.told, self.rules = me, office, told, rules
        others = [tale for tale in told.values() if follows(tale, office.node_id) and tale.member != me.member]
        rivals = [tale for tale in others if _shows(tale)]
        self.mute = {tale.member for tale in others} - {tale.member for tale in rivals}
        self.scale = Scale([me, *rivals])
        self.rivals = sorted(rivals, key=self._rank)
        by_id = next((tale for tale in told.values() if tale.node_id == office.node_id), None)
        # Where its member is another node by now, that one's tale tells that the former is gone.
        self.primary = by_id or (told.get(office.member) if office.member is not None else None)

    def primary_refuses(self) -> str:
        """Why its primary needs nobody in its place; "" when it does."""
        office, primary = self.office, self.primary
        heirs = newer_owners(office.node_id, office.slots, office.config_epoch, self.told)
        if office.slots.issubset(union(heir.slots for heir in heirs)):
            return "its primary's slots have another owner by now"
        if primary is None:
            return "its primary's agent hasn't told how it is"
        if primary.node_id != office.node_id:
            # Its Pod lost its disk. The node that it was can't come back, and what is there now is no data of its.
            return ""
        return self._holds_its_own(primary)

    def _holds_its_own(self, primary: Tale) -> str:
        if primary.role is not Role.PRIMARY or not primary.slots:
            return "its primary has given up its slots"
        if primary.running:
            return f"its primary's server is {primary.server}"
        if not primary.held:
            return "its primary's server may start at any moment"
        if not self.scale.is_ahead(self.me, primary):
            return f"its primary has as much on its disk ({primary.data.kind}) and can start from that"
        return ""

    def others_first(self, down_s: float) -> str:
        """Which other replica is to stand in, or has to be heard before; "" when it is this one's turn."""
        for rival in self._better():
            if down_s < self.rules.patience_s(rival):
                return f"{rival.member} comes before it, and its server is {rival.server}"
        silent = ", ".join(map(str, self._silent()))
        in_sync = self.me.data.kind is Kind.LIVE and self.me.synced
        if silent and down_s < (self.rules.silent_s if in_sync else self.rules.absent_s):
            return f"not heard yet: {silent}"
        return ""

    def promotion(self, forced_s: float | None) -> Promote | Stay:
        """How to go about it: an election first, unless it can't be won."""
        why = f"nobody is known to have newer data than its own ({self.me.data.kind} at offset {self.me.data.offset})"
        missed = [*map(str, self._silent()), *(str(rival.member) for rival in self._better())]
        if missed:
            why += f"; not waited for any longer: {', '.join(missed)}"
        doubt = self._doubt()
        if not doubt and not self._enough_voters():
            return Promote(How.TAKEOVER, f"{why}; most primaries are down", bool(missed))
        if forced_s is None:
            return Promote(How.FORCE, why, bool(missed))
        if forced_s < self.rules.force_s:
            return Stay("it awaits the votes")
        if not doubt:
            return Promote(How.TAKEOVER, f"{why}; it wasn't elected in {forced_s:.1f} s", bool(missed))
        if forced_s < self.rules.again_s:
            return Stay(f"it wasn't elected, and mustn't take over: {doubt}")
        return Promote(How.FORCE, f"{why}; the last election failed", bool(missed))

    def _better(self) -> list[Tale]:
        """The other replicas that should rather stand in, the best first."""
        return [rival for rival in self.rivals if self._rank(rival) < self._rank(self.me) and self._could(rival)]

    def _could(self, rival: Tale) -> bool:
        """Whether another replica has data that is worth standing in with."""
        primary = self.primary
        if primary is None or primary.node_id != self.office.node_id:
            return self.scale.replica(rival) > NONE
        return self.scale.is_ahead(rival, primary)

    def _rank(self, tale: Tale) -> tuple[float, ...]:
        """Sorts by who should stand in: the newest data first, equals by their ordinals."""
        first, second = self.scale.replica(tale)
        return (-first, -second, tale.member.shard, tale.member.ordinal)

    def _silent(self) -> list[Member]:
        """The other replicas of its primary that haven't told, or whose servers don't answer."""
        tellers = [self.me, *([self.primary] if self.primary else [])]
        followers = {one.member for tale in tellers for one in tale.followers if one.primary_id == self.office.node_id}
        heard = {self.me.member, *self.told}
        return sorted({member for member in followers if member is not None and member not in heard} | self.mute)

    def _doubt(self) -> str:
        """Why its picture of the slots may be old, so that without votes it might take too much; "" if it isn't."""
        office, primary = self.office, self.primary
        if any(newer_owners(office.node_id, office.slots, office.config_epoch, self.told)):
            return "another node owns some of its primary's slots by now"
        if primary is None or primary.node_id != office.node_id:
            return ""
        if primary.slots != office.slots or primary.config_epoch > max(office.config_epoch, self.me.current_epoch):
            return "its primary knew of other slots than it does"
        return ""

    def _enough_voters(self) -> bool:
        """Whether a majority of the primaries may be there to vote: all but those that are told to be down."""
        by_id = {tale.node_id: tale for tale in self.told.values()}
        voters = [owner for owner in self.me.owners if owner.slots]
        down = 0
        for voter in voters:
            tale = by_id.get(voter.node_id)
            replaced = tale is None and voter.member in self.told
            down += replaced or (tale is not None and not tale.running) or voter.node_id == self.office.node_id
        return len(voters) - down > len(voters) // 2
