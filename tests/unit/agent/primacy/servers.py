"""Servers of a dataset as far as an arbiter sees them: roles, streams, copies, handovers, and writes that they took."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from valkeyctl.agent.resp import Command, ErrorReply, Reply
from valkeyctl.dataplane.model import Member

PORT = 6379
_streams = itertools.count(1)
Reaches = Callable[[Member, Member], bool]


def host_of(member: Member) -> str:
    """The name by which servers know a member."""
    return f"{member}.test"


def new_stream() -> str:
    """An id that no stream had before."""
    return f"{next(_streams):040x}"


@dataclass
class Server:
    """One process. `log` are the writes that it has, of which each counts one byte of its stream.

    `inbox` is what was sent to it while it was frozen: it does that when it has thawed, whoever has sent it, and others
    may get their answers before: so many ticks later.
    """

    member: Member
    run_id: str
    log: list[int] = field(default_factory=list[int])
    stream: str = field(default_factory=new_stream)
    second: tuple[str, int] = ("", 0)
    upstream: Member | None = None
    replica: bool = True
    linked: bool = False
    was_linked: bool = False
    followed: bool = False
    placed: bool = False
    alive: bool = True
    frozen: bool = False
    handing_to: Member | None = None
    stepped_back: bool = False
    late_ticks: int = 0
    inbox: list[Sequence[Command]] = field(default_factory=list[Sequence[Command]])

    @property
    def writable(self) -> bool:
        """Whether it takes a write that is sent to it now."""
        return self.alive and not self.frozen and not self.replica and self.handing_to is None

    @property
    def is_primary(self) -> bool:
        """Whether it runs, and calls itself a primary."""
        return self.alive and not self.frozen and not self.replica

    def do(self, command: Command) -> Reply:  # noqa: PLR0911 - one for each command
        """Carry out one command."""
        match [str(word) for word in command]:
            case ["INFO", "server"]:
                return f"run_id:{self.run_id}\r\n".encode()
            case ["INFO", *_]:
                return self.info
            case ["REPLICAOF", "NO", "ONE"]:
                self.promote()
                return b"OK"
            case ["REPLICAOF", host, _]:
                if self.handing_to is not None:
                    return ErrorReply("ERR REPLICAOF not allowed while failing over.")
                self._follow(host)
                return b"OK"
            case ["FAILOVER", "TO", host, *_]:
                if self.replica:
                    return ErrorReply("ERR FAILOVER is not valid when server is a replica.")
                self.handing_to = _member(host)
                return b"OK"
            case _:
                return ErrorReply(f"ERR unknown command {command}")

    def promote(self) -> None:
        """Become a primary, with a stream of its own."""
        if self.replica:
            self.second, self.stream = (self.stream, len(self.log)), new_stream()
            self.replica, self.upstream, self.linked, self.placed = False, None, False, True

    def _follow(self, host: str) -> None:
        if not self.replica:
            self.followed = False
        self.replica, self.upstream, self.linked = True, _member(host), False

    def take(self, write: int) -> None:
        """A client's write."""
        self.log.append(write)
        self.placed = True

    def tick(self, others: dict[Member, Server], reaches: Reaches) -> None:
        """Replicate, and go on with a handover."""
        if self.frozen or not self.alive:
            return
        self.late_ticks -= 1
        if self.late_ticks <= 0:
            late, self.inbox = self.inbox, []
            for commands in late:
                for command in commands:
                    self.do(command)
        if self.replica and self.upstream is not None:
            self._copy(others.get(self.upstream), reaches)
        if self.handing_to is not None:
            self._hand(others.get(self.handing_to), reaches)

    def _copy(self, primary: Server | None, reaches: Reaches) -> None:
        there = primary is not None and primary.alive and not primary.frozen and reaches(self.member, primary.member)
        source = primary is not None and (not primary.replica or (self.linked and primary.stream == self.stream))
        self.linked = bool(there and source)
        if self.linked and primary is not None:
            self.log, self.stream, self.second = list(primary.log), primary.stream, primary.second
            self.was_linked = self.placed = primary.followed = True

    def _hand(self, heir: Server | None, reaches: Reaches) -> None:
        can = heir is not None and heir.alive and not heir.frozen and reaches(self.member, heir.member)
        if not self.stepped_back:
            if can and heir is not None and heir.upstream == self.member and heir.linked:
                heir.log = list(self.log)
                self.replica, self.upstream, self.linked, self.stepped_back = True, heir.member, False, True
            else:
                self.handing_to = None  # in time, without having stepped back
        elif can and heir is not None:
            heir.promote()
            self.handing_to, self.stepped_back = None, False

    @property
    def info(self) -> bytes:
        """What INFO tells."""
        state = "no-failover"
        if self.handing_to is not None:
            state = "failover-in-progress" if self.stepped_back else "waiting-for-sync"
        told = {
            "redis_version": "7.2.4",
            "run_id": self.run_id,
            "uptime_in_seconds": "100",
            "loading": "0",
            "role": "slave" if self.replica else "master",
            "master_failover_state": state,
            "master_replid": self.stream,
            "master_repl_offset": str(len(self.log) + 2 if self.placed else 0),
            "master_replid2": self.second[0] or "0" * 40,
            "second_repl_offset": str(self.second[1] + 3 if self.second[0] else -1),
            "repl_backlog_active": str(int(self.followed)),
        }
        if self.log:
            told["db0"] = f"keys={len(self.log)},expires=0,avg_ttl=0"
        if self.replica:
            told["master_host"] = host_of(self.upstream) if self.upstream else "127.0.0.1"
            told["master_port"] = str(PORT if self.upstream else 1)
            told["master_link_status"] = "up" if self.linked else "down"
            told["master_sync_in_progress"] = "0"
            told["slave_repl_offset"] = told["master_repl_offset"]
            if not self.linked:
                told["master_link_down_since_seconds"] = "1" if self.was_linked else "-1"
        for number, follower in enumerate(self.listed):
            told[f"slave{number}"] = f"ip={host_of(follower)},port={PORT},state=online,offset={len(self.log) + 2},lag=0"
        return "".join(f"{name}:{value}\r\n" for name, value in told.items()).encode()

    listed: list[Member] = field(default_factory=list[Member])


def _member(host: str) -> Member | None:
    name, _, domain = host.partition(".")
    return Member(0, int(name.rpartition("-")[2])) if domain == "test" else None
