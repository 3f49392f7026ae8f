"""What a topology works with: the API, the dialer, the directory, the specification. Made anew for each method call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from valkeyctl.dataplane import Dialer, Spec, describe_layout
from valkeyctl.kube.access import Api, connect
from valkeyctl.kube.declared import DeclaredState
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.forward import dialer_for
from valkeyctl.kube.lease import Lease, hold
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.kube.status import Declared
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.props import Declaration, Place


@functools.cache
def _connected(kubeconfig: str | None, context: str | None) -> Api:
    return connect(kubeconfig, context)


def api_of(place: Place, *, patience_s: float = 0.0) -> Api:
    """The API server of a place. Sends nothing yet.

    All methods that one process serves share its connections, and the token of a credential plugin, which may take a
    second to get; a process lives as long as one `up`.
    """
    shared = _connected(place.kubeconfig, place.context)
    return shared.patient(patience_s) if patience_s else shared


def hold_for_up(api: Api, place: Place, engine: Engine, tell: Callable[[str], None]) -> AbstractContextManager[Lease]:
    """The instance's Lease, held for an `up` of its owner while a block runs. Errors: LeaseHeld; Interrupted."""
    return hold(
        api,
        place.namespace,
        place.instance,
        owner=place.owner,
        purpose=f"up of {place.owner}",
        progress=tell,
        may_go_on=engine.require,
    )


@dataclass(frozen=True)
class Session:
    """One declaration with the ways to its Pods."""

    declaration: Declaration
    api: Api
    dialer: Dialer
    directory: Directory
    spec: Spec

    @property
    def place(self) -> Place:
        """Where the instance is."""
        return self.declaration.place


def open_session(declaration: Declaration, *, formed: bool, patience_s: float = 0.0) -> Session:
    """Reads the credentials, prepares the ways, and finds out which shards are leaving.

    Errors: those of the API; SecretMissing.
    """
    place = declaration.place
    api = api_of(place, patience_s=patience_s)
    credentials = read_credentials(api, place.namespace, declaration.credentials, instance=place.instance)
    directory = Directory(api, place.namespace, place.instance, declaration.port)
    return Session(
        declaration=declaration,
        api=api,
        dialer=dialer_for(place.transport, api, place.namespace, credentials),
        directory=directory,
        spec=replace(
            # None of these is for agents: they act on no consent, and move neither slots nor a role that serves.
            _spec(declaration, formed=formed),
            accept_data_loss=declaration.allow_data_loss,
            primaries=declaration.primaries,
            leaving=directory.beyond(declaration.shards),
            migration=declaration.migration,
        ),
    )


def _spec(declaration: Declaration, *, formed: bool) -> Spec:
    return Spec(
        instance=declaration.place.instance,
        shards=declaration.shards,
        replicas=declaration.replicas,
        layout=declaration.layout,
        explicit=declaration.explicit,
        formed=formed,
        node_timeout_ms=declaration.node_timeout_ms,
        persistent=declaration.persistent,
        takeover_after_s=declaration.takeover_after_s,
    )


def for_agents(declaration: Declaration, *, formed: bool) -> DeclaredState:
    """What the agents are told of a declaration."""
    spec = _spec(declaration, formed=formed)
    return DeclaredState(
        declaration.place.owner, spec, declaration.port, heal=declaration.heal, paused=declaration.paused
    )


def declared(declaration: Declaration) -> Declared:
    """What the status ConfigMap says of a declaration."""
    return Declared(
        shards=declaration.shards,
        replicas=declaration.replicas,
        port=declaration.port,
        layout=describe_layout(declaration.layout),
        credentials=declaration.credentials,
        tls=declaration.tls is not None,
        paused=declaration.paused,
    )
