"""A cluster client that writes while slots move: what was acknowledged, and every error that it saw."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import valkey
from valkey.crc import key_slot

from tests.dataplane.servers import PORT, Fleet

PAUSE_S = 0.001
MOST_REDIRECTIONS = 8


class Follower:
    """A client that does what the protocol asks of one: it follows MOVED and remembers it, follows ASK once, and asks
    another node where one that it remembers has gone.

    By hand, since libraries differ in what they make of an ASK to a node that they haven't heard of.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._password = fleet.password
        self._first = next(iter(fleet.directory().values())).address
        self._owners: dict[int, str] = {}
        self._clients: dict[str, valkey.Valkey] = {}
        self._answered = self._first

    def ask(self, command: str, key: str, *words: str) -> object:
        """One command with one key; raises what isn't a redirection."""
        slot = key_slot(key.encode())
        address, asking = self._owners.get(slot, self._first), False
        for _ in range(MOST_REDIRECTIONS):
            try:
                self._answered = address
                return self._at(address, command, key, *words, asking=asking)
            except valkey.ConnectionError:
                # It has left, and may have been the last that this client knew of the slot.
                self._clients.pop(address, None)
                if address not in self._owners.values():
                    raise
                self._owners = {slot: owner for slot, owner in self._owners.items() if owner != address}
                address, asking = self._first, False
            except valkey.ResponseError as error:
                kind, _, where = str(error).partition(" ")
                if kind in ("MOVED", "ASK"):
                    address, asking = where.split(" ")[1].rpartition(":")[0], kind == "ASK"
                    if not asking:
                        self._owners[slot] = address
                elif kind == "CLUSTERDOWN" and self._owners.get(slot) == address:
                    # As clients do whose table is too old: it may have left.
                    del self._owners[slot]
                    address, asking = self._first, False
                else:
                    raise
        raise AssertionError(f"{MOST_REDIRECTIONS} redirections, at last to {address}")

    def ask_again(self, *words: str) -> object:
        """Another command on the connection that answered last."""
        return self._at(self._answered, *words, asking=False)

    def _at(self, address: str, *words: str, asking: bool) -> object:
        if address not in self._clients:
            self._clients[address] = valkey.Valkey(
                host=address,
                port=PORT,
                password=self._password,
                decode_responses=True,
                single_connection_client=True,
                socket_timeout=10,
            )
        client = self._clients[address]
        if asking:
            client.execute_command("ASKING")
        return client.execute_command(*words)

    def close(self) -> None:
        """Hang up."""
        for client in self._clients.values():
            client.close()


@dataclass
class Written:
    """Keys with the value that was acknowledged last, those that were deleted, and what went wrong."""

    keys: dict[str, str] = field(default_factory=dict[str, str])
    deleted: set[str] = field(default_factory=set[str])
    errors: list[str] = field(default_factory=list[str])
    count: int = 0


@contextmanager
def writing(fleet: Fleet, spread: int = 400) -> Iterator[Written]:
    """Write, overwrite and delete keys all over the slots for as long as the block runs, following redirections."""
    written, stop = Written(), threading.Event()
    client = Follower(fleet)

    def work() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            key, value = f"w{number % spread}", str(number)
            try:
                if number % 11 == 0:
                    client.ask("DEL", key)
                    written.keys.pop(key, None)
                    written.deleted.add(key)
                else:
                    client.ask("SET", key, value)
                    written.keys[key] = value
                    written.deleted.discard(key)
                written.count += 1
            except Exception as error:  # noqa: BLE001  (whatever a client sees is what is asked for)
                written.errors.append(f"{key}: {type(error).__name__}: {error}")
            time.sleep(PAUSE_S)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield written
    finally:
        stop.set()
        thread.join()
        client.close()
