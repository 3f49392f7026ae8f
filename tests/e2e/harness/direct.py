"""Speaks to a server of the local cluster from within its Pod's network, as a process in the Pod could.

A test asks the nodes some hundred times. By `kubectl exec` each of these starts half a dozen processes on a machine
that has two cores for everything; this costs one connection. It shares no code with the product.
"""

import ctypes
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import valkey
from valkey.connection import Connection

from tests.e2e.harness.kube import Object
from tests.e2e.harness.processes import all_processes, command_line

TIMEOUT_S = 5.0
_CLONE_NEWNET = 0x40000000


class UnreachableError(Exception):
    """There is no such process, or it gives no answer."""


class RefusedError(AssertionError):
    """The server answered with an error."""


@dataclass(frozen=True)
class Door:
    """How a kind of server is found and signed in at. `secret` is a file in its container."""

    word: str
    port: int
    secret: str


SERVER = Door("valkey-server", 6379, "/run/valkey/password")


def processes(door: Door) -> Mapping[str, int]:
    """The process ids of all such servers on this machine, by the uids of their Pods."""
    found = {}
    for pid in all_processes():
        if door.word in command_line(pid) and (pod := _pod_of(pid)):
            found[pod] = pid
    return found


class Talk:
    """A connection that is signed in."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ask(self, *words: str) -> str:
        """A command's answer as `valkey-cli` prints it: one element a line, nested ones too.

        Raises RefusedError for an answer that is an error, and UnreachableError where none comes.
        """
        try:
            self._connection.send_command(*words)
            answer = self._connection.read_response()
        except valkey.ResponseError as error:
            raise RefusedError(f"{' '.join(words)}: {error}") from None
        except (valkey.ConnectionError, valkey.TimeoutError, OSError) as error:
            raise UnreachableError(str(error)) from None
        return "\n".join(_lines(answer)) + "\n"


@contextmanager
def talk(
    pod: Object, door: Door = SERVER, *, at: Mapping[str, int] | None = None, password: str | None = None
) -> Iterator[Talk]:
    """A connection to the server of a Pod, an object of the API. `at`: what `processes` has found, to ask many.

    `password`: another one than its secret's. Raises UnreachableError, also for a Pod whose container has just ended,
    and for a password that isn't taken.
    """
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    pid = (processes(door) if at is None else at).get(uid)
    if pid is None:
        raise UnreachableError(f"{name} runs no {door.word}")
    if password is None:
        try:
            password = Path(f"/proc/{pid}/root{door.secret}").read_bytes().decode()
        except OSError as error:
            raise UnreachableError(f"{name}: {error}") from None
    connection = _Within(pid, door, password)
    try:
        try:
            connection.connect()
        except (valkey.ValkeyError, OSError) as error:
            raise UnreachableError(f"{name}: {error}") from None
        yield Talk(connection)
    finally:
        connection.disconnect()


class _Within(Connection):
    """A connection whose socket is made in the network of another process."""

    def __init__(self, pid: int, door: Door, password: str) -> None:
        self._network = pid
        super().__init__(
            host="127.0.0.1",
            port=door.port,
            password=password,
            decode_responses=True,
            encoding_errors="replace",
            socket_timeout=TIMEOUT_S,
            # Nobody needs to know who asks.
            lib_name=None,
            lib_version=None,
        )

    def _connect(self) -> socket.socket:
        made: list[socket.socket] = []
        failed: list[OSError] = []

        def connect() -> None:
            # A thread that enters another network namespace can't well go back, so each is used once.
            try:
                _enter_network_of(self._network)
                made.append(socket.create_connection((self.host, self.port), timeout=TIMEOUT_S))
            except OSError as error:
                failed.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return made[0]


def _enter_network_of(pid: int) -> None:
    """For the thread that calls it, and for good."""
    with Path(f"/proc/{pid}/ns/net").open() as network:
        if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _pod_of(pid: int) -> str:
    """The uid of the Pod that a process belongs to, by its cgroup; "" for one of no Pod."""
    try:
        told = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
    found = re.search(r"/pod([0-9a-f-]{36})/", told)
    return found[1] if found else ""


def _lines(answer: object) -> Iterator[str]:
    if isinstance(answer, list):
        for part in answer:  # pyright: ignore[reportUnknownVariableType]
            yield from _lines(part)  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield "" if answer is None else str(answer)
