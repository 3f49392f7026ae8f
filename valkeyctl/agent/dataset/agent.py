"""All parts of one agent of a dataset's, connected."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from valkeyctl.agent import http, letters, resp
from valkeyctl.agent.body import PART_BEAT_S, Body
from valkeyctl.agent.dataset.by_lease import make_primacy
from valkeyctl.agent.dataset.by_sentinels import BySentinels, Parts
from valkeyctl.agent.dataset.by_up import ByUp
from valkeyctl.agent.dataset.deciding import Decider
from valkeyctl.agent.dataset.gate import Court, Gate
from valkeyctl.agent.dataset.handover import HandOver, PreStop
from valkeyctl.agent.dataset.known import Known
from valkeyctl.agent.dataset.sentinel_handover import SentinelHandOver
from valkeyctl.agent.dataset.state import DATASET_LOOK, of_dataset
from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.agent.dataset.telling import Telling
from valkeyctl.agent.disk import Unreadable
from valkeyctl.agent.door import Door
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.letters import Letters, NotOurs
from valkeyctl.agent.logs import Log
from valkeyctl.agent.peers import Peers
from valkeyctl.agent.primacy.primacy import Primacy
from valkeyctl.agent.runtime import Part, Runtime
from valkeyctl.agent.state import ServerState
from valkeyctl.dataplane.model import Member
from valkeyctl.kube.labels import FAILOVER, REPLICA

if TYPE_CHECKING:
    from valkeyctl.agent.dataset.clients import Clients
    from valkeyctl.agent.dataset.heal_sentinels import Watchers
    from valkeyctl.kube.access import Api


class DatasetAgent(Body):
    """See the module."""

    def __init__(self, environment: Environment, log: Log) -> None:
        """Raises OSError when the port or the shared volume can't be used."""
        super().__init__(environment, log, DATASET_LOOK)
        self._followed = False
        self._seen: Callable[[], tuple[str, ...]] = tuple
        self._clients: Clients | None = None
        self.holds = self.gate = Gate(environment, self.watch, log)
        self.letters = Letters(environment, self.files.passwords, DatasetTale.decode)
        self.others = self.peers = Peers(environment, self.letters, self._own_tale, log)
        self.known = Known(environment, self.peers.addresses)
        self.telling = Telling(
            environment,
            self.watch,
            self.files.data,
            held=lambda: self.gate.held,
            primary=lambda: self.decider.primary,
            member_at=self.known.member_at,
        )
        self.hand_over = HandOver(self.watch, self.own_server, self._server_of, self.known.member_at, log)
        self.decider: Decider = self._make_decider()
        self.pre_stop = PreStop(
            Door(environment.run / "handover"), self.decider, self._about_to_stop, self._handed_over, log
        )
        self.watch.listeners += [self.gate.listen, self.telling.note, self._note_role]
        paths = {letters.PATH: self._hear}
        if isinstance(self.decider, Primacy):
            self.watch.listeners.append(self.decider.listen)
            paths = {**paths, **self.decider.paths}
        self.web = self.open(paths)

    def start(self) -> None:
        """Start all that the server needs."""
        start, stopping = self.threads.start, self.threads.stopping
        court = Court(self.decider, self.telling, self.peers, lambda: self.known.others)
        start("watch", 10.0, lambda beat: self.watch.run(stopping, beat))
        start("gate", 10.0, lambda beat: self.gate.run(court, stopping, beat))
        start("web", 10.0, lambda beat: self.web.run(stopping, beat))
        start("decider", 30.0, lambda beat: self.decider.run(stopping, beat))
        start("handover", 30.0, lambda beat: self.pre_stop.run(stopping, beat))

    def make_leader(self, runtime: Runtime) -> Part:
        """See `Body.make_leader`."""
        from valkeyctl.agent.dataset.leading import make_clients, make_leader  # noqa: PLC0415

        clients = self._clients = make_clients(self, runtime)
        self.threads.start("clients", PART_BEAT_S, lambda _beat: clients.run())
        return make_leader(self, runtime)

    def api(self) -> Api:
        """The connection to the API server, made when it is first needed. Errors: KubeError."""
        return self._api

    @property
    def is_by_up(self) -> bool:
        """Whether nobody decides between two runs who the primary is."""
        return isinstance(self.decider, ByUp)

    @property
    def decided_elsewhere(self) -> bool:
        """Whether it isn't for who heals to say who the primary is. May ask the Sentinels."""
        return self.decider.decides if isinstance(self.decider, BySentinels) else not self.is_by_up

    @cached_property
    def _api(self) -> Api:
        from valkeyctl.kube.access import connect  # noqa: PLC0415 - imported when it is needed

        return connect(None, None)

    def _own_tale(self) -> DatasetTale:
        return self.telling.or_nothing()

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is off that the own server doesn't tell."""
        return self._seen() + (() if self._clients is None else self._clients.troubles)

    @cached_property
    def watchers(self) -> Watchers:
        """The Sentinels, as what is heavy speaks with them."""
        from valkeyctl.agent.dataset.heal_sentinels import Watchers  # noqa: PLC0415 - heavy

        return Watchers(self.environment, lambda: self.files.passwords()[0], lambda: self.decider.primary)

    def _make_decider(self) -> Decider:
        if self.environment.architecture == FAILOVER:
            return self._by_sentinels()
        lease_s = self.environment.automatic_failover_s
        if self.environment.architecture == REPLICA and lease_s is not None:
            return make_primacy(self, lease_s)
        return ByUp(lambda: self.known.declared, lambda: self._followed, self.hand_over.to_best)

    def _by_sentinels(self) -> BySentinels:
        parts = Parts(self.environment, self.watch, self.telling, self.peers, self.known, self.log, self.own_server)
        hand_over = SentinelHandOver(
            self.environment,
            self.watch,
            self.known,
            self.peers.addresses,
            lambda: self.known.named_by(decider.ask()),
            lambda: self.watchers,
            self.log,
        )
        decider = BySentinels(parts, hand_over)
        self._seen = lambda: decider.troubles
        return decider

    def _note_role(self, state: ServerState) -> None:
        live = of_dataset(state)
        if live is not None:
            self._followed = live.is_replica and live.upstream is not None and self._is_member(live.upstream.host)

    def _is_member(self, host: str) -> bool:
        return self.known.member_at(host) is not None

    def _server_of(self, member: Member) -> resp.Link:
        address = self.peers.addresses().get(member)
        if address is None:
            raise ConnectionError(f"nobody knows where {member} is")
        return self.server_at(address, self.environment.client_port)

    def _about_to_stop(self) -> None:
        self.telling.wants_to_stop = True

    def _handed_over(self) -> None:
        if self._clients is not None:
            self._clients.handed_over()

    def _hear(self, asked: http.Message) -> bytes:
        """Another agent tells its tale, and asks for ours."""
        if asked.method != "POST":
            return http.response(405, b"tales are told by POST\n", {"Allow": "POST"})
        try:
            theirs, nonce = self.letters.read_question(asked)
        except NotOurs as error:
            return http.response(403, f"{error}\n".encode())
        try:
            own = self.telling.fresh()
        except (OSError, Unreadable) as error:
            return http.response(503, f"there is nothing to tell: {error}\n".encode())
        return self.letters.answer(theirs.member, nonce, own)
