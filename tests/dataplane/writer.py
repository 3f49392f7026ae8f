"""A cluster client that writes to all shards all the time, and keeps what was acknowledged."""

from __future__ import annotations

import threading
import time
from typing import Self

import valkey

from tests.dataplane import scenes
from tests.dataplane.background import Background
from tests.dataplane.servers import Fleet

PAUSE_S = 0.002


class Writer(Background):
    """Writes as applications do, following the slots wherever they go. A context manager.

    `acknowledged` are the keys whose writes a primary answered for, with their values.
    """

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet
        self._begun = threading.Event()
        self.acknowledged: dict[str, str] = {}

    def lost(self) -> list[str]:
        """The acknowledged writes that are there no more."""
        found = scenes.read(self._fleet, list(self.acknowledged))
        return [key for key, value in self.acknowledged.items() if found[key] != value]

    def __enter__(self) -> Self:
        super().__enter__()
        assert self._begun.wait(20), "the first write was never acknowledged"
        return self

    def _run(self) -> None:
        number = 0
        while not self._ending.is_set():
            client = self._connected()
            if client is None:
                continue
            try:
                while not self._ending.is_set():
                    number += 1
                    key, value = f"written:{number}", str(number)
                    client.set(key, value)
                    self.acknowledged[key] = value
                    self._begun.set()
                    time.sleep(PAUSE_S)
            except valkey.ValkeyError:
                continue
            finally:
                client.close()

    def _connected(self) -> valkey.ValkeyCluster | None:
        for endpoint in list(self._fleet.directory().values()):
            try:
                return valkey.ValkeyCluster(
                    host=endpoint.address, port=endpoint.port, password=self._fleet.password, socket_timeout=2
                )
            except valkey.ValkeyError:
                continue
        return None
