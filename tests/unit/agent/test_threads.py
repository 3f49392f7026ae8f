"""The agent's threads: ends, faults, signs of life."""

from __future__ import annotations

import io
import threading
import time

from tests.unit.agent.places import eventually
from valkeyctl.agent.logs import Log
from valkeyctl.agent.threads import Threads


def test_a_part_that_fails_ends_the_process() -> None:
    log = io.StringIO()
    threads = Threads(Log(to=log))

    def fails(_: object) -> None:
        raise KeyError("a fault")

    threads.start("gate", 10.0, fails)
    eventually(threads.stopping.is_set)
    assert threads.failed
    assert "ERROR agent: gate failed: KeyError: 'a fault' [at=test_threads.py:" in log.getvalue()


def test_a_part_that_ends_by_itself_ends_the_process() -> None:
    threads = Threads(Log(to=io.StringIO()))
    threads.start("gate", 10.0, lambda _: None)
    eventually(threads.stopping.is_set)
    assert threads.failed


def test_an_end_that_was_asked_for_is_no_fault() -> None:
    threads = Threads(Log(to=io.StringIO()))
    threads.start("gate", 10.0, lambda _: threads.stopping.wait() and None)
    threads.stopping.set()
    threads.end(10.0)
    assert not threads.failed


def test_who_does_not_end_is_not_waited_for() -> None:
    threads = Threads(Log(to=io.StringIO()))
    never = threading.Event()
    threads.start("leader", 10.0, lambda _: never.wait() and None)
    threads.stopping.set()
    began = time.monotonic()
    threads.end(0.2)
    assert time.monotonic() - began < 5
    never.set()


def test_who_gives_no_sign_of_life_is_named() -> None:
    threads = Threads(Log(to=io.StringIO()))
    threads.start("watch", 60.0, lambda _: threads.stopping.wait() and None)
    assert threads.alive() == (True, "all parts go on")
    threads.start("leader", 0.1, lambda _: threads.stopping.wait() and None)
    eventually(lambda: not threads.alive()[0])
    assert threads.alive() == (False, "no sign of life from: leader")
    threads.beat("leader")
    assert threads.alive()[0]
    threads.stopping.set()
