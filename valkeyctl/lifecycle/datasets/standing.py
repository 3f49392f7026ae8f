"""A dataset as it stands, whatever is declared now: for what has to be known, or done, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from valkeyctl.dataplane import Credentials, Dialer, Endpoint, Member
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.kube.access import Api
from valkeyctl.kube.dataset_look import DatasetLook, look_at
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.forward import dialer_for
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.kube.status import InstanceStatus, read_status, recorded_primary
from valkeyctl.kube.watched import Members, SentinelSide, side_of, watch_of
from valkeyctl.lifecycle.datasets.authority import Authority, authority_of
from valkeyctl.lifecycle.present import Credentials as Reference
from valkeyctl.lifecycle.present import sizes_of
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.session import api_of

ANSWER_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Standing:
    """What there is, and the ways to it. `spec`: as many members as the StatefulSet asks for."""

    api: Api
    place: Place
    status: InstanceStatus | None
    credentials: Credentials
    directory: Directory
    dialer: Dialer
    spec: ReplicationSpec
    side: SentinelSide | None
    by_lease: bool

    @property
    def endpoints(self) -> Mapping[Member, Endpoint]:
        """Where the members are now. Errors: those of the API."""
        return self.directory()

    @property
    def recorded(self) -> int | None:
        """Who was the primary last, as the status tells."""
        return recorded_primary(self.status)

    def look(self) -> DatasetLook:
        """What everybody says of itself. Errors: those of the API."""
        return look_at(
            self.spec,
            self.directory,
            self.dialer,
            timeout_s=ANSWER_TIMEOUT_S,
            side=self.side,
            by_lease=self.by_lease,
            recorded=self.recorded,
        )

    def authority(self, stack: ExitStack) -> Authority:
        """Who decides which member is the primary. Its connections are closed with the stack."""
        return authority_of(
            self.directory,
            self.place,
            self.dialer,
            self.spec.members,
            stack,
            side=self.side,
            by_lease=self.by_lease,
            recorded=self.recorded,
        )


def standing(
    place: Place, *, port: int, credentials: Reference, patience_s: float = 0.0, persistent: bool = False
) -> Standing | None:
    """The dataset as it stands; None where it has no StatefulSet, or none that asks for Pods.

    Errors: those of the API, SecretMissing.
    """
    api = api_of(place, patience_s=patience_s)
    directory = Directory(api, place.namespace, place.instance, port)
    size = next(iter(sizes_of(place, directory)), 0)
    if size == 0:
        return None
    known = read_credentials(api, place.namespace, credentials, instance=place.instance)
    status = read_status(api, place.namespace, place.instance)
    told = status.declared if status else None
    members = Members(place.namespace, place.instance, size - 1, port)
    watch = watch_of(told.sentinel if told else None, place.namespace)
    return Standing(
        api=api,
        place=place,
        status=status,
        credentials=known,
        directory=directory,
        dialer=dialer_for(place.transport, api, place.namespace, known),
        spec=ReplicationSpec(place.instance, size - 1, formed=bool(status and status.formed), persistent=persistent),
        side=None if watch is None else side_of(watch, members, api, place.transport, known),
        by_lease=bool(told and told.automatic_failover_s),
    )
