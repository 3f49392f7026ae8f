"""What a `Dataset` works with: the API, the ways to servers and Sentinels. Made anew for each method call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from valkeyctl.dataplane import Credentials, Dialer, Member
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.kube.access import Api
from valkeyctl.kube.declared_dataset import DeclaredDataset, DeclaredSentinels
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.forward import dialer_for
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.kube.status import Declared
from valkeyctl.kube.watched import SentinelSide, described, side_of
from valkeyctl.lifecycle.datasets.declaration import DatasetDeclaration
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.session import api_of


@dataclass(frozen=True)
class DatasetSession:
    """One declaration with the ways to its Pods. `spec` says what is declared, and not yet who decides the primary."""

    declaration: DatasetDeclaration
    api: Api
    credentials: Credentials
    dialer: Dialer
    directory: Directory
    spec: ReplicationSpec
    sentinels: SentinelSide | None = None

    @property
    def place(self) -> Place:
        """Where the instance is."""
        return self.declaration.place

    @property
    def members(self) -> Sequence[Member]:
        """The declared members."""
        return self.spec.members

    @property
    def live_settings(self) -> Mapping[str, str]:
        """What every running server is to have, as it tells it."""
        return self.declaration.live_settings


def open_session(declaration: DatasetDeclaration, *, formed: bool, patience_s: float = 0.0) -> DatasetSession:
    """Reads the credentials, prepares the ways, and finds out which members are leaving.

    Errors: those of the API; SecretMissing.
    """
    place = declaration.place
    api = api_of(place, patience_s=patience_s)
    credentials = read_credentials(api, place.namespace, declaration.credentials, instance=place.instance)
    directory = Directory(api, place.namespace, place.instance, declaration.port)
    spec = ReplicationSpec(
        instance=place.instance,
        replicas=declaration.replicas,
        # None of these is for agents: they act on no consent.
        accept_data_loss=declaration.allow_data_loss,
        formed=formed,
        persistent=declaration.persistent,
    )
    leaving = tuple(sorted(m for m in directory.there() if m.shard == 0 and m not in spec.members))
    watch = declaration.watch
    return DatasetSession(
        declaration=declaration,
        api=api,
        credentials=credentials,
        dialer=dialer_for(place.transport, api, place.namespace, credentials),
        directory=directory,
        spec=replace(spec, leaving=leaving),
        sentinels=None if watch is None else side_of(watch, declaration.members, api, place.transport, credentials),
    )


def for_agents(declaration: DatasetDeclaration, *, formed: bool) -> DeclaredDataset:
    """What the agents are told of a declaration. Pure."""
    watch = declaration.watch
    return DeclaredDataset(
        owner=declaration.place.owner,
        instance=declaration.place.instance,
        architecture=declaration.architecture,
        replicas=declaration.replicas,
        formed=formed,
        persistent=declaration.persistent,
        port=declaration.port,
        heal=declaration.heal,
        paused=declaration.paused,
        primary=declaration.primary,
        automatic_failover_s=declaration.automatic_failover_s,
        sentinels=None
        if watch is None
        else DeclaredSentinels(
            name=watch.name,
            sentinels=watch.addresses,
            quorum=watch.quorum,
            down_after_ms=watch.parameters.down_after_ms,
            failover_timeout_ms=watch.parameters.failover_timeout_ms,
            parallel_syncs=watch.parameters.parallel_syncs,
        ),
    )


def declared(declaration: DatasetDeclaration) -> Declared:
    """What the status ConfigMap says of a declaration. Pure."""
    return Declared(
        shards=1,
        replicas=declaration.replicas,
        port=declaration.port,
        credentials=declaration.credentials,
        tls=declaration.tls is not None,
        paused=declaration.paused,
        architecture=declaration.architecture,
        persistent=declaration.persistent,
        automatic_failover_s=declaration.automatic_failover_s,
        sentinel=None if declaration.watch is None else described(declaration.watch),
    )
