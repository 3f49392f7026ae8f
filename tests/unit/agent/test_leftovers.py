"""What a stopped server left, read with the settings of one moment; what can't be read isn't taken for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.agent.places import place
from valkeyctl.agent.guard import RULES
from valkeyctl.agent.kept import Kept
from valkeyctl.agent.leftovers import Leftovers
from valkeyctl.agent.tale import Kind


def with_log(folder: Path) -> None:
    log = folder / "data" / "appendonlydir"
    log.mkdir()
    (log / "appendonly.aof.1.incr.aof").write_text("*1\r\n")
    (log / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")


def test_a_log_is_found_by_the_settings_that_the_server_is_started_with(tmp_path: Path) -> None:
    environment = place(tmp_path)
    with_log(tmp_path)
    assert Leftovers(environment).tale().data.kind is Kind.NOTHING
    (environment.config / "valkey.conf").write_text("appendonly yes\ncluster-node-timeout 15000\n")
    assert Leftovers(environment).tale().data.kind is Kind.LOG
    assert Leftovers(environment).rules().absent_s == 35.0


@pytest.mark.parametrize("missing", ["valkey.conf", "live.conf"])
def test_settings_that_can_not_be_read_do_not_make_a_disk_empty(tmp_path: Path, missing: str) -> None:
    """A mount that is being swapped: its log would be told to be nothing, and a replica take over with less."""
    environment = place(tmp_path)
    with_log(tmp_path)
    (environment.config / missing).unlink()
    with pytest.raises(OSError, match=missing):
        Leftovers(environment).tale()
    assert Leftovers(environment).rules() == RULES


def test_a_new_pod_begins_with_settings_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = place(tmp_path)
    read, swaps = Path.read_bytes, [1]

    def read_and_swap(path: Path) -> bytes:
        found = read(path)
        if path.parent == environment.config and swaps:
            swaps.pop()
            for name in ("valkey.conf", "live.conf"):
                beside = tmp_path / name
                beside.write_text(f"# the new {name}\n")
                beside.replace(environment.config / name)
        return found

    monkeypatch.setattr(Path, "read_bytes", read_and_swap)
    kept = Kept(environment.run)
    kept.begin(environment.config, environment.secret)
    assert (kept.base, kept.live) == ("# the new valkey.conf\n", "# the new live.conf\n")
