"""A client that writes to one shard all the time, and keeps what was acknowledged."""

from __future__ import annotations

import time

import valkey

from tests.agent.pods import Pods
from tests.dataplane import scenes
from tests.dataplane.background import Background
from valkeyctl.dataplane import Member

PAUSE_S = 0.005


class Writer(Background):
    """Writes to whichever member of a shard takes it, each write waited for by WAIT 1. A context manager.

    `acked` are the keys that a replica had too; `gap_s` is the longest time between two writes that were acknowledged.
    """

    def __init__(self, pods: Pods, shard: int) -> None:
        super().__init__()
        self._pods = pods
        self._members = [member for member in pods.spec.members if member.shard == shard]
        self._slots = pods.spec.layout[shard]
        self.acked: dict[str, str] = {}
        self.gap_s = 0.0

    def lost(self, member: Member) -> list[str]:
        """The acknowledged writes that a member doesn't have."""
        with self._pods.client(member) as client:
            client.readonly()
            return [key for key, value in self.acked.items() if client.get(key) != value]

    def _run(self) -> None:
        # Other keys than those that a test writes by itself.
        number, last_at = 10_000, time.monotonic()
        clients = {member: self._pods.client(member) for member in self._members}
        first = self._members[0]
        while not self._ending.is_set():
            number += 1
            key = scenes.key_in(self._slots, number)
            for member in sorted(self._members, key=lambda member: member != first):
                if self._write(clients[member], key, str(number)):
                    self.gap_s, last_at = max(self.gap_s, time.monotonic() - last_at), time.monotonic()
                    first = member
                    break
            time.sleep(PAUSE_S)

    def _write(self, client: valkey.Valkey, key: str, value: str) -> bool:
        """Whether the server took it; noted as acknowledged where a replica has it too."""
        try:
            client.set(key, value)
        except valkey.ValkeyError:
            return False
        try:
            if client.wait(1, 200):
                self.acked[key] = value
        except valkey.ValkeyError:
            pass
        return True
