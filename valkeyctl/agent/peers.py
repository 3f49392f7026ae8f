"""The other members' agents: where they are, and what they tell."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from valkeyctl.agent import http, signing
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.letters import Letters, NotOurs
from valkeyctl.agent.logs import Log
from valkeyctl.agent.tale import Tale
from valkeyctl.dataplane.model import Member

MISSING_S = 5.0
"""How long it matters that a member didn't answer, unless it is asked again."""


class Peers:
    """Asks other members' agents; from any thread."""

    def __init__(self, environment: Environment, letters: Letters, own_tale: Callable[[], Tale], log: Log) -> None:
        """`own_tale` is what is told to whoever is asked."""
        self._environment = environment
        self._letters = letters
        self._own_tale = own_tale
        self._log = log
        self._lock = threading.Lock()
        self._known: dict[Member, str] = {}
        self._table: dict[Member, str] = {}
        self._strangers: dict[Member, str] = {}
        self._missing: dict[Member, float] = {}

    def addresses(self) -> Mapping[Member, str]:
        """Where the other members are, as far as is known."""
        with self._lock:
            return dict(self._known)

    def learn(self, addresses: Mapping[Member, str]) -> None:
        """Take over what the API server told. A member that isn't among them keeps what is known of it."""
        with self._lock:
            self._known |= {member: at for member, at in addresses.items() if member != self._environment.member}

    def read_table(self, nodes: bytes) -> None:
        """Take over the addresses in a node table (of the live server, or of its nodes.conf) that are new in it.

        An address that has stood there before is not newer than what the API server told since.
        """
        table = _addresses(nodes, self._environment)
        with self._lock:
            self._known |= {member: at for member, at in table.items() if self._table.get(member) != at}
            self._table = table

    def ask(self, members: Iterable[Member], timeout_s: float) -> Mapping[Member, Tale]:
        """The tales that these members' agents tell now; who doesn't answer in time isn't in it.

        All are asked at once. What isn't signed by an agent of this instance counts as no answer: the address may be
        another Pod's by now (report C2).
        """
        known, wanted = self.addresses(), frozenset(members) - {self._environment.member}
        told = self._put(known, [member for member in wanted if member in known], timeout_s)
        with self._lock:
            now = time.monotonic()
            self._missing |= dict.fromkeys(wanted, now)
            for member in told:
                self._missing.pop(member, None)
        return told

    @property
    def missing(self) -> frozenset[Member]:
        """The members that were asked just now and didn't answer: they may be at other addresses by now."""
        oldest = time.monotonic() - MISSING_S
        with self._lock:
            return frozenset(member for member, asked_at in self._missing.items() if asked_at > oldest)

    def _put(self, known: Mapping[Member, str], members: Sequence[Member], timeout_s: float) -> dict[Member, Tale]:
        if not members:
            return {}
        own, nonce, port = self._own_tale(), signing.new_nonce(), self._environment.agent_port
        told: dict[Member, Tale] = {}
        try:
            questions = {one: ((known[one], port), self._letters.question(one, nonce, own)) for one in members}
        except NotOurs as error:
            self._log.warning("peers", str(error))
            return told
        for member, answer in exchange(questions, timeout_s).items():
            try:
                told[member] = self._letters.read_answer(member, nonce, answer)
            except NotOurs as error:
                self._stranger(member, known[member], str(error))
        return told

    def _stranger(self, member: Member, address: str, why: str) -> None:
        """Say once for each address that somebody else answers there."""
        with self._lock:
            new = self._strangers.get(member) != address
            self._strangers[member] = address
        if new:
            self._log.warning("peers", f"{member} isn't at {address} any more, or has another password: {why}")


class _Talk:
    """One question under way."""

    def __init__(self, where: tuple[str, int], question: bytes) -> None:
        self._socket = socket.socket(socket.AF_INET6 if ":" in where[0] else socket.AF_INET)
        self._socket.settimeout(0)
        self._unsent, self._received = question, b""
        self.answer: http.Message | None = None
        self._socket.connect_ex(where)

    @property
    def sending(self) -> bool:
        return bool(self._unsent)

    def fileno(self) -> int:
        return self._socket.fileno()

    def go_on(self) -> bool:
        """Send or receive what is possible now; False when the talk is over. Raises OSError, http.Malformed."""
        if self._unsent:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
            return True
        part = self._socket.recv(1 << 16)
        self._received += part
        self.answer = http.parse(self._received, ended=not part)
        return self.answer is None

    def close(self) -> None:
        self._socket.close()


def exchange(
    questions: Mapping[Member, tuple[tuple[str, int], bytes]], timeout_s: float
) -> Mapping[Member, http.Message]:
    """Put all questions (address and port, bytes) at once; the answers that came within the time."""
    deadline = time.monotonic() + timeout_s
    poll = select.poll()
    talks: dict[int, tuple[Member, _Talk]] = {}
    answers: dict[Member, http.Message] = {}

    def end(number: int) -> None:
        member, talk = talks.pop(number)
        poll.unregister(number)
        talk.close()
        if talk.answer is not None:
            answers[member] = talk.answer

    try:
        for member, (where, question) in questions.items():
            talk = _Talk(where, question)
            talks[talk.fileno()] = (member, talk)
            poll.register(talk.fileno(), select.POLLOUT)
        while talks and (left_s := deadline - time.monotonic()) > 0:
            for number, _ in poll.poll(left_s * 1000):
                talk = talks[number][1]
                try:
                    going_on = talk.go_on()
                except (OSError, http.Malformed):
                    going_on = False
                if going_on:
                    poll.modify(number, select.POLLOUT if talk.sending else select.POLLIN)
                else:
                    end(number)
    finally:
        for number in list(talks):
            end(number)
    return answers


def _addresses(nodes: bytes, environment: Environment) -> dict[Member, str]:
    """Member → address, out of lines that begin with `<id> <ip>:<port>@<bus>,<host>[,…] <flags>`."""
    found: dict[Member, str] = {}
    for line in nodes.decode(errors="replace").splitlines():
        words = line.split(" ", 3)
        if len(words) < 4 or "@" not in words[1] or "noaddr" in words[2] or "myself" in words[2]:
            continue
        where, *names = words[1].split(",")
        member = environment.member_named(names[0]) if names else None
        address = where.rpartition(":")[0]
        if member is not None and address and member != environment.member:
            found[member] = address
    return found
