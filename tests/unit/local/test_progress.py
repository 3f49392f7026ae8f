"""Progress lines: what, when, and a sign of life."""

import io
import re
import time

import pytest

from local import progress
from local.progress import Progress


def test_a_step_tells_its_beginning_and_its_end() -> None:
    stream = io.StringIO()
    told = Progress(stream)
    with told.step("Building etcd"):
        told.say("in between")
    lines = stream.getvalue().splitlines()
    assert re.fullmatch(r" +0\.\d s  Building etcd …", lines[0])
    assert lines[1].endswith("  in between")
    assert re.fullmatch(r" +0\.\d s  Building etcd: done in 0\.\d s", lines[2])


def test_a_step_that_fails_says_so_and_fails() -> None:
    stream = io.StringIO()
    with pytest.raises(RuntimeError, match="no"), Progress(stream).step("Building etcd"):
        raise RuntimeError("no")
    assert "Building etcd: failed after 0." in stream.getvalue()


def test_a_long_step_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.05)
    stream = io.StringIO()
    with Progress(stream).step("Building etcd"):
        time.sleep(0.2)
    assert stream.getvalue().count("so far") >= 2
