"""Processes of this machine, read from /proc."""

from pathlib import Path


def all_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def descendants(pid: int) -> list[int]:
    """Processes below `pid`, nearest first."""
    children: dict[int, list[int]] = {}
    for other in all_processes():
        children.setdefault(stat_of(other)[0], []).append(other)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(0), [])
        found += below
        waiting += below
    return found


def session_of(pid: int) -> int:
    """The session of a process; -1 when it is gone."""
    return stat_of(pid)[1]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def stat_of(pid: int) -> tuple[int, int]:
    """Parent and session, from /proc/<pid>/stat, whose second field may hold spaces and parentheses."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1, -1
    return int(fields[1]), int(fields[3])
