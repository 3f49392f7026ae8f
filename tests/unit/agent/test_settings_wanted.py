"""What a declared file comes to in one Pod."""

from __future__ import annotations

import pytest

from components.server_config import directive
from valkeyctl.agent.settings_live import read_directives, wanted
from valkeyctl.dataplane.settings import differing, same_value

DEFAULTS = {"hz": "10", "maxmemory": "0", "save": "3600 1 300 100 60 10000"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hz", "10"),
        ("save", ""),
        ("save", "900 1 300 10"),
        ("proc-title-template", '{title} a "quoted" \\ backslash \\" #'),
        ("bind", "* -::*"),
        ("locale-collate", ""),
    ],
)
def test_what_the_program_writes_is_read_as_it_was_meant(name: str, value: str) -> None:
    text = f"# A comment.\n\n{directive('timeout', '5')}\n{directive(name, value)}\n"
    assert read_directives(text) == {"timeout": "5", name: value}


def test_of_two_lines_the_last_one_holds() -> None:
    assert read_directives('hz "10"\nhz "20"\n') == {"hz": "20"}


def test_a_removed_setting_goes_back_to_its_default_and_an_unknown_one_is_named() -> None:
    what = wanted('timeout "5"\n', 'hz "20"\nnew-thing "1"\ntimeout "9"\n', DEFAULTS)
    assert what.settings == {"timeout": "5", "hz": "10"}
    assert what.forgotten == ("new-thing",)
    assert what.text == 'timeout "5"\n'


@pytest.mark.parametrize(("asked", "fits"), [("1000", True), ("1048576", False), ("0", False), ("2000000", False)])
def test_memory_that_the_pod_does_not_have(asked: str, *, fits: bool) -> None:
    what = wanted(f'maxmemory "{asked}"\nhz "20"\n', 'maxmemory "500"\n', DEFAULTS, memory_limit=1 << 20)
    assert what.settings == {"maxmemory": asked if fits else "500", "hz": "20"}
    assert read_directives(what.text)["maxmemory"] == (asked if fits else "500")
    assert bool(what.postponed) is not fits


def test_without_a_limit_any_memory_fits() -> None:
    assert wanted('maxmemory "0"\n', "", DEFAULTS).settings == {"maxmemory": "0"}


@pytest.mark.parametrize(
    ("name", "declared", "found", "same"),
    [
        ("notify-keyspace-events", "KEA", "AKE", True),
        ("notify-keyspace-events", "Kg$lshzxetd", "AK", True),
        ("notify-keyspace-events", "K", "AK", False),
        ("client-output-buffer-limit", "replica 1 2 3 normal 0 0 0", "normal 0 0 0 slave 1 2 3", True),
        ("client-output-buffer-limit", "replica 1 2 4", "slave 1 2 3", False),
        ("latency-tracking-info-percentiles", "50 99.90", "50 99.9", True),
        ("save", "900 1  300 10", "900 1 300 10", True),
        ("maxmemory-policy", "noeviction", "allkeys-lru", False),
    ],
)
def test_what_counts_as_the_same_value(name: str, declared: str, found: str, *, same: bool) -> None:
    assert same_value(name, declared, found) is same


def test_a_setting_that_the_server_does_not_tell_differs() -> None:
    assert differing({"hz": "10", "new-thing": "1"}, {"hz": "10"}) == {"new-thing": "1"}
