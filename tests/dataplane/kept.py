"""What clients of a cluster were told: writes that look after what has become of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import valkey

from tests.dataplane import scenes
from tests.dataplane.follower import Follower
from tests.dataplane.servers import Fleet

WAIT_MS = 500


@dataclass
class Kept:
    """For each key the values that it may have; None is no value.

    There is one of them as soon as a write was acknowledged by a server in whose place nobody can be elected that lacks
    it. While that isn't sure, the former ones count as well: servers copy what they have acknowledged a moment later.
    """

    fleet: Fleet
    values: dict[str, set[str | None]] = field(default_factory=dict[str, set[str | None]])
    count: int = 0

    def write(self, keys: Sequence[str], *, delete: bool = False) -> None:
        """Give keys new values, or delete them, as far as they are served."""
        client = Follower(self.fleet)
        try:
            for key in keys:
                self.count += 1
                self._write(client, key, None if delete else str(self.count))
        finally:
            client.close()

    def check(self) -> None:
        """Every key has a value that it may have; from now on it may have no other."""
        found = scenes.read(self.fleet, list(self.values))
        wrong = {key: (found[key], allowed) for key, allowed in self.values.items() if found[key] not in allowed}
        assert not wrong, "keys with another value than was acknowledged"
        self.values = {key: {value} for key, value in found.items()}

    def _write(self, client: Follower, key: str, value: str | None) -> None:
        former = self.values.get(key, {None})
        command = ("DEL", key) if value is None else ("SET", key, value)
        try:
            client.ask(*command)
            sure = self._has_copies(client)
        except (valkey.ValkeyError, AssertionError, OSError):
            sure = False
        self.values[key] = {value} if sure else former | {value}

    def _has_copies(self, client: Follower) -> bool:
        """Whether whoever may be elected in the place of the server that answered last has what it has."""
        if int(str(client.ask_again("WAIT", "1", str(WAIT_MS)))) > 0:
            return True
        primary_id = client.ask_again("CLUSTER", "MYID")
        return not any(node.primary_id == primary_id for node in scenes.look(self.fleet).nodes.values())
