"""A primary that was replaced while it was away doesn't serve its old data before those who know that are back."""

from __future__ import annotations

import time

from tests.agent import scenes
from tests.agent.pods import Pods, eventually
from tests.dataplane.scenes import key_in
from valkeyctl.dataplane import Member

SPEC = scenes.SPEC
FORMER, HEIR = Member(0, 0), Member(0, 1)
HOLDS_S = 4.0
"""Longer than a server needs to start, to look for the others, and to take writes."""


def test_it_waits_for_the_one_that_replaced_it(line: str) -> None:
    """Everything was down, and of those who know better only the heir's agent is back so far."""
    with Pods(SPEC, line, {"save": "3600 1"}) as pods:
        scenes.formed(pods)
        keys = scenes.fill(pods, 0)
        pods.ask(FORMER, "SAVE")
        pods.pods[FORMER].stop()
        eventually(lambda: scenes.is_primary(pods, HEIR), pods)
        newer = key_in(SPEC.layout[0], 1000)
        eventually(lambda: pods.ask(HEIR, "SET", newer, "after it was replaced"), pods)
        pods.ask(HEIR, "SAVE")
        for member in set(SPEC.members) - {FORMER}:
            pods.pods[member].stop()

        pods.pods[HEIR].start_agent()
        pods.pods[FORMER].start()
        eventually(lambda: "s0-1 owns slots of it since a newer epoch" in pods.pods[FORMER].log(), pods)
        until = time.monotonic() + HOLDS_S
        while time.monotonic() < until:
            assert not pods.pods[FORMER].listens(), pods.logs()
            time.sleep(0.1)

        pods.pods[HEIR].start_container()
        for member in set(SPEC.members) - {FORMER, HEIR}:
            pods.pods[member].start()
        eventually(lambda: scenes.ready(pods) and not scenes.is_primary(pods, FORMER), pods)
        assert scenes.held_by(pods, HEIR, {**keys, newer: "after it was replaced"})
