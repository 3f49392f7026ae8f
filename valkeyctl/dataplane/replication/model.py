"""What is declared of one dataset."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from valkeyctl.dataplane.model import MAX_REPLICAS, Member

PATIENCE_S = 10.0
"""How long members that don't answer are waited for, before the best of those that do is made the primary."""


@dataclass(frozen=True)
class ReplicationSpec:
    """The declared state of one dataset: a primary and `replicas` replicas, the members of shard 0.

    `primary` is a person's wish which ordinal is to be the primary: the role is handed over to that member as soon as
    it is in sync. A wish says nothing about whose data is newer, so it never decides that.

    `last_primary` is the ordinal of the member that was last made the primary by a decision (the holder of the Lease,
    what the Sentinels agree on, what the status says); None when that isn't known. It tells a primary from a stray, and
    whose disk counts where servers have forgotten their place in the stream.

    `formed` says that the dataset has been Ready before; `persistent` that the members have volumes, so that who comes
    back may bring data; `held_keys` is False only when it is known that there were no keys when it was last seen.
    `accept_data_loss` is a person's consent to go on with less data than there may be elsewhere.

    `patience_s` is how long members that don't answer are waited for before the best of the others is promoted. Who
    knows that the former primary can't take writes any more (its Lease ran out) may say 0.

    `decided_elsewhere` says that somebody else decides who the primary is (Sentinel). Then nobody is promoted here and
    no role handed over once the dataset is formed, and of two primaries only `last_primary` counts.

    `leaving` are members that exist and aren't declared any more. None of them keeps the primary's role, and nobody
    goes on following them.
    """

    instance: str
    replicas: int
    primary: int | None = None
    last_primary: int | None = None
    formed: bool = False
    accept_data_loss: bool = False
    persistent: bool = False
    held_keys: bool = True
    patience_s: float = PATIENCE_S
    decided_elsewhere: bool = False
    leaving: tuple[Member, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.replicas <= MAX_REPLICAS:
            raise ValueError(f"replicas must be 0 to {MAX_REPLICAS}, got {self.replicas}")
        if self.primary is not None and not 0 <= self.primary <= self.replicas:
            raise ValueError(f"there is no member {Member(0, self.primary)} to be the primary")
        for member in self.leaving:
            if member.shard != 0 or member in self.members:
                raise ValueError(f"{member} can't be leaving: it is declared, or of another shard")

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """Every declared member, by ordinal."""
        return tuple(Member(0, ordinal) for ordinal in range(self.replicas + 1))

    @cached_property
    def everybody(self) -> tuple[Member, ...]:
        """The declared members, and those that are leaving."""
        return self.members + self.leaving
