"""The file that says until when a server may take writes, and what an agent keeps beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from valkeyctl.agent.primacy.fence import ALONE, FILE, Fence, boot_time
from valkeyctl.agent.primacy.memory import Memory
from valkeyctl.dataplane.model import Member


def line(run: Path) -> str:
    return (run / FILE).read_text()


def test_at_first_nobody_may_take_writes(tmp_path: Path) -> None:
    assert Fence(tmp_path).until is None
    assert line(tmp_path) == "replica\n"


def test_the_time_is_told_in_hundredths(tmp_path: Path) -> None:
    fence = Fence(tmp_path)
    fence.arm(1234.567)
    assert line(tmp_path) == "primary 123456\n"
    fence.stand_down()
    assert line(tmp_path) == "replica\n"
    assert fence.until is None


def test_the_end_is_never_moved_to_an_earlier_time(tmp_path: Path) -> None:
    fence = Fence(tmp_path)
    fence.arm(20.0)
    fence.arm(19.0)
    assert fence.until == 20.0
    assert line(tmp_path) == "primary 2000\n"


def test_who_is_alone_has_no_end_until_it_is_not_alone(tmp_path: Path) -> None:
    fence = Fence(tmp_path)
    fence.arm(20.0)
    fence.arm(ALONE)
    assert line(tmp_path) == "alone\n"
    fence.arm(25.0)
    assert line(tmp_path) == "primary 2500\n"


@pytest.mark.parametrize(("left", "until"), [("primary 2000\n", 20.0), ("alone\n", ALONE), ("replica\n", None)])
def test_an_agent_goes_on_with_what_the_one_before_it_wrote(tmp_path: Path, left: str, until: float | None) -> None:
    (tmp_path / FILE).write_text(left)
    assert Fence(tmp_path).until == until
    assert line(tmp_path) == left


@pytest.mark.parametrize("left", ["", "primary", "primary soon", "master 2000"])
def test_nonsense_is_replaced(tmp_path: Path, left: str) -> None:
    (tmp_path / FILE).write_text(left)
    assert Fence(tmp_path).until is None
    assert line(tmp_path) == "replica\n"


def test_the_clock_is_the_one_that_the_watchdog_reads() -> None:
    before = boot_time()
    shown = float(Path("/proc/uptime").read_text().split()[0])
    assert before - 0.02 <= shown <= boot_time()


def test_what_was_promised_outlives_the_agent_and_not_the_pod(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    memory = Memory(one)
    memory.promise(50.0)
    memory.promise(40.0)
    memory.note_candidates([Member(0, 2), Member(0, 0)])
    memory.keep("a run")
    again = Memory(one)
    assert (again.token, again.promised_until, again.kept) == (memory.token, 50.0, "a run")
    assert again.candidates == {Member(0, 0), Member(0, 2)}
    assert Memory(other).token != memory.token


def test_a_memory_that_is_not_understood_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "primacy.json").write_text("not JSON")
    memory = Memory(tmp_path)
    assert memory.promised_until == 0.0
    assert Memory(tmp_path).token == memory.token
