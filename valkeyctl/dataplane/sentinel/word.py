"""The Sentinels' word for who is the primary, for those who act on servers by it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.sentinel.model import SentinelSpec, majority
from valkeyctl.dataplane.sentinel.view import SentinelOutcome, SentinelView


@dataclass(frozen=True)
class Word:
    """`decides`: it is theirs to say, whether or not they are heard. `primary`: the declared server that they name."""

    decides: bool
    primary: Member | None = None


def word_of(spec: SentinelSpec, told: Mapping[Member, SentinelOutcome]) -> Word:
    """Of those that answer, that of the one with the newest configuration. Where a majority answers, and none of these
    monitors the name, they decide nothing; where fewer answer, the others may decide without being heard.
    """
    heard = [outcome for outcome in told.values() if isinstance(outcome, SentinelView)]
    watching = [one.monitored for one in heard if one.monitored is not None]
    if not watching:
        return Word(decides=sum(one.member in spec.declared for one in heard) < majority(spec.sentinels))
    newest = max(watching, key=lambda monitored: monitored.config_epoch)
    named = next((member for member in spec.servers if spec.is_at(newest.address, member)), None)
    return Word(decides=True, primary=named)
