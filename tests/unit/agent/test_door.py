"""The door between the server's container and the agent, with the real script at its other side."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from valkeyctl.agent.door import Door

START = Path(__file__).resolve().parents[3] / "components" / "start.sh"


class Container:
    """The server's container: start.sh, with a program in the server's place that says what it was started with."""

    def __init__(self, run: Path) -> None:
        server = run / "server"
        server.write_text(f'#!/bin/sh\necho "$1" >>"{run}/started"\nexec sleep 60\n')
        server.chmod(0o700)
        self._run = run
        self._environment = {"PATH": os.environ["PATH"], "VALKEY_RUN": str(run), "VALKEY_SERVER": str(server)}
        self._processes: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(["sh", str(START)], env=self._environment, stderr=subprocess.PIPE, text=True)
        self._processes.append(process)
        return process

    def starts(self, count: int, within_s: float = 10.0) -> bool:
        """Whether the server was started so often within that time."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if len(self._started()) >= count:
                return True
            time.sleep(0.02)
        return False

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(10)

    def _started(self) -> list[str]:
        file = self._run / "started"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def container(run: Path) -> Iterator[Container]:
    made = Container(run)
    yield made
    made.end()


def asked(door: Door, before: str = "") -> str:
    """The token of the next request."""
    deadline = time.monotonic() + 10
    while not (token := door.asked()) or token == before:
        assert time.monotonic() < deadline
        door.wait(0.1)
    return token


def test_no_start_before_the_answer(run: Path, container: Container) -> None:
    door = Door(run / "start")
    container.start()
    token = asked(door)
    assert not container.starts(1, within_s=0.3)
    door.answer(token)
    assert container.starts(1)
    assert (run / "started").read_text() == f"{run}/valkey.conf\n"
    assert (door.asked(), door.answered()) == ("", token)


def test_every_start_is_asked_for(run: Path, container: Container) -> None:
    door = Door(run / "start")
    first = container.start()
    token = asked(door)
    door.answer(token)
    assert container.starts(1)
    first.kill()
    container.start()
    other = asked(door)
    assert other != token
    assert not container.starts(2, within_s=0.3)
    door.answer(other)
    assert container.starts(2)


def test_an_answer_to_an_older_request_is_none(run: Path, container: Container) -> None:
    door = Door(run / "start")
    first = container.start()
    old = asked(door)
    first.kill()
    container.start()
    new = asked(door, before=old)
    door.answer(old)
    assert not container.starts(1, within_s=0.3)
    assert door.asked() == new
    door.answer(new)
    assert container.starts(1)


def test_an_agent_that_comes_back_finds_the_request(run: Path, container: Container) -> None:
    token = ""
    door = Door(run / "start")
    container.start()
    token = asked(door)
    del door
    other = Door(run / "start")
    assert other.asked() == token
    other.answer(token)
    assert container.starts(1)


def test_an_agent_that_comes_late_is_waited_for(run: Path, container: Container) -> None:
    container.start()
    assert not container.starts(1, within_s=0.3)
    door = Door(run / "start")
    door.answer(asked(door))
    assert container.starts(1)


def test_a_ring_that_got_lost_is_made_good(run: Path, container: Container) -> None:
    """The agent wrote its answer and ended before it could ring."""
    door = Door(run / "start")
    container.start()
    token = asked(door)
    time.sleep(0.5)  # it has found no answer, and waits for a ring
    (run / "start" / "permit").write_text(f"{token}\n")
    Door(run / "start").ring()
    assert container.starts(1)


def test_a_refusal_ends_the_container_with_its_reason(run: Path, container: Container) -> None:
    door = Door(run / "start")
    process = container.start()
    door.answer(asked(door), "the password is empty: /etc/valkey-secret/password")
    assert process.wait(10) == 1
    assert process.stderr is not None
    assert process.stderr.read() == "start.sh: the password is empty: /etc/valkey-secret/password\n"
    assert not (run / "started").exists()


def test_an_answer_that_was_taken_back_is_no_request(run: Path, container: Container) -> None:
    door = Door(run / "start")
    container.start()
    door.answer(asked(door))
    assert container.starts(1)
    door.take_back()
    door.take_back()
    assert (door.answered(), door.asked()) == ("", "")


def test_a_container_that_waits_ends_when_it_is_asked_to(run: Path, container: Container) -> None:
    door = Door(run / "start")
    process = container.start()
    asked(door)
    time.sleep(0.2)
    process.terminate()
    assert process.wait(10) == 143


def test_ringing_where_nobody_waits_does_nothing(run: Path) -> None:
    door = Door(run / "start")
    door.ring()
    door.answer("token")
    assert door.answered() == "token"


def test_a_knock_ends_a_wait(run: Path) -> None:
    door = Door(run / "start")
    for _ in range(100_000):  # more than the pipe holds
        door.knock()
    began = time.monotonic()
    door.wait(10)
    assert time.monotonic() - began < 5


def test_only_the_same_user_may_ask(run: Path) -> None:
    Door(run / "start").answer("token")
    for path in (run / "start").iterdir():
        assert path.stat().st_mode & 0o077 == 0 or path.name == "permit", path
    assert stat.S_IMODE((run / "start").stat().st_mode) == 0o700


def test_what_stands_in_a_pipes_place_is_replaced(run: Path) -> None:
    (run / "start").mkdir()
    (run / "start" / "wake").write_text("")
    Door(run / "start")
    assert stat.S_ISFIFO((run / "start" / "wake").stat().st_mode)
