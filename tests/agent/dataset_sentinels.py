"""Sentinels that watch a scene's dataset, with names that they find as its Pods do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path

from tests.agent.dataset_pods import INSTANCE, OWNER, DatasetPods, eventually
from tests.agent.pods import GUARD, NAMESPACE
from tests.dataplane.servers import PORT, binary, new_address
from valkeyctl.agent.dataset import council
from valkeyctl.agent.dataset.heal_sentinels import Watchers
from valkeyctl.agent.environment import read_environment
from valkeyctl.dataplane import Member
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.sentinel.rights import OPERATOR
from valkeyctl.kube.declared_dataset import DeclaredDataset, DeclaredSentinels
from valkeyctl.kube.labels import monitored_name

SENTINEL_PORT = 26379
KEY = "between us"
NAME = monitored_name(INSTANCE, NAMESPACE)


@dataclass
class Watching:
    """The Sentinels of a scene."""

    pods: DatasetPods
    addresses: list[str]
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict[int, "subprocess.Popen[bytes]"])

    def start(self, *ordinals: int) -> None:
        """Start these Sentinels, or all, on what they know."""
        for ordinal in ordinals or range(len(self.addresses)):
            folder = self.pods.root / f"sentinel-{ordinal}"
            folder.mkdir(exist_ok=True)
            conf = folder / "sentinel.conf"
            if not conf.exists():
                conf.write_text("\n".join(self._lines(ordinal, folder)) + "\n")
            words = [*GUARD, *self.pods.wrapping, str(binary(self.pods.line)), str(conf), "--sentinel"]
            self.processes[ordinal] = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        eventually(lambda: len(self.asked().words) == len(self.addresses), self.pods)

    def kill(self) -> None:
        """End all at once."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def forget(self) -> None:
        """Take those that don't run all that they know."""
        for ordinal in range(len(self.addresses)):
            (self.pods.root / f"sentinel-{ordinal}" / "sentinel.conf").unlink()

    def asked(self) -> council.Council:
        """What the Sentinels say now."""
        at = [Address(address, SENTINEL_PORT) for address in self.addresses]
        return council.ask(at, NAME, KEY.encode(), size=len(at))

    def named(self) -> Member | None:
        """Whom they name, when most agree."""
        told = self.asked()
        if not told.is_sure or told.named is None:
            return None
        return next((m for m, pod in self.pods.pods.items() if told.named.host in (pod.host, pod.address)), None)

    def _lines(self, ordinal: int, folder: Path) -> list[str]:
        address = self.addresses[ordinal]
        return [
            f"port {SENTINEL_PORT}",
            f"bind {address}",
            f"bind-source-addr {address}",
            "protected-mode no",
            f"dir {folder}",
            f"logfile {folder / 'log'}",
            f'user {OPERATOR} on ">{KEY}" +@all allchannels',
            f"sentinel myid {sha1(str(ordinal).encode(), usedforsecurity=False).hexdigest()}",
            "sentinel resolve-hostnames yes",
            "sentinel announce-hostnames yes",
            f"sentinel announce-ip {address}",
        ]


@contextmanager
def watched(
    line: str, *, down_after_ms: int = 2000, persistent: bool = False, **settings: str
) -> Generator[tuple[DatasetPods, Watching]]:
    """A scene of three Pods and three Sentinels, formed by `up`."""
    addresses = [new_address() for _ in range(3)]
    at = tuple(Address(address, SENTINEL_PORT) for address in addresses)
    declared = DeclaredDataset(
        OWNER,
        INSTANCE,
        "failover",
        2,
        port=PORT,
        persistent=persistent,
        sentinels=DeclaredSentinels(NAME, at, 2, down_after_ms, 10_000, 1),
    )
    by_name = {name.replace("_", "-"): value for name, value in settings.items()}
    with DatasetPods(ReplicationSpec(INSTANCE, 2), line, by_name, declared=declared) as pods:
        (pods.root / "sentinel.key").write_text(KEY)
        pods.more = {
            "VALKEY_SENTINELS": ",".join(map(str, at)),
            "VALKEY_SENTINEL_NAME": NAME,
            "VALKEY_SENTINEL_SECRET": str(pods.root / "sentinel.key"),
        }
        pods.prepare()
        watching = Watching(pods, addresses)
        try:
            watching.start()
            pods.start()
            pods.also = _monitor(pods)
            pods.up()
            eventually(lambda: watching.named() is not None and pods.settled(), pods, 90)
            yield pods, watching
        finally:
            watching.kill()


def _monitor(pods: DatasetPods) -> Callable[[Member], None]:
    def monitor(primary: Member) -> None:
        place = read_environment(pods.pods[primary].environment)
        watchers = Watchers(place, pods.password.encode, lambda: primary)
        watchers.converge(
            pods.declared, pods.directory, deadline_s=30, progress=lambda _now: None, may_go_on=lambda: None
        )

    return monitor
