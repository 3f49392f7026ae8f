"""The Sentinels that watch a dataset: what is declared of them, and the ways to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from valkeyctl.dataplane.dial import Credentials, Dialer
from valkeyctl.dataplane.model import Address, Directory, Member, pod_name
from valkeyctl.dataplane.sentinel.model import SENTINEL_PORT, Parameters, Sentinel, SentinelSpec
from valkeyctl.kube.access import Api
from valkeyctl.kube.forward import DIRECT, dialer_for
from valkeyctl.kube.labels import pod_host
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.kube.sentinel_directory import SentinelDirectory, SentinelHosts

Reference = Mapping[str, str | None]


@dataclass(frozen=True)
class Watch:
    """What is declared of the Sentinels that watch a dataset under `name`.

    `set_name`: their StatefulSet in `namespace`; None where they are known by `hosts`, `<host>:<port>` each, alone.
    `ids`: their fixed ids, by ordinal. `credentials`: how to sign in at them, `monitor_as`: how they sign in at the
    servers (None: as this program does). `any_quorum`: a quorum of less than a majority is meant. `own`: they belong
    to the instance.
    """

    name: str
    set_name: str | None
    namespace: str
    hosts: tuple[str, ...]
    replicas: int
    quorum: int
    parameters: Parameters = field(default_factory=Parameters)
    port: int = SENTINEL_PORT
    ids: Mapping[int, str] = field(default_factory=dict[int, str])
    credentials: Reference | None = None
    monitor_as: Reference | None = None
    any_quorum: bool = False
    own: bool = True

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where they listen, by ordinal."""
        return tuple(address_of(told) for told in self.hosts)

    def is_same_set(self, other: Watch | None) -> bool:
        """Whether both are about the same Sentinels and the same name there."""
        mine = (self.name, self.set_name, self.namespace, None if self.set_name else self.hosts)
        return other is not None and mine == (
            other.name,
            other.set_name,
            other.namespace,
            None if other.set_name else other.hosts,
        )


def watch_of(told: Mapping[str, Any] | None, namespace: str) -> Watch | None:
    """The Sentinels that `sentinel` of `Dataset` names; `namespace`: the instance's. None where there are none. Pure.

    Numbers may come as floats.
    """
    if not told:
        return None
    standard = Parameters()
    return Watch(
        name=str(told["name"]),
        set_name=told.get("set") or None,
        namespace=str(told.get("namespace") or namespace),
        hosts=tuple(str(host) for host in told.get("hosts") or ()),
        replicas=int(told["replicas"]),
        quorum=int(told["quorum"]),
        parameters=Parameters(
            down_after_ms=int(told.get("down_after_ms") or standard.down_after_ms),
            failover_timeout_ms=int(told.get("failover_timeout_ms") or standard.failover_timeout_ms),
            parallel_syncs=int(told.get("parallel_syncs") or standard.parallel_syncs),
        ),
        port=int(told.get("port") or SENTINEL_PORT),
        ids={int(ordinal): str(one) for ordinal, one in (told.get("ids") or {}).items()},
        credentials=told.get("credentials"),
        monitor_as=told.get("monitor_as"),
        any_quorum=bool(told.get("any_quorum")),
        own=told.get("own") is not False,
    )


def described(watch: Watch) -> dict[str, Any]:
    """What `watch_of` reads again. Pure."""
    return {
        "name": watch.name,
        "set": watch.set_name,
        "namespace": watch.namespace,
        "hosts": list(watch.hosts),
        "replicas": watch.replicas,
        "quorum": watch.quorum,
        "down_after_ms": watch.parameters.down_after_ms,
        "failover_timeout_ms": watch.parameters.failover_timeout_ms,
        "parallel_syncs": watch.parameters.parallel_syncs,
        "port": watch.port,
        "ids": {str(ordinal): one for ordinal, one in watch.ids.items()},
        "credentials": None if watch.credentials is None else dict(watch.credentials),
        "monitor_as": None if watch.monitor_as is None else dict(watch.monitor_as),
        "any_quorum": watch.any_quorum,
        "own": watch.own,
    }


def address_of(told: str) -> Address:
    """The address of `<host>:<port>`. Pure."""
    host, _, port = told.rpartition(":")
    return Address(host.strip("[]"), int(port))


@dataclass(frozen=True)
class Members:
    """The members of a dataset, by the names under which all others know them."""

    namespace: str
    instance: str
    replicas: int
    port: int

    @property
    def addresses(self) -> Mapping[Member, Address]:
        """The name and the port of each."""
        members = [Member(0, ordinal) for ordinal in range(self.replicas + 1)]
        names = {member: pod_name(self.instance, member) for member in members}
        return {m: Address(pod_host(self.instance, self.namespace, name), self.port) for m, name in names.items()}


@dataclass(frozen=True)
class SentinelSide:
    """The Sentinels that watch a dataset: the ways to them, what is declared of them, what they sign in with."""

    watch: Watch
    spec: SentinelSpec
    directory: Directory
    dialer: Dialer
    monitor_as: Credentials


def side_of(watch: Watch, members: Members, api: Api, transport: str, servers: Credentials) -> SentinelSide:
    """The ways to Sentinels. `servers`: how this program signs in at the servers.

    Errors: those of the API; SecretMissing.
    """
    at_sentinels = read_credentials(api, members.namespace, watch.credentials, "sentinel")
    monitor_as = servers if watch.monitor_as is None else read_credentials(api, members.namespace, watch.monitor_as)
    directory: Directory = SentinelHosts(watch.hosts)
    # Nobody's Pods, as far as is known here: whoever runs this has to reach them.
    way, leaving = DIRECT, ()
    if watch.set_name:
        directory = pods = SentinelDirectory(api, watch.namespace, watch.set_name, watch.port)
        way, leaving = transport, tuple(one for one in pods.there() if one.ordinal >= watch.replicas)
    return SentinelSide(
        watch=watch,
        spec=sentinel_spec(watch, members, monitor_as, leaving),
        directory=directory,
        dialer=dialer_for(way, api, watch.namespace, at_sentinels),
        monitor_as=monitor_as,
    )


def sentinel_spec(
    watch: Watch, members: Members, monitor_as: Credentials, leaving: tuple[Sentinel, ...] = ()
) -> SentinelSpec:
    """What is declared to the Sentinels. Pure."""
    return SentinelSpec(
        name=watch.name,
        servers=members.addresses,
        sentinels=watch.replicas,
        quorum=watch.quorum,
        parameters=watch.parameters,
        user=monitor_as.user,
        authenticated=bool(monitor_as.password),
        any_quorum=watch.any_quorum,
        ids=watch.ids,
        leaving=leaving,
    )
