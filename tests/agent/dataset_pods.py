"""Pods of a dataset without Kubernetes, but with an API server in this process, and names that are found.

As `pods`; every process sees a hosts file of the scene's own, since servers of a dataset know one another by name.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs

from tests.agent.pods import CHECKOUT, NAMESPACE, Pod, Pods, eventually
from tests.dataplane.servers import PORT, new_address
from tests.unit.kube.fake_api import FakeApi
from valkeyctl.agent.rights import Rule, dataset_rules
from valkeyctl.dataplane import Member
from valkeyctl.dataplane.replication.converge import converge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.view import ReplicationView
from valkeyctl.kube.access import Api, connect
from valkeyctl.kube.declared_dataset import DeclaredDataset, render_declared_dataset, write_declared_dataset
from valkeyctl.kube.declared_text import KEY
from valkeyctl.kube.endpoints import ensure_endpoints, members_in, slice_path, wanted, write_endpoints
from valkeyctl.kube.errors import ApiConflict
from valkeyctl.kube.labels import ROLE_LABEL, primary_service_name, replicas_service_name
from valkeyctl.kube.lease import ensure_lease, hold
from valkeyctl.kube.primary_lease import ensure_primacy
from valkeyctl.kube.status import InstanceStatus, ensure_status, write_seen

_TOKEN, AGENTS_TOKEN = "not-so-secret-token", "the agents'"
OWNER = "acme/valkey/test/ds"
INSTANCE = "ds"
FIRST, SECOND, THIRD = (Member(0, ordinal) for ordinal in range(3))
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "POST": "create", "DELETE": "delete"}
#: Has a process see our own hosts file in the place of the machine's.
_NAMES = 'mount --bind "$0" /etc/hosts && exec "$@"'


@dataclass
class DatasetPod(Pod):
    """One member of a dataset."""

    scene: DatasetPods | None = None

    @property
    def base_settings(self) -> Mapping[str, str]:
        return {
            "port": str(PORT),
            "bind": self.address,
            "dir": str(self.folder / "data"),
            "save": "",
            "appendonly": "no",
            "repl-diskless-sync-delay": "0",
            "repl-timeout": "5",
            "repl-ping-replica-period": "1",
            "shutdown-timeout": "3",
        }

    @property
    def environment(self) -> dict[str, str]:
        assert self.scene is not None
        return {
            **super().environment,
            **self.scene.environment,
            "VALKEY_DECLARED": str(self.scene.root / KEY),
            "KUBECONFIG": str(self.scene.root / "kubeconfig"),
        }

    @property
    def script(self) -> str:
        return "start.sh" if self.scene is None or self.scene.declared.architecture != "replica" else "watchdog.sh"

    @property
    def wrapping(self) -> tuple[str, ...]:
        assert self.scene is not None
        return self.scene.wrapping


@dataclass
class DatasetPods(Pods):
    """All Pods of a dataset. A context manager."""

    declared: DeclaredDataset = field(default_factory=lambda: DeclaredDataset(OWNER, INSTANCE, "replica", 2))
    more: Mapping[str, str] = field(default_factory=dict[str, str])
    fake: FakeApi = field(default_factory=FakeApi)
    also: Callable[[Member], None] = lambda _primary: None

    @property
    def environment(self) -> dict[str, str]:
        """What the Pod template gives to a dataset's containers beside what a cluster's get."""
        lease_s = self.declared.automatic_failover_s
        return {
            "VALKEY_ARCHITECTURE": self.declared.architecture,
            **({} if lease_s is None else {"VALKEY_AUTOMATIC_FAILOVER": str(lease_s)}),
            **self.more,
        }

    @property
    def wrapping(self) -> tuple[str, ...]:
        """What a process is started by that is to find the scene's names."""
        return ("unshare", "--mount", "sh", "-c", _NAMES, str(self.root / "hosts"))

    @property
    def api(self) -> Api:
        """The API server, as `up` speaks with it."""
        return connect(self.fake.kubeconfig, None)

    def prepare(self) -> None:
        """What `up` makes before there are Pods."""
        (self.root / "kubeconfig").write_text(self.fake.kubeconfig.replace(_TOKEN, AGENTS_TOKEN))
        (self.root / "hosts").write_text("127.0.0.1 localhost\n")
        api = self.api
        ensure_lease(api, NAMESPACE, INSTANCE, OWNER)
        ensure_status(api, NAMESPACE, INSTANCE, OWNER)
        if self.declared.automatic_failover_s is not None:
            ensure_primacy(api, NAMESPACE, INSTANCE, OWNER, duration_s=self.declared.automatic_failover_s)
        ensure_endpoints(api, NAMESPACE, INSTANCE, OWNER, architecture=self.declared.architecture)
        workload = {"metadata": {"name": f"{INSTANCE}-s0", "uid": "set"}, "spec": {"replicas": len(self.spec.members)}}
        self.fake.put(f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{INSTANCE}-s0", workload)
        self.declare(self.declared)

    def declare(self, declared: DeclaredDataset) -> None:
        """Say what is declared: to the API server, and in the mounts, which is where it comes later."""
        self.declared = declared
        write_declared_dataset(self.api, NAMESPACE, declared)
        (self.root / KEY).write_text(render_declared_dataset(declared))

    def start(self) -> None:
        """Start all Pods, and return once all servers answer."""
        self.prepare()
        for member in self.spec.members:
            self.begin(member)
        eventually(lambda: all(pod.probe("/started")[0] == 200 for pod in self.pods.values()), self)

    def begin(self, member: Member, *, empty: bool = False) -> None:
        """Start a Pod of this name, at a new address; on the disk of the former one unless that is to be `empty`."""
        folder = self.root / str(member)
        folder.mkdir(exist_ok=True)
        shutil.rmtree(folder / "run", ignore_errors=True)
        if empty:
            shutil.rmtree(folder / "data", ignore_errors=True)
        pod = DatasetPod(self.spec, member, self.line, folder, new_address(), self.settings, scene=self)
        self.pods[member] = pod
        names = "".join(f"{one.address} {one.host}\n" for one in self.pods.values())
        # In its place: processes have this very file before their eyes.
        (self.root / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
        owners = [{"kind": "StatefulSet", "name": f"{INSTANCE}-s0", "controller": True}]
        running = [{"name": "server", "state": {"running": {}}}]
        self.fake.put(
            f"{PODS}/{pod.name}",
            {
                "metadata": {"name": pod.name, "ownerReferences": owners},
                "spec": {"nodeName": f"node{member.ordinal}"},
                "status": {"podIP": pod.address, "containerStatuses": running},
            },
        )
        pod.start()

    def take_away(self, member: Member) -> None:
        """End a Pod at once, as the loss of its node would; the API server still has it."""
        self.pods[member].stop()

    def up(self) -> ReplicationView:
        """What `up` does: declare, and bring it about under the Lease."""
        with hold(self.api, NAMESPACE, INSTANCE, owner=OWNER, purpose="up of test") as lease:
            write_declared_dataset(self.api, NAMESPACE, self.declared)
            spec = self.data_spec
            view = converge(spec, self.directory, self.dialer, deadline_s=60, progress=print, may_go_on=lease.check)
            self.declare(replace(self.declared, formed=True))
            primary = next(node.endpoint for node in view.nodes.values() if node.upstream is None)
            self.also(primary.member)
            seen = InstanceStatus(phase="Ready", primaries={"s0": primary.pod}, formed=True)
            write_seen(self.api, NAMESPACE, INSTANCE, seen)
            others = [node.endpoint for node in view.nodes.values() if node.upstream is not None]
            for _ in range(5):  # the agents may be at it as well
                with suppress(ApiConflict):
                    write_endpoints(self.api, NAMESPACE, INSTANCE, wanted(primary, others))
                    break
        return view

    @property
    def data_spec(self) -> ReplicationSpec:
        """What `up` brings about."""
        return ReplicationSpec(INSTANCE, self.declared.replicas, formed=self.declared.formed)

    def rw(self) -> tuple[str, ...]:
        """The Pods to which writers are led."""
        return self._behind(primary_service_name(INSTANCE))

    def ro(self) -> tuple[str, ...]:
        """The Pods to which readers are led."""
        return self._behind(replicas_service_name(INSTANCE))

    def addresses_behind_rw(self) -> tuple[str, ...]:
        """Where writers are led."""
        entries: list[Any] = self.fake.objects[slice_path(NAMESPACE, primary_service_name(INSTANCE))]["endpoints"]
        return tuple(str(entry["addresses"][0]) for entry in entries)

    def asked_without_right(self) -> set[tuple[str, str]]:
        """What the agents have asked the API server for that their Role doesn't grant, as (verb, path)."""
        granted = dataset_rules(
            INSTANCE,
            replicas=self.declared.replicas,
            config_map=f"{INSTANCE}-config",
            secret=f"{INSTANCE}-auth",
            automatic_failover=self.declared.automatic_failover_s is not None,
        )
        asked = zip(self.fake.seen, self.fake.headers, strict=True)
        theirs = {one for one, headers in asked if AGENTS_TOKEN in headers.get("authorization", "")}
        return {one for one in map(_request, theirs) if not _is_granted(one, granted)}

    def empty_the_slices(self) -> None:
        """By hand: nobody is behind the Services any more."""
        for service in (primary_service_name(INSTANCE), replicas_service_name(INSTANCE)):
            self.api.merge(slice_path(NAMESPACE, service), {"endpoints": []})

    def label(self, member: Member) -> str | None:
        """The role that a Pod's label says."""
        labels: dict[str, str] = self.fake.objects[f"{PODS}/{self.pods[member].name}"]["metadata"].get("labels") or {}
        return labels.get(ROLE_LABEL)

    def _behind(self, service: str) -> tuple[str, ...]:
        return members_in(self.fake.objects[slice_path(NAMESPACE, service)])

    def info(self, member: Member) -> dict[str, str]:
        """What a server says of its replication."""
        text = str(self.ask(member, "INFO", "replication"))
        pairs = (line.partition(":") for line in text.splitlines())
        return {name: value for name, _, value in pairs}

    def primaries(self) -> list[Member]:
        """The members that call themselves the primary."""
        return [m for m, pod in self.pods.items() if not pod.stopped and self.info(m)["role"] == "master"]

    def settled(self, primary: Member | None = None) -> bool:
        """Whether there is one primary (this one), all others follow it in sync, and clients are led to it."""
        found = self.primaries()
        running = [member for member, pod in self.pods.items() if not pod.stopped]
        if len(found) != 1 or (primary is not None and found != [primary]):
            return False
        others = [member for member in running if member != found[0]]
        host = self.pods[found[0]].host
        for member in others:
            told = self.info(member)
            if told["master_host"] != host or told["master_link_status"] != "up":
                return False
        names = [self.pods[found[0]].name]
        readers = sorted(self.pods[member].name for member in others) or names
        return list(self.rw()) == names and sorted(self.ro()) == readers

    def fill(self, count: int = 50) -> dict[str, str]:
        """Write keys to the primary, acknowledged by its replicas."""
        keys = {f"key {number}": f"value {number}" for number in range(count)}
        primary = self.primaries()[0]
        with self.client(primary) as client:
            for key, value in keys.items():
                client.set(key, value)
            replicas = int(self.info(primary)["connected_slaves"])
            assert client.wait(replicas, 5000) == replicas
        return keys

    def held_by(self, member: Member, keys: Mapping[str, str]) -> bool:
        """Whether a member has all these keys."""
        with self.client(member) as client:
            return all(client.get(key) == value for key, value in keys.items())

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)
        self.fake.close()


def pods_of(line: str, declared: DeclaredDataset, **settings: str) -> DatasetPods:
    """A scene of Pods for what is declared; `settings` are the servers'."""
    spec = ReplicationSpec(INSTANCE, declared.replicas)
    return DatasetPods(
        spec, line, {name.replace("_", "-"): value for name, value in settings.items()}, declared=declared
    )


def _request(asked: tuple[str, str]) -> tuple[str, str]:
    """Verb and path, the name that a watch selects in the path."""
    method, target = asked
    path, _, query = target.partition("?")
    if "watch=true" not in query:
        return _VERBS[method], path
    return "watch", f"{path}/{parse_qs(query)['fieldSelector'][0].removeprefix('metadata.name=')}"


def _is_granted(one: tuple[str, str], granted: Sequence[Rule]) -> bool:
    verb, path = one
    resource, _, name = path.partition(f"/namespaces/{NAMESPACE}/")[2].partition("/")
    fitting = [rule for rule in granted if resource in rule["resources"] and verb in rule["verbs"]]
    return any(name in rule.get("resourceNames", [name]) for rule in fitting)


def hand_over(pods: DatasetPods, member: Member) -> str:
    """What the preStop hook of a Pod's server says."""
    done = subprocess.run(
        ["sh", str(CHECKOUT / "components" / "handover.sh")],
        env=pods.pods[member].environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout


def seconds_until(holds: Any, pods: Pods, timeout_s: float = 60.0) -> float:
    """How long it takes until it holds."""
    began = time.monotonic()
    eventually(holds, pods, timeout_s)
    return time.monotonic() - began


__all__ = [
    "FIRST",
    "INSTANCE",
    "OWNER",
    "SECOND",
    "THIRD",
    "DatasetPods",
    "eventually",
    "hand_over",
    "pods_of",
    "seconds_until",
]
