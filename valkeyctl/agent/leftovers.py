"""What a stopped server of this Pod left, and what the next one will be started with: the agent's view of its files."""

from __future__ import annotations

from collections.abc import Sequence

from valkeyctl.agent.disk import NODE_TABLE, persistence, read_disk
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.guard import RULES, Rules
from valkeyctl.agent.kept import BASE, LIVE, Kept
from valkeyctl.agent.mounts import read_together
from valkeyctl.agent.tale import Tale


class Leftovers:
    """Reads the files anew on every call; from any thread."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._kept = Kept(environment.run)

    def tale(self) -> Tale:
        """The tale of this member while its server is down. Raises `disk.Unreadable` and OSError."""
        place = self._environment
        appendonly, always = persistence(*self._settings())
        return read_disk(place.data, place.member, place.member_named, appendonly=appendonly, always=always)

    def rules(self) -> Rules:
        """How long the guard waits, by the node timeout that the servers are started with."""
        try:
            said = "".join(f"{text}\n" for text in self._settings()).splitlines()
        except OSError:
            return RULES
        told = [line.split()[1].strip("\"'") for line in said if line.startswith("cluster-node-timeout ")]
        return Rules.for_node_timeout(int(told[-1]) / 1000) if told and told[-1].isdigit() else RULES

    def node_table(self) -> bytes:
        """The bytes of its node table; none for a new member."""
        try:
            return (self._environment.data / NODE_TABLE).read_bytes()
        except OSError:
            return b""

    def passwords(self) -> tuple[bytes, ...]:
        """All passwords that the instance has now, the current one first; none before the Secret is there."""
        try:
            return self._kept.passwords.accepted
        except OSError:  # nothing was rendered in this Pod so far
            pass
        try:
            return (self._environment.secret.read_bytes(),)
        except OSError:
            return ()

    def _settings(self) -> Sequence[str]:
        """The texts of the server's file, without what this Pod alone has. Raises OSError where they can't be read:
        what a server would load isn't known then.
        """
        try:
            return (self._kept.base, self._kept.live)
        except OSError:  # nothing was rendered in this Pod so far
            pass
        found = read_together(self._environment.config / name for name in (BASE, LIVE))
        return tuple(text.decode() for text in found.values())
