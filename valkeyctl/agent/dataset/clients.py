"""The part of the agent that leads clients to the right members: the endpoints, while its server is the primary.

It writes them as soon as it is confirmed that its server is the primary, whenever the replicas in sync change, and
looks now and then whether they are still so. Of the own Pod it looks whether the role label is still there. An API
server that doesn't answer keeps it from that, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from valkeyctl.agent.dataset.handover import in_sync
from valkeyctl.agent.dataset.known import Known
from valkeyctl.agent.dataset.state import DatasetState, of_dataset
from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.agent.peers import Peers
from valkeyctl.agent.runtime import Runtime
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.dataplane.model import Endpoint, Member, pod_name
from valkeyctl.dataplane.view import Role
from valkeyctl.kube.access import Api, path_of
from valkeyctl.kube.directory import endpoint_of
from valkeyctl.kube.endpoints import members_in, slice_path, wanted, write_endpoints
from valkeyctl.kube.errors import ApiConflict
from valkeyctl.kube.labels import ROLE_LABEL, primary_service_name

SOURCE = "clients"
CHECK_S = 15.0
"""Between two looks whether what was written is still there."""
FAILED_S = UNCONFIRMED_S = 1.0
CALM_S = 20.0
"""So long a server has its role before its label is put back: the first one is the leader's to write."""
ASK_S = 0.5


class Clients:
    """See the module. `run` is its thread, `look` one step of it."""

    def __init__(
        self,
        runtime: Runtime,
        known: Known,
        peers: Peers[DatasetTale],
        api: Callable[[], Api],
        primary: Callable[[], Member | None],
        *,
        by_up: bool,
    ) -> None:
        """`primary` is who was decided to be the primary. With `by_up` nobody keeps that: then a server is confirmed by
        whoever wrote it into the endpoints.
        """
        self._runtime = runtime
        self._known = known
        self._peers = peers
        self._api = api
        self._primary = primary
        self._by_up = by_up
        self._written: tuple[Member, ...] | None = None
        self._next = float("-inf")
        self._label_at = float("-inf")
        self._role: tuple[Role, float] | None = None
        self._told = ""
        self.troubles: tuple[str, ...] = ()
        """What only whoever leads can put right: the own server is a primary, and nobody has confirmed that."""

    def run(self) -> None:
        """Work until the agent is asked to end."""
        number = -1
        while not self._runtime.stopping.is_set():
            state = self._runtime.server.wait(after=number, timeout_s=0.5)
            number = state.number
            self._runtime.beat(SOURCE)
            live = of_dataset(state)
            if live is None:
                continue
            try:
                self.look(live, time.monotonic())
            except ApiConflict:
                self._next = float("-inf")
            except ValkeyctlError as error:
                self._next = self._label_at = time.monotonic() + FAILED_S
                self._say(f"clients can't be led: {error}")
            else:
                self._told = ""

    def look(self, live: DatasetState, now: float) -> None:
        """Do what is due after one look at the own server. Errors: those of the API."""
        self._look_at_the_label(live, now)
        if not live.is_primary:
            self._written, self.troubles = None, ()
            return
        if not self._is_confirmed(now):
            self._written = None
            return
        replicas = tuple(sorted(in_sync(live, self._known.member_at)))
        if now < self._next and (replicas == self._written or self._told):
            return
        place = self._runtime.environment
        me = Endpoint(place.member, place.pod, place.host, place.address, place.client_port)
        for line in write_endpoints(self._api(), place.namespace, place.instance, wanted(me, self._places(replicas))):
            self._runtime.log.info(SOURCE, f"clients go to {line}")
        self._written, self._next = replicas, now + CHECK_S

    def handed_over(self) -> None:
        """The own server has given its role away by itself: where nobody else confirms that, bring clients there."""
        live = of_dataset(self._runtime.server.state)
        if not self._by_up or live is None or live.upstream is None:
            return
        successor = self._known.member_at(live.upstream.host)
        told = self._peers.ask(self._known.others, ASK_S)
        if successor is None or successor not in told or not told[successor].is_primary:
            return
        others = [m for m, tale in told.items() if tale.linked and tale.upstream == successor]
        place = self._runtime.environment
        try:
            what = wanted(next(iter(self._places([successor])), None), self._places(others))
            write_endpoints(self._api(), place.namespace, place.instance, what)
        except ValkeyctlError as error:
            self._say(f"clients can't be led to {successor}: {error}")

    def _is_confirmed(self, now: float) -> bool:
        place = self._runtime.environment
        if not self._by_up:
            return self._primary() == place.member
        if now < self._next:
            return self._written is not None
        known = self._api().find(slice_path(place.namespace, primary_service_name(place.instance)))
        confirmed = known is not None and members_in(known) == (place.pod,)
        self.troubles = () if confirmed else ("it is a primary, and clients aren't led to it",)
        if not confirmed:
            self._next = now + UNCONFIRMED_S
        return confirmed

    def _places(self, members: Sequence[Member]) -> list[Endpoint]:
        """Where members are now, by the API server."""
        place, found = self._runtime.environment, list[Endpoint]()
        for member in members:
            pod = self._api().find(path_of("v1", "pods", place.namespace, pod_name(place.instance, member)))
            endpoint = None if pod is None else endpoint_of(pod, place.namespace, place.instance, place.client_port)
            if endpoint is not None:
                found.append(endpoint)
        self._runtime.peers.learn({endpoint.member: endpoint.address for endpoint in found})
        return found

    def _look_at_the_label(self, live: DatasetState, now: float) -> None:
        role = Role.PRIMARY if live.is_primary else Role.REPLICA
        if self._role is None or self._role[0] is not role:
            self._role, self._label_at = (role, now), max(self._label_at, now + CALM_S)
        if now < self._label_at:
            return
        self._label_at = now + CHECK_S
        place = self._runtime.environment
        path = path_of("v1", "pods", place.namespace, place.pod)
        labels = (self._api().get(path).get("metadata") or {}).get("labels") or {}
        if labels.get(ROLE_LABEL) != role:
            self._api().merge(path, {"metadata": {"labels": {ROLE_LABEL: str(role)}}})
            self._runtime.log.info(SOURCE, f"this Pod is labelled {role} again")

    def _say(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._runtime.log.warning(SOURCE, text)
