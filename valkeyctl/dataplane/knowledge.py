"""What follows from one view, for all rules alike: who owns which slots, who is gone, who may vote, what to aim at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from valkeyctl.dataplane.ghosts import Ghost, Kind, find_ghosts
from valkeyctl.dataplane.model import Member, Spec
from valkeyctl.dataplane.slots import EMPTY, Layout, SlotSet, planned_layout, slots_moved, union
from valkeyctl.dataplane.view import Absent, JobState, NodeView, Role, Unreachable, View

PATIENCE_S = 10.0
"""How long a member that nobody knows is waited for before the others go on without it."""


@dataclass(frozen=True)
class Knowledge:
    """A view with what follows from it. Everything is computed once, when first asked for."""

    spec: Spec
    view: View

    @cached_property
    def nodes(self) -> Mapping[Member, NodeView]:
        """The members that answered and take part.

        A shard that is leaving takes part as long as it owns slots, or a move of slots that it has begun isn't over.
        """
        leaving = set(self.spec.leaving)
        return {m: n for m, n in self.view.nodes.items() if m not in leaving or m.shard in self.draining}

    @cached_property
    def draining(self) -> tuple[int, ...]:
        """The shards that are leaving and still have something to give."""
        owning = {member.shard for member in self.owned} | set(self.shard_of_ghost.values())
        moving = {
            member.shard
            for member, node in self.view.nodes.items()
            if node.role is Role.PRIMARY and (node.is_moving_slots or node.migrating or node.importing)
        }
        return tuple(shard for shard in self.spec.leaving_shards if shard in owning or shard in moving)

    @cached_property
    def released(self) -> Mapping[Member, NodeView]:
        """The leaving members that answered and have nothing to give any more."""
        return {m: n for m, n in self.view.nodes.items() if m not in self.nodes}

    @cached_property
    def ghosts(self) -> tuple[Ghost, ...]:
        """Nodes that members tell of and that aren't members who answered."""
        return find_ghosts(self.spec, self.view)

    @cached_property
    def ghost_of_id(self) -> Mapping[str, Ghost]:
        """The ghosts by id."""
        return {ghost.node_id: ghost for ghost in self.ghosts}

    @cached_property
    def owned(self) -> Mapping[Member, SlotSet]:
        """The slots of each answering primary, as it says itself; where two claim a slot, the newer epoch has it.

        That is how the servers themselves decide, once they hear of each other.
        """
        claimants = [n for n in self.view.nodes.values() if n.role is Role.PRIMARY and n.slots]
        claimants.sort(key=lambda n: (n.config_epoch, n.node_id), reverse=True)
        taken, owned = 0, dict[Member, SlotSet]()
        for node in claimants:
            mine = SlotSet(node.slots.bits & ~taken)
            taken |= mine.bits
            if mine:
                owned[node.member] = mine
        return owned

    @cached_property
    def disputes(self) -> tuple[tuple[NodeView, NodeView, SlotSet], ...]:
        """Pairs of primaries, neither of which knows the other, that both claim some slots: those slots, by pair.

        Among nodes that know each other there is no dispute: the newer epoch wins, and they settle it by themselves.
        """
        claimants = [n for n in self.view.nodes.values() if n.role is Role.PRIMARY and n.slots]
        return tuple(
            (one, other, one.slots & other.slots)
            for i, one in enumerate(claimants)
            for other in claimants[i + 1 :]
            if one.slots.bits & other.slots.bits and one.node_id not in other.peers and other.node_id not in one.peers
        )

    @cached_property
    def lost(self) -> Mapping[str, SlotSet]:
        """Slots that no answering primary owns and that are remembered to be a ghost's, by its id."""
        taken, lost = union(self.owned.values()).bits, dict[str, SlotSet]()
        for ghost in sorted(self.ghosts, key=lambda g: (g.config_epoch, g.node_id), reverse=True):
            mine = SlotSet(ghost.claims.bits & ~taken)
            taken |= mine.bits
            if mine:
                lost[ghost.node_id] = mine
        return lost

    @cached_property
    def free(self) -> SlotSet:
        """Slots that nobody owns, nor is remembered to have owned, nor is about to."""
        known = union(self.owned.values()) | union(self.lost.values()) | union(self.landing.values())
        return SlotSet.all() - known

    @cached_property
    def landing(self) -> Mapping[Member, SlotSet]:
        """Slots that nobody claims because they changed hands while everybody was asked, by who takes them.

        The taker was asked a moment before, and the giver a moment after: the one doesn't claim them yet, and the other
        not any more. Taken for free, they would be dropped and given away while the taker serves them.
        """
        claimed = union(node.slots for node in self.view.nodes.values() if node.role is Role.PRIMARY)
        landing: dict[Member, SlotSet] = {}
        for node in self.view.nodes.values():
            newer = EMPTY
            for job in node.jobs:
                # Servers remember long; what a slot's last move was is what counts. They tell the newest first.
                last, newer = job.slots - newer, newer | job.slots
                if job.state is JobState.FAILED:
                    continue
                giver_id, taker_id = (node.node_id, job.other_id) if job.gives else (job.other_id, node.node_id)
                taker = self.view.member_of_id.get(taker_id)
                believed = self.view.nodes[taker].peers.get(giver_id) if taker is not None else None
                if taker is not None and believed is not None and (slots := (last & believed.slots) - claimed):
                    landing[taker] = landing.get(taker, EMPTY) | slots
        return landing

    @cached_property
    def shard_of_ghost(self) -> Mapping[str, int]:
        """The shard that each ghost with lost slots belongs to: by its name, its followers, or its slots."""
        return {node_id: self._shard_of(self.ghost_of_id[node_id], slots) for node_id, slots in self.lost.items()}

    @cached_property
    def held(self) -> Layout:
        """The slots of each shard: those its members own, those a lost member owned, those others believe it owns.

        What servers are moving by themselves counts where it goes, so that nothing is planned against it.
        """
        held = [EMPTY] * self.spec.span
        for member, slots in self.owned.items():
            held[member.shard] |= slots
        for node_id, slots in self.lost.items():
            held[self.shard_of_ghost[node_id]] |= slots
        for shard, slots in enumerate(self._believed):
            held[shard] |= slots
        for member, slots in self.landing.items():
            held[member.shard] |= slots
        for member, node in self.view.nodes.items():
            for job in node.running_jobs:
                to = self.view.member_of_id.get(job.other_id)
                on_their_way = job.slots & self.owned.get(member, EMPTY)
                if to is not None and to.shard < self.spec.shards:
                    held[member.shard] -= on_their_way
                    held[to.shard] |= on_their_way
        return tuple(held)

    @cached_property
    def target(self) -> Layout:
        """The layout to aim at: as declared where that is meant to the slot, or where no other moves fewer slots.

        Shards that are leaving are in it, and get nothing.
        """
        spec = self.spec
        nothing = (EMPTY,) * (spec.span - spec.shards)
        declared = spec.layout + nothing
        if spec.explicit:
            return declared
        nearest = planned_layout(spec.shards, self.held) + nothing
        return declared if slots_moved(self.held, declared) <= slots_moved(self.held, nearest) else nearest

    @cached_property
    def home(self) -> Mapping[int, int]:
        """The shard that each slot is to belong to."""
        return {slot: shard for shard, slots in enumerate(self.target) for slot in slots}

    @cached_property
    def elector_ids(self) -> frozenset[str]:
        """All primaries with slots, present or not: they vote."""
        return frozenset({self.nodes[m].node_id for m in self.owned} | set(self.lost))

    @cached_property
    def majority_possible(self) -> bool:
        """Whether those that answer, or may come back, are a majority of the voters."""
        gone = sum(1 for node_id in self.lost if self.ghost_of_id[node_id].kind is Kind.GONE)
        return len(self.elector_ids) - gone > len(self.elector_ids) // 2

    @cached_property
    def majority_heard(self) -> bool:
        """Whether the voters that answer are a majority: then elections end, whoever else stays away."""
        return len(self.owned) > len(self.elector_ids) // 2

    @cached_property
    def takeover_due(self) -> bool:
        """Whether a person's consent to go on without a majority holds now.

        The voters that are gone for good, or have been silent for as long as was declared, must leave the others in a
        minority, whoever of these still comes back.
        """
        after_s = self.spec.takeover_after_s
        if after_s is None or self.majority_heard:
            return False
        given_up = sum(1 for node_id in self.lost if self._is_given_up(self.ghost_of_id[node_id], after_s))
        return len(self.elector_ids) - given_up <= len(self.elector_ids) // 2

    def silent_for(self, member: Member, at_least_s: float) -> bool:
        """Whether a member has been absent or unreachable for so long."""
        outcome = self.view.missing.get(member)
        return outcome is not None and outcome.for_s >= at_least_s

    def _is_given_up(self, ghost: Ghost, after_s: float) -> bool:
        if ghost.kind is Kind.GONE:
            return True
        if ghost.kind is not Kind.AWAY or ghost.seen_alive:
            return False
        if ghost.member is not None:
            return self.silent_for(ghost.member, after_s)
        # Nobody has heard its name: it may be any of those that are missing.
        return all(self.silent_for(member, after_s) for member in self.view.missing)

    @cached_property
    def empty_throughout(self) -> bool:
        """Whether no member that answers owns a slot, remembers an owner of one, or holds a key.

        So it is before an instance is first formed, and when every copy of everything is gone.
        """
        return not self.owned and not self.lost and not any(node.keys for node in self.nodes.values())

    @cached_property
    def awaited(self) -> Mapping[Member, Unreachable | Absent]:
        """The members that didn't answer and are needed: not those that are leaving and own nothing."""
        leaving = set(self.spec.leaving)
        owning = {self.ghost_of_id[node_id].member for node_id in self.lost}
        return {m: outcome for m, outcome in self.view.missing.items() if m not in leaving or m in owning}

    @cached_property
    def unheard(self) -> tuple[Member, ...]:
        """Members that didn't answer and that nobody tells of: what they hold is unknown."""
        told = {ghost.member for ghost in self.ghosts if ghost.kind is Kind.AWAY}
        return tuple(member for member in self.view.missing if member not in told)

    @cached_property
    def must_wait_for(self) -> tuple[Member, ...]:
        """Of those, the ones without which no slot may be given away: they may own it, or hold its data."""
        if self.spec.formed and not self.spec.accept_data_loss:
            return self.unheard
        return tuple(m for m in self.unheard if self.view.missing[m].for_s < PATIENCE_S)

    @cached_property
    def loss_accepted(self) -> bool:
        """Whether slots whose every copy is gone may be given to nodes without their data.

        A person said so, or the instance was never Ready, so that nobody was told to rely on it.
        """
        return self.spec.accept_data_loss or not self.spec.formed

    @cached_property
    def newest_epoch(self) -> int:
        """The newest epoch that anybody knows of."""
        peers = (peer.config_epoch for node in self.nodes.values() for peer in node.peers.values())
        return max(max((n.current_epoch for n in self.nodes.values()), default=0), max(peers, default=0))

    @cached_property
    def _believed(self) -> Layout:
        """Slots that nobody owns any more and that others still believe to be an answering primary's, by its shard."""
        free = self.free
        believed = [EMPTY] * self.spec.span
        if not free:
            return tuple(believed)
        owners = self.view.member_of_id
        for node in self.view.nodes.values():
            for node_id, peer in node.peers.items():
                if node_id in owners and peer.slots.bits & free.bits:
                    mine = peer.slots & free
                    believed[owners[node_id].shard] |= mine
                    free -= mine
        return tuple(believed)

    def _shard_of(self, ghost: Ghost, slots: SlotSet) -> int:
        known = {*range(self.spec.shards), *self.spec.leaving_shards}
        if ghost.member is not None and ghost.member.shard in known:
            return ghost.member.shard
        followers = [m for m, n in self.view.nodes.items() if n.primary_id == ghost.node_id]
        if followers:
            return min(followers).shard
        return max(range(self.spec.shards), key=lambda s: len(self.spec.layout[s] & slots))
