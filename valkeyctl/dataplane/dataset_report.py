"""What is seen of one dataset as a whole, servers and Sentinels together: for outputs, Events and status alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from valkeyctl.dataplane.replication.report import ReplicationReport
from valkeyctl.dataplane.report import Condition, Phase, Status
from valkeyctl.dataplane.sentinel.report import SentinelReport

ENDPOINTS = "EndpointsRight"


@dataclass(frozen=True)
class DatasetReport:
    """What an observation means. `primary` names its Pod, "" where none is known; `server_version` as the servers'."""

    phase: Phase
    conditions: tuple[Condition, ...]
    primary: str
    server_version: str

    @property
    def primaries(self) -> dict[str, str]:
        """As in the status of every instance: by shard."""
        return {"s0": self.primary} if self.primary else {}


def together(
    servers: ReplicationReport,
    sentinels: SentinelReport | None = None,
    endpoints: Condition | None = None,
    *,
    formed: bool,
) -> DatasetReport:
    """One report. `sentinels` where some watch the dataset; `endpoints`: whether clients are led to the right members,
    None where that wasn't looked at. Ready only when all are as declared. Pure.
    """
    others: tuple[Condition, ...] = (
        *(sentinels.conditions if sentinels else ()),
        *((endpoints,) if endpoints else ()),
    )
    amiss = [one for one in others if one.status is not Status.TRUE]
    settling = sentinels is not None and not sentinels.ready
    ready, *rest = servers.conditions
    phase = servers.phase
    if phase is Phase.READY and (amiss or settling):
        phase = Phase.DEGRADED if formed else Phase.INITIALIZING
        ready = _not_ready(amiss)
    return DatasetReport(phase, (ready, *rest, *others), servers.primary, servers.server_version)


def _not_ready(amiss: Sequence[Condition]) -> Condition:
    if not amiss:
        return Condition("Ready", Status.FALSE, "Converging", "the Sentinels are yet to learn of each other")
    told = "; ".join(f"{one.type} is {one.status} ({one.message or one.reason})" for one in amiss)
    return Condition("Ready", Status.FALSE, amiss[0].reason, told)
