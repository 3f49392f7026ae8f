"""What the own server told last: one frozen record a look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Phase(StrEnum):
    """How the server is, seen over a connection to it."""

    DOWN = "down"  # nobody listens: there is no process, or not yet
    SILENT = "silent"  # it listens and doesn't answer: frozen, or busy for long
    REFUSING = "refusing"  # it answers, but not to our password
    LOADING = "loading"  # it reads its dataset, from disk or from its primary
    SERVING = "serving"  # it answers everything


@dataclass(frozen=True)
class ServerState:
    """One look at the own server.

    `number` grows with every look, `at` and `since` are times of the monotonic clock: when this look began, and since
    when the phase holds. The answers are those to CLUSTER NODES, CLUSTER INFO and INFO (`dataplane.wire.OBSERVATION`),
    in the wire's words; they are empty unless the phase is SERVING. `detail` says in a person's words why it isn't.
    """

    number: int
    phase: Phase
    at: float
    since: float
    nodes: bytes = b""
    cluster_info: bytes = b""
    info: bytes = b""
    detail: str = ""

    @property
    def serving(self) -> bool:
        """Whether it answered everything."""
        return self.phase is Phase.SERVING

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """The fields of INFO and CLUSTER INFO by their names on the wire; empty unless it is serving."""
        pairs = (line.partition(":") for line in f"{self.info.decode()}\n{self.cluster_info.decode()}".splitlines())
        return {name: value.strip() for name, colon, value in pairs if colon}

    @property
    def is_replica(self) -> bool:
        """Whether it calls itself a replica."""
        return self.facts.get("role") == "slave"

    @cached_property
    def primary_id(self) -> str:
        """The node id of the primary that it follows; "" for a primary."""
        for line in self.nodes.decode().splitlines():
            words = line.split(" ", 4)
            if len(words) == 5 and "myself" in words[2]:
                return words[3].strip("-")
        return ""

    @property
    def link_up(self) -> bool:
        """Whether it is a replica whose link to its primary is up."""
        return self.is_replica and self.facts.get("master_link_status") == "up"

    @cached_property
    def not_ready(self) -> str:
        """Why it doesn't serve as a member should; "" when it does.

        Ready is a primary that serves in a cluster in which slots are served, and a replica whose link is up and which
        is in sync: so a disruption budget counts a shard's copies, not its processes.
        """
        if not self.serving:
            return f"the server is {self.phase}{f': {self.detail}' if self.detail else ''}"
        if self.is_replica:
            if not self.link_up:
                return "is a replica without its primary"
            if self.facts.get("master_sync_in_progress") != "0":
                return "is a replica that is not yet in sync"
        if self.facts.get("cluster_size", "0") == "0":
            return "knows no cluster in which slots are served"
        return ""
