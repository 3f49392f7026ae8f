"""Entries of the cache are complete or absent, and made once, whoever is killed in between."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from local.cache import key_of, make_once


def test_a_key_depends_on_content_and_order_and_where_parts_end() -> None:
    keys = {key_of(parts) for parts in ([b"a", b"b"], [b"b", b"a"], [b"ab"], [b"a", b"b", b""], [])}
    assert len(keys) == 5
    assert key_of([b"a", b"b"]) == key_of([b"a", b"b"])


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    entry = tmp_path / "made" / "tool-1"
    made: list[Path] = []

    def make(workplace: Path) -> None:
        made.append(workplace)
        (workplace / entry.name).mkdir()
        (workplace / entry.name / "program").write_text("content")

    assert make_once(entry, make) is True
    assert make_once(entry, make) is False
    assert (entry / "program").read_text() == "content"
    assert len(made) == 1
    assert not made[0].exists()


def test_a_maker_that_fails_leaves_nothing(tmp_path: Path) -> None:
    entry = tmp_path / "tool-1"

    def fail(workplace: Path) -> None:
        (workplace / entry.name).write_text("half")
        raise RuntimeError("the compiler said no")

    with pytest.raises(RuntimeError, match="the compiler said no"):
        make_once(entry, fail)
    assert [path.name for path in tmp_path.iterdir()] == [f".{entry.name}.lock"]


def _make_slowly(entry: Path, began: Path) -> None:
    def make(workplace: Path) -> None:
        (workplace / entry.name).write_text("half")
        with began.open("a") as marks:
            marks.write("x")
        time.sleep(0.7)
        (workplace / entry.name).write_text("whole")

    make_once(entry, make)


def _start(entry: Path, began: Path) -> "multiprocessing.process.BaseProcess":
    process = multiprocessing.get_context("fork").Process(target=_make_slowly, args=(entry, began))
    process.start()
    return process


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_that_want_the_same_make_it_once(tmp_path: Path) -> None:
    entry, began = tmp_path / "tool-1", tmp_path / "began"
    first = _start(entry, began)
    _wait_for(began)
    waited: list[str] = []
    made = make_once(entry, lambda _: pytest.fail("made twice"), waiting=lambda: waited.append("waiting"))
    first.join(10)
    assert (made, waited, entry.read_text(), began.read_text()) == (False, ["waiting"], "whole", "x")


def test_after_a_killed_maker_the_next_one_makes_it_and_clears_up(tmp_path: Path) -> None:
    entry, began = tmp_path / "tool-1", tmp_path / "began"
    first = _start(entry, began)
    _wait_for(began)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    first.join(10)
    assert not entry.exists()
    assert list(tmp_path.glob(".making-*"))

    def make(workplace: Path) -> None:
        (workplace / entry.name).write_text("whole")

    assert make_once(entry, make) is True
    assert entry.read_text() == "whole"
    assert not list(tmp_path.glob(".making-*"))
