"""The processes in Pods of the local cluster, seen from the machine that runs it: to be killed, frozen and weighed."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.harness.processes import all_processes, command_line

SERVER, AGENT = "valkey-server", "agent.pyz"


@dataclass(frozen=True)
class Process:
    """One process of a Pod; `word` is what its command line was found by."""

    pid: int
    pod: str
    word: str

    def kill(self) -> None:
        """End it as by SIGKILL; one that is gone is no error."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop it in its tracks; `thaw` lets it go on."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    @property
    def alive(self) -> bool:
        return self.word in command_line(self.pid)

    @property
    def cpu_s(self) -> float:
        """CPU time that it has used, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_bytes(self) -> int:
        """Its memory that isn't shared with others, and its part of what is (proportional set size)."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024

    def _signal(self, number: int) -> None:
        # A number may have been given to another process meanwhile.
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def find(namespace: str, word: str, pods: str = "") -> dict[str, Process]:
    """The processes whose command line holds `word`, by Pod; only of Pods that begin with `pods`.

    Whose they are is seen by their network, which the containers of a Pod share: a server writes its title over its
    environment, and the agent beside it keeps its own.
    """
    names: dict[str, str] = {}
    for pid in _with_word(AGENT):
        told = _environment(pid)
        if told.get("POD_NAMESPACE") == namespace:
            names[_network(pid)] = told["POD_NAME"]
    found = ((pid, names.get(_network(pid), "")) for pid in _with_word(word))
    return {pod: Process(pid, pod, word) for pid, pod in found if pod and pod.startswith(pods)}


def one(namespace: str, pod: str, word: str) -> Process:
    """The one of a Pod. Raises KeyError where there is none."""
    return find(namespace, word, pod)[pod]


def _with_word(word: str) -> list[int]:
    return [pid for pid in all_processes() if word in command_line(pid)]


def _network(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def _environment(pid: int) -> dict[str, str]:
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return {name: value for name, equals, value in (pair.partition("=") for pair in pairs) if equals}
