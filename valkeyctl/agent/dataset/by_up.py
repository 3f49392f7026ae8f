"""A dataset whose members don't fail over by themselves: who is the primary is for `up`, and for the leading agent.

So no server starts writable but the only one there is: whoever heals promotes one, when all have been asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from valkeyctl.agent.dataset.deciding import StartAs, Told, Wait
from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.agent.tale import Kind
from valkeyctl.dataplane.model import Member
from valkeyctl.kube.declared_dataset import DeclaredDataset

HEARD_S = 1.0
"""How long the others' word is waited for: whom to follow is told later as well."""


def start_as(  # noqa: PLR0911  (one case after the other)
    declared: DeclaredDataset | None, me: DatasetTale, told: Told, waited_s: float, *, followed: bool
) -> StartAs | Wait:
    """How a server may start. Pure. `followed`: this Pod's server was a replica when it was last seen."""
    primaries = sorted(member for member, tale in told.items() if tale.is_primary)
    if primaries:
        names = " and ".join(map(str, primaries))
        if len(primaries) > 1:
            return StartAs(f"{names} are primaries; who counts is to be decided")
        return StartAs(f"{names} is the primary", primaries[0])
    if declared is None or not declared.formed:
        return StartAs("who is the first primary is to be decided")
    if declared.members == (me.member,) and not followed:
        return _alone(declared, me)
    above = {tale.upstream for tale in told.values() if tale.linked and tale.upstream is not None} - {me.member}
    if len(above) == 1:
        return StartAs("others follow it", above.pop())
    silent = [str(member) for member in declared.members if member != me.member and member not in told]
    if silent and waited_s < HEARD_S:
        return Wait(f"not heard yet: {', '.join(silent)}", HEARD_S)
    return StartAs("nobody tells of a primary")


def _alone(declared: DeclaredDataset, me: DatasetTale) -> StartAs:
    """The only member there is: it needs nobody's word, but where its disk has lost what it had."""
    if declared.persistent and me.data.kind is Kind.NOTHING:
        return StartAs("its disk is empty, and it has had data")
    return StartAs("it is the only member", writable=True)


class ByUp:
    """See the module; a `Decider`."""

    def __init__(
        self,
        declared: Callable[[], DeclaredDataset | None],
        followed: Callable[[], bool],
        hand_over: Callable[[float], str],
    ) -> None:
        """`declared` is what is known to be declared, `followed` whether this Pod's server was last a replica.

        `hand_over` has the own server hand its role to the best replica.
        """
        self._declared = declared
        self._followed = followed
        self._hand_over = hand_over

    @property
    def primary(self) -> Member | None:
        """Nobody keeps it between two runs."""
        return None

    def start_as(self, me: DatasetTale, told: Told, waited_s: float) -> StartAs | Wait:
        """See `start_as`."""
        return start_as(self._declared(), me, told, waited_s, followed=self._followed())

    def hand_over(self, deadline: float) -> str:
        """See `Decider.hand_over`."""
        return self._hand_over(deadline)

    def run(self, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Nothing is to be done here."""
        while not stopping.wait(1.0):
            beat()
