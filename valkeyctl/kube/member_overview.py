"""What is told of one Pod of an instance, for `valkeyctl status`: frozen records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemberOverview:
    """One Pod and its server. `lag` is how many bytes of its primary's stream a replica lacks; None where unknown."""

    pod: str
    role: str
    slots: str = ""
    lag: int | None = None
    keys: int | None = None
    node: str = ""
    zone: str = ""
    version: str = ""
    problem: str = ""


@dataclass(frozen=True)
class SentinelOverview:
    """One Sentinel. `watches`: the member that it takes for the primary, "" where it monitors the dataset not at all.

    `others`: how many other Sentinels it knows, None where it doesn't answer.
    """

    pod: str
    watches: str = ""
    others: int | None = None
    version: str = ""
    problem: str = ""
