"""What slots hold that are to be moved: how many keys, and about how many bytes. Only reads.

A server counts the keys of each slot, but tells its bytes for all slots together: a key counts as large as those of its
server are on average.
"""

from __future__ import annotations

from collections.abc import Mapping

from valkeyctl.dataplane import errors, wire
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.session import Session
from valkeyctl.dataplane.slots import SlotSet, union
from valkeyctl.dataplane.translate import where
from valkeyctl.dataplane.weight import Weight


def giving(k: Knowledge) -> Mapping[Member, SlotSet]:
    """What each primary that answers has yet to give to other shards."""
    found = {member: owned - k.target[member.shard] for member, owned in k.owned.items()}
    return {member: slots for member, slots in found.items() if slots}


def weigh(links: Links, given: Mapping[Member, SlotSet], endpoints: Mapping[Member, Endpoint]) -> Weight:
    """Ask each member what its slots hold, all of them at once and in one round trip each.

    Raises nothing: what a member doesn't tell within the time of the links, or may not be asked, is unknown.
    """
    keys: dict[int, int] = {}
    sizes: dict[int, float] = {}

    def talk(session: Session) -> tuple[list[int], float]:
        slots = list(given[session.endpoint.member])
        told, *counts = session.ask([wire.DATASET, *(wire.count_keys(slot) for slot in slots)])
        for reply in (told, *counts):
            if isinstance(reply, errors.ValkeyctlError):
                raise reply
        try:
            return wire.numbers(counts), wire.bytes_per_key(told)
        except (ValueError, LookupError) as e:
            raise errors.NotUnderstood("what its slots hold can't be read", where=where(session.endpoint)) from e

    asked = {member: endpoints[member] for member in given if member in endpoints}
    for member, told in links.each(asked, talk).items():
        if isinstance(told, errors.ValkeyctlError):
            continue
        counts, per_key = told
        keys.update(zip(given[member], counts, strict=True))
        sizes.update((slot, count * per_key) for slot, count in zip(given[member], counts, strict=True))
    return Weight(keys, sizes, union(given.values()) - SlotSet.of(sizes))
