"""The agent's log."""

from __future__ import annotations

import io
import json
import re

from valkeyctl.agent.logs import Log


def test_a_line_an_event() -> None:
    to = io.StringIO()
    Log(to=to).info("gate", "the server may start", waited_s=1.5)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z gate: the server may start \[waited_s=1\.5\]\n", to.getvalue()
    )


def test_says_how_bad_it_is() -> None:
    to = io.StringIO()
    log = Log(to=to)
    log.warning("gate", "one")
    log.error("gate", "two")
    assert [line.split(" ", 1)[1] for line in to.getvalue().splitlines()] == ["WARNING gate: one", "ERROR gate: two"]


def test_no_text_of_others_makes_a_line_of_its_own() -> None:
    to = io.StringIO()
    Log(to=to).info("watch", "one\nERROR two\x1b[0m", said="a\rb")
    assert to.getvalue().count("\n") == 1
    assert "one\\nERROR two\\x1b[0m [said=a\\rb]" in to.getvalue()


def test_json_on_demand() -> None:
    to = io.StringIO()
    Log(as_json=True, to=to).warning("gate", "ä\n", level="mine", waited_s=1.5, member=object)
    (line,) = to.getvalue().splitlines()
    told = json.loads(line)
    assert (told["level"], told["source"], told["text"], told["waited_s"]) == ("warning", "gate", "ä\n", 1.5)
    assert told["time"].endswith("Z")
