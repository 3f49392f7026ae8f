"""Real servers of one dataset, and what the tests do with them: converge, go step by step, write, and judge.

There is no DNS here, so an address is a server's name, and stays when it starts again, as a Pod's name does.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import valkey

from tests.dataplane.background import Background
from tests.dataplane.scenes import Told
from tests.dataplane.servers import PORT, READY_S, Server, kill_at_once, new_address
from valkeyctl.dataplane import Credentials, DirectDialer, Endpoint, Member, Phase, errors, pod_name
from valkeyctl.dataplane.replication.apply import apply
from valkeyctl.dataplane.replication.converge import converge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.observe import observe
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.report import report
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.replication.view import ReplicationView
from valkeyctl.dataplane.rounds import Plan, Round

DEADLINE_S = 30.0
SETTLE_S, TIMEOUT_S = 0.3, 1.0
FIRST, SECOND, THIRD = (Member(0, ordinal) for ordinal in range(3))
NOBODY = "127.0.0.1"
"""Where nobody listens. Whom a server follows that is told nothing yet, lest it take writes."""


@dataclass
class Dataset:
    """The servers of one dataset. A context manager."""

    spec: ReplicationSpec
    line: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    password: str | None = None
    login: Credentials | None = None
    servers: dict[Member, Server] = field(default_factory=dict[Member, Server])
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="valkey-dataset-")))

    @property
    def dialer(self) -> DirectDialer:
        """Connects to the servers."""
        return DirectDialer(self.login or Credentials(password=self.password))

    def directory(self) -> Mapping[Member, Endpoint]:
        """The endpoints of the servers that run now."""
        return {
            member: Endpoint(member, pod_name(self.spec.instance, member), server.host, server.address, PORT)
            for member, server in self.servers.items()
            if server.process is not None
        }

    def start(self, *members: Member, replicaof: str | None = NOBODY) -> None:
        """Start fresh servers for these members (all when none is named); with no `replicaof` as primaries."""
        wanted = members or self.spec.members
        for member in wanted:
            address = self.servers[member].address if member in self.servers else new_address()
            folder = Path(tempfile.mkdtemp(prefix=f"{member}-", dir=self.root))
            options = {"repl-timeout": "5", **self.options}
            if self.password is not None:
                options |= {"requirepass": self.password, "primaryauth": self.password}
            if replicaof is not None:
                options["replicaof"] = f"{replicaof} {PORT}"
            self.servers[member] = Server(self.line, address, address, folder, options, cluster_mode=False)
            self.servers[member].start()
        for member in wanted:
            self.servers[member].await_answer()

    def kill(self, *members: Member) -> None:
        """End servers at once, as kill -9 does."""
        kill_at_once([self.servers[member] for member in members])

    def resume(self, *members: Member) -> None:
        """Start stopped servers on their disks again."""
        for member in members:
            self.servers[member].start()
        for member in members:
            self.servers[member].await_answer()

    def client(self, member: Member) -> valkey.Valkey:
        """A client of a member's server."""
        return self.servers[member].client()

    def ask(self, member: Member, *command: str | int) -> object:
        """One command to a member's server."""
        with self.client(member) as client:
            return client.execute_command(*command)

    def told(self, member: Member) -> Mapping[str, object]:
        """What a server says of its replication, in its own words."""
        with self.client(member) as client:
            said: Mapping[str, object] = client.info("replication")
            return said

    def refusals(self, member: Member) -> list[str]:
        """The commands that a server refused somebody for want of a right, as rights are spelled."""
        with self.client(member) as client:
            entries: list[Mapping[str, str]] = client.acl_log()
            return [entry["object"] for entry in entries if entry["reason"] == "command"]

    def follow(self, member: Member, other: Member) -> None:
        """By hand: have a server follow another."""
        self.ask(member, "REPLICAOF", self.servers[other].host, PORT)

    def await_link(self, member: Member, *, to: Member) -> None:
        """Return once a replica is linked to another member."""
        deadline = time.monotonic() + READY_S
        while True:
            said = self.told(member)
            if said.get("master_link_status") == "up" and said["master_host"] == self.servers[to].host:
                return
            assert time.monotonic() < deadline, said
            time.sleep(0.02)

    def await_listing(self, member: Member, replica: Member) -> None:
        """Return once a primary calls a replica online, which is when that has told how far it is."""
        deadline, host = time.monotonic() + READY_S, self.servers[replica].host
        while f"ip={host},port={PORT},state=online" not in str(self.raw(member)):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def raw(self, member: Member) -> object:
        """What a server says of its replication, as it says it."""
        with self.client(member) as client:
            client.response_callbacks.clear()
            return client.execute_command("INFO", "replication")

    def write(self, member: Member, name: str, count: int = 20) -> dict[str, str]:
        """Write keys to a primary, acknowledged by each of its replicas; what was written."""
        keys = {f"{name}:{number}": str(number) for number in range(count)}
        with self.client(member) as client:
            for key, value in keys.items():
                client.set(key, value)
            replicas = int(self.told(member)["connected_slaves"])  # type: ignore[call-overload]
            assert not replicas or client.wait(replicas, 5000) == replicas
        return keys

    def holds(self, member: Member, keys: Mapping[str, str]) -> bool:
        """Whether a server has all these keys."""
        with self.client(member) as client:
            return client.mget(list(keys)) == list(keys.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers.values():
            server.kill()
        shutil.rmtree(self.root, ignore_errors=True)


def spec_of(replicas: int, **fields: object) -> ReplicationSpec:
    """A specification; members that are gone are given up soon."""
    return ReplicationSpec("t", replicas, **{"patience_s": 0.3, **fields})  # type: ignore[arg-type]


def run(dataset: Dataset, spec: ReplicationSpec | None = None, told: Told | None = None) -> ReplicationView:
    """Converge a dataset to its specification, or to another."""
    return converge(
        spec or dataset.spec,
        dataset.directory,
        dataset.dialer,
        deadline_s=DEADLINE_S,
        progress=told or Told(),
        may_go_on=lambda: None,
        settle_s=SETTLE_S,
    )


def look(dataset: Dataset, spec: ReplicationSpec | None = None) -> ReplicationView:
    """One observation; whoever is frozen is given up soon."""
    return observe(spec or dataset.spec, dataset.directory(), dataset.dialer, timeout_s=TIMEOUT_S)


def what_next(dataset: Dataset, spec: ReplicationSpec | None = None) -> Plan[Action]:
    """What the planner says to what is there now."""
    return plan(spec or dataset.spec, look(dataset, spec))


def run_fresh(dataset: Dataset) -> ReplicationView:
    """Start a dataset's servers and form it."""
    dataset.start()
    return run(dataset)


def take_steps(dataset: Dataset, count: int, spec: ReplicationSpec | None = None) -> int:
    """Take the first `count` steps one by one, each planned anew; returns how many there were before all was done."""
    taken, deadline = 0, time.monotonic() + DEADLINE_S
    while taken < count:
        what = what_next(dataset, spec)
        if not isinstance(what, Round):
            break
        assert time.monotonic() < deadline, what.describe()
        if what.actions:
            apply(what.actions[0], dataset.directory(), dataset.dialer)
            taken += 1
        else:
            time.sleep(0.02)
    return taken


def blocked(dataset: Dataset, spec: ReplicationSpec | None = None) -> errors.Blocked:
    """Converge, expecting that a person is needed; the error."""
    try:
        run(dataset, spec)
    except errors.Blocked as error:
        return error
    raise AssertionError("the converge wasn't blocked")


def primary_of(dataset: Dataset, view: ReplicationView, spec: ReplicationSpec | None = None) -> Member:
    """The primary; the dataset is in the declared state, as every server itself says in its own words."""
    spec = spec or dataset.spec
    found = report(spec, view)
    assert found.phase is Phase.READY, found.conditions
    assert [str(each.status) for each in found.conditions] == ["True"] * len(found.conditions)
    primaries = [member for member in dataset.directory() if dataset.told(member)["role"] == "master"]
    assert len(primaries) == 1
    (primary,) = primaries
    assert found.primary == pod_name(spec.instance, primary)
    for member in set(spec.members) - {primary}:
        said = dataset.told(member)
        assert (said["role"], said["master_link_status"]) == ("slave", "up")
        assert said["master_host"] == dataset.servers[primary].host
    return primary


class Writer(Background):
    """Writes to whichever member is the primary, each write acknowledged by a replica too (WAIT 1) where it says so.

    `acknowledged` are the keys with their values; `longest_gap_s` is how long there was no acknowledgement at most.
    """

    def __init__(self, dataset: Dataset, *, wait: bool = False) -> None:
        super().__init__()
        self._dataset = dataset
        self._wait = wait
        self._begun = threading.Event()
        self.acknowledged: dict[str, str] = {}
        self.longest_gap_s = 0.0

    def __enter__(self) -> Self:
        super().__enter__()
        assert self._begun.wait(20), "the first write was never acknowledged"
        return self

    def lost(self, primary: Member) -> list[str]:
        """The acknowledged writes that the primary has no more."""
        with self._dataset.client(primary) as client:
            found = client.mget(list(self.acknowledged))
        return [key for key, value in zip(self.acknowledged, found, strict=True) if value != self.acknowledged[key]]

    def await_more(self, count: int = 50) -> None:
        """Return once so many more writes have been acknowledged."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + READY_S
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            time.sleep(0.01)

    def _run(self) -> None:
        last = time.monotonic()
        numbers = itertools.count()
        for member in itertools.cycle(self._dataset.servers):
            if self._ending.is_set():
                return
            try:
                with self._dataset.client(member) as client:
                    while not self._ending.is_set():
                        number = next(numbers)
                        key, value = f"written:{number}", str(number)
                        client.set(key, value)
                        if self._wait and client.wait(1, 1000) < 1:
                            continue
                        now = time.monotonic()
                        self.longest_gap_s, last = max(self.longest_gap_s, now - last if self.acknowledged else 0), now
                        self.acknowledged[key] = value
                        self._begun.set()
                        time.sleep(0.001)
            except valkey.ValkeyError:
                time.sleep(0.002)
