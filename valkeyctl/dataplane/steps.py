"""The steps of a plan: frozen records that say what to do at which member, and describe themselves."""

from __future__ import annotations

from dataclasses import dataclass

from valkeyctl.dataplane.model import Member


@dataclass(frozen=True)
class Wait:
    """Nothing to do but to look again: the servers are at it themselves."""

    member: Member
    what: str

    def describe(self) -> str:
        """One line for a person."""
        return f"wait until {self.what}"


Step = Wait
