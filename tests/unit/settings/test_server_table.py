"""The table of the server's settings says what real servers say."""

import fnmatch
import subprocess
from pathlib import Path

import pytest

from components import ClusterArgs
from components.config_files import base_file, live_file, settings_input
from components.owned import DIRECTIVES, owned_reason, owned_table
from components.server_config import directive, value_problem
from components.server_settings import DEFAULTS, SETTINGS, START_ONLY
from components.versions import RELEASES
from tests.unit.settings.server_table import WHEELS, Table, ask, render, running, server
from valkeyctl.dataplane.settings import differing

# Old words of the wire, which are understood but not offered here.
WIRE_DEFAULTS = {"client-output-buffer-limit"}
TABLES = {line: Table(SETTINGS[line], START_ONLY[line], DEFAULTS[line]) for line in SETTINGS}


def test_there_is_a_server_for_each_version_line() -> None:
    assert set(WHEELS) == set(SETTINGS) == set(RELEASES)


@pytest.mark.parametrize("line", WHEELS)
def test_table_is_what_the_server_says(line: str) -> None:
    assert ask(line) == TABLES[line]


def test_file_is_what_its_writer_writes() -> None:
    source = Path(__file__).parents[3] / "components" / "server_settings.py"
    assert source.read_text() == render(TABLES)


@pytest.mark.parametrize("line", WHEELS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("save", "900 1 300 10"),
        ("save", ""),
        ("client-output-buffer-limit", "normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60"),
        ("latency-tracking-info-percentiles", "50 99 99.9"),
        ("notify-keyspace-events", "AKE"),
        ("maxmemory-clients", "5%"),
        ("maxmemory", "100mb"),
        ("proc-title-template", '{title} a "quoted" \\ backslash'),
        ("activerehashing", "YES"),
        ("maxmemory-policy", "Allkeys-LRU"),
    ],
)
def test_what_is_accepted_here_the_server_accepts(line: str, name: str, value: str, tmp_path: Path) -> None:
    assert value_problem(name, SETTINGS[line][name], value) == ""
    assert complaint(line, directive(name, value), tmp_path) is None


@pytest.mark.parametrize("line", WHEELS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("save", "900"),
        ("save", "0 1"),
        ("client-output-buffer-limit", "replica 256mb"),
        ("client-output-buffer-limit", "replicas 0 0 0"),
        ("latency-tracking-info-percentiles", "101"),
        ("maxmemory-clients", "5Mi"),
        ("maxmemory", "-1"),
        ("hz", "1.5"),
        ("io-threads", "257"),
        ("appendfsync", "sometimes"),
        ("activerehashing", "true"),
    ],
)
def test_what_is_refused_here_the_server_refuses(line: str, name: str, value: str, tmp_path: Path) -> None:
    assert value_problem(name, SETTINGS[line][name], value) != ""
    assert complaint(line, directive(name, value), tmp_path) is not None


@pytest.mark.parametrize("line", WHEELS)
@pytest.mark.parametrize("persistent", [False, True])
def test_the_server_accepts_every_line_that_is_written(line: str, persistent: bool, tmp_path: Path) -> None:  # noqa: FBT001
    args = ClusterArgs.model_validate(
        {
            "version": line,
            "config": {"maxmemory-policy": "allkeys-lfu", "hz": 25},
            **({"persistence": {"size": "1Gi"}} if persistent else {}),
        }
    )
    # Its folder is the one thing that only a Pod has.
    text = base_file(args) + live_file(args)
    assert complaint(line, text.replace('dir "/data"', f'dir "{tmp_path}"'), tmp_path) is None


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in owned_table()])
def test_every_owned_name_is_one_of_the_server(pattern: str) -> None:
    known = {name for table in SETTINGS.values() for name in table}
    assert pattern in DIRECTIVES or fnmatch.filter(known, pattern)


def test_what_is_written_as_owned_is_owned() -> None:
    for text in (base_file(ClusterArgs()), live_file(ClusterArgs())):
        owned = [line.split(" ")[0] for line in text.split("# Owned")[1].splitlines()[1:] if line]
        assert owned
        assert [name for name in owned if not owned_reason(name)] == []


@pytest.mark.parametrize("line", WHEELS)
def test_what_is_applied_live_is_what_a_running_server_takes(line: str) -> None:
    args = ClusterArgs.model_validate({"version": line, "config": {"maxclients": 500, "tcp-backlog": 100}})
    names = {text.split(" ")[0] for text in live_file(args).splitlines() if text and not text.startswith("#")}
    assert {"maxclients", "maxmemory", "cluster-node-timeout", "repl-diskless-load"} <= names
    assert names & START_ONLY[line] == set()
    assert "tcp-backlog" in base_file(args)


def test_io_threads_are_live_where_the_server_takes_them_live() -> None:
    for line, live in (("8.1", False), ("9.1", True)):
        args = ClusterArgs.model_validate({"version": line, "config": {"io-threads": 2}})
        assert ("io-threads" in live_file(args)) is live
        assert ("io-threads" in base_file(args)) is not live
    unknown = ClusterArgs.model_validate({"image": f"valkey/own@sha256:{'0' * 64}", "config": {"io-threads": 2}})
    assert "io-threads" in base_file(unknown), "a Pod is replaced rather than left as it is"


CANONICAL = {
    "save": "900 1  300 10",
    "client-output-buffer-limit": "replica 100mb 64mb 60",
    "latency-tracking-info-percentiles": "50 99.9 100",
    "notify-keyspace-events": "KEA",
    "maxmemory-clients": "5%",
    "maxmemory": "100mb",
    "proc-title-template": '{title} a "quoted" \\ backslash',
    "activerehashing": "No",
    "maxmemory-policy": "Allkeys-LRU",
    "hz": "020",
    "locale-collate": "C",
}


@pytest.mark.parametrize("line", WHEELS)
def test_declared_values_are_what_the_server_tells_after_it_was_told_them(line: str, tmp_path: Path) -> None:
    live = settings_input(
        ClusterArgs.model_validate({"version": line, "config": CANONICAL, "persistence": {"size": "1Gi"}})
    )["live"]
    with running(server(line), str(tmp_path)) as client:
        client.execute_command("CONFIG", "SET", *(word for name in CANONICAL for word in (name, live[name])))
        found = client.config_get(*CANONICAL)
    assert differing({name: live[name] for name in CANONICAL}, found) == {}
    for name in CANONICAL:
        assert differing({name: live[name]}, {**found, name: DEFAULTS[line][name]}) != {}, "and not at its default"


def complaint(line: str, text: str, folder: Path) -> str | None:
    """What the server says against a configuration; None when it takes all of it."""
    done = subprocess.run(
        [str(server(line)), "-"],
        input=f"{text}\nno-such-setting-at-all x\n",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        cwd=folder,
    )
    said = done.stdout + done.stderr
    assert ">>>" in said, said
    return None if "no-such-setting-at-all" in said else said
