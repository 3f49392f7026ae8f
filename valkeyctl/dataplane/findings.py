"""What the rules of a plan found, collected."""

from __future__ import annotations

from dataclasses import dataclass

from valkeyctl.dataplane.rounds import Gathered
from valkeyctl.dataplane.slots import EMPTY, SlotSet
from valkeyctl.dataplane.steps import Action


@dataclass
class Findings(Gathered[Action]):
    """Filled by one rule after the other, in the order of the plan.

    `to_move` are the slots that are with another living shard than they are to be.
    """

    to_move: SlotSet = EMPTY
