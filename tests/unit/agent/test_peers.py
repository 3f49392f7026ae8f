"""The talk between agents: who is believed, and who isn't (report C2)."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator

import pytest

from valkeyctl.agent import http, letters, signing
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.letters import Letters, NotOurs
from valkeyctl.agent.logs import Log
from valkeyctl.agent.peers import Peers
from valkeyctl.agent.tale import Server, Tale
from valkeyctl.agent.web import Web
from valkeyctl.dataplane.model import Member

ONE, OTHER, THIRD = Member(0, 0), Member(0, 1), Member(1, 0)
PORT = 19379


def place(member: Member, address: str, instance: str = "t", namespace: str = "n") -> Environment:
    pod = f"{instance}-{member}"
    host = f"{pod}.{instance}-headless.{namespace}.svc"
    return Environment(pod, namespace, instance, address, host, member, agent_port=PORT)


def letters_of(member: Member, *passwords: bytes, instance: str = "t") -> Letters:
    return Letters(place(member, "127.0.0.1", instance), lambda: passwords)


def asked(question: bytes) -> http.Message:
    read = http.parse(question)
    assert read is not None
    return read


NONCE = signing.new_nonce()


def test_a_question_and_its_answer() -> None:
    one, other = letters_of(ONE, b"secret"), letters_of(OTHER, b"secret")
    question = one.question(OTHER, NONCE, Tale(ONE, held=True))
    assert b"secret" not in question
    tale, nonce = other.read_question(asked(question))
    assert (tale, nonce) == (Tale(ONE, held=True), NONCE)
    answer = asked(other.answer(ONE, nonce, Tale(OTHER, server=Server.UP)))
    assert one.read_answer(OTHER, NONCE, answer) == Tale(OTHER, server=Server.UP)


def test_while_a_password_changes_both_are_understood() -> None:
    ahead, behind = letters_of(ONE, b"new", b"old"), letters_of(OTHER, b"old")
    assert ahead.read_question(asked(behind.question(ONE, NONCE, Tale(OTHER))))[0].member == OTHER
    with pytest.raises(NotOurs):
        behind.read_question(asked(ahead.question(OTHER, NONCE, Tale(ONE))))


@pytest.mark.parametrize(
    "stranger",
    [letters_of(ONE, b"another"), letters_of(ONE, b"secret", instance="u")],
    ids=["another password", "another instance with the same password"],
)
def test_nobody_else_is_believed(stranger: Letters) -> None:
    other = letters_of(OTHER, b"secret")
    with pytest.raises(NotOurs, match="not signed"):
        other.read_question(asked(stranger.question(OTHER, NONCE, Tale(ONE))))


def test_a_letter_to_another_member_is_not_ours() -> None:
    one, third = letters_of(ONE, b"secret"), letters_of(THIRD, b"secret")
    with pytest.raises(NotOurs, match="not signed"):
        third.read_question(asked(one.question(OTHER, NONCE, Tale(ONE))))


@pytest.mark.parametrize(
    "changed",
    [
        lambda m: http.Message(m.start, m.headers, m.body.replace(b'"held":false', b'"held":true')),
        lambda m: http.Message(m.start, {**m.headers, "valkeyctl-nonce": signing.new_nonce()}, m.body),
        lambda m: http.Message(m.start, {**m.headers, "valkeyctl-from": str(THIRD)}, m.body),
        lambda m: http.Message(m.start, {**m.headers, "valkeyctl-signature": ""}, m.body),
        lambda m: http.Message(m.start, {**m.headers, "valkeyctl-signature": "ä"}, m.body),
        lambda m: http.Message(m.start, {}, m.body),
    ],
)
def test_a_changed_question_is_refused(changed: Callable[[http.Message], http.Message]) -> None:
    one, other = letters_of(ONE, b"secret"), letters_of(OTHER, b"secret")
    question = asked(one.question(OTHER, NONCE, Tale(ONE)))
    other.read_question(question)
    with pytest.raises(NotOurs):
        other.read_question(changed(question))


def test_an_answer_of_old_is_refused() -> None:
    one, other = letters_of(ONE, b"secret"), letters_of(OTHER, b"secret")
    old = asked(other.answer(ONE, NONCE, Tale(OTHER, held=True)))
    assert one.read_answer(OTHER, NONCE, old).held
    with pytest.raises(NotOurs):
        one.read_answer(OTHER, signing.new_nonce(), old)


def test_a_question_is_no_answer() -> None:
    one, other = letters_of(ONE, b"secret"), letters_of(OTHER, b"secret")
    question = asked(one.question(OTHER, NONCE, Tale(ONE)))
    reflected = http.Message(("HTTP/1.1", "200", "OK"), question.headers, question.body)
    with pytest.raises(NotOurs):
        other.read_answer(ONE, NONCE, reflected)


def test_nobody_tells_for_another() -> None:
    one, other = letters_of(ONE, b"secret"), letters_of(OTHER, b"secret")
    with pytest.raises(NotOurs, match="another member"):
        one.read_answer(OTHER, NONCE, asked(other.answer(ONE, NONCE, Tale(THIRD))))


def test_without_a_password_nothing_is_signed() -> None:
    with pytest.raises(NotOurs, match="no password"):
        letters_of(ONE).question(OTHER, NONCE, Tale(ONE))


class Answering:
    """An agent's port at an address, that tells one tale to whoever asks rightly."""

    def __init__(self, own: Letters, address: str, tale: Tale) -> None:
        self._letters, self._tale = own, tale
        self.stopping = threading.Event()
        web = Web(address, PORT, {letters.PATH: self._answer}, Log(to=io.StringIO()))
        self.thread = threading.Thread(target=web.run, args=(self.stopping, lambda: None))
        self.thread.start()

    def _answer(self, question: http.Message) -> bytes:
        try:
            theirs, nonce = self._letters.read_question(question)
        except NotOurs:
            return http.response(403, b"no")
        return self._letters.answer(theirs.member, nonce, self._tale)


@pytest.fixture
def answering() -> Iterator[Callable[[Letters, str, Tale], None]]:
    made: list[Answering] = []
    yield lambda own, address, tale: made.append(Answering(own, address, tale))
    for one in made:
        one.stopping.set()
    for one in made:
        one.thread.join(10)


def peers(log: io.StringIO) -> Peers:
    return Peers(place(ONE, "127.9.0.1"), letters_of(ONE, b"secret"), lambda: Tale(ONE), Log(to=log))


def test_asks_all_at_once_and_takes_what_comes(answering: Callable[[Letters, str, Tale], None]) -> None:
    answering(letters_of(OTHER, b"secret"), "127.9.0.2", Tale(OTHER, held=True))
    answering(letters_of(THIRD, b"another", instance="u"), "127.9.0.3", Tale(THIRD, held=True))
    log = io.StringIO()
    mine = peers(log)
    nobody = Member(2, 0)
    mine.learn({OTHER: "127.9.0.2", THIRD: "127.9.0.3", nobody: "127.9.0.4", ONE: "127.9.0.1"})
    for _ in range(2):
        assert mine.ask([OTHER, THIRD, nobody, Member(9, 9), ONE], 5.0) == {OTHER: Tale(OTHER, held=True)}
    assert mine.missing == {THIRD, nobody, Member(9, 9)}
    assert log.getvalue().count("s1-0 isn't at 127.9.0.3 any more") == 1, "told once"
    assert mine.ask([], 5.0) == {}


TABLE = (
    "a1 127.9.0.1:6379@16379,t-s0-0.t-headless.n.svc,shard-id=x myself,master - 0 0 1 connected 0-100\n"
    "b2 127.9.0.2:6379@16379,t-s0-1.t-headless.n.svc,shard-id=x slave a1 0 0 1 connected\n"
    "c3 127.9.0.3:6379@16379,u-s1-0.u-headless.n.svc,shard-id=y master - 0 0 2 connected\n"
    "d4 fd00::4:6379@16379,t-s2-0.t-headless.n.svc master - 0 0 3 connected\n"
    "e5 :0@0,t-s2-1.t-headless.n.svc slave,noaddr d4 0 0 3 disconnected\n"
    "f6 127.9.0.6:6379@16379 master - 0 0 3 connected\n"
    "vars currentEpoch 3 lastVoteEpoch 0\n"
)


def test_reads_addresses_of_its_own_instance_out_of_a_node_table() -> None:
    mine = peers(io.StringIO())
    mine.read_table(TABLE.encode())
    assert mine.addresses() == {OTHER: "127.9.0.2", Member(2, 0): "fd00::4"}


def test_what_the_api_told_is_not_undone_by_an_old_table() -> None:
    mine = peers(io.StringIO())
    mine.read_table(TABLE.encode())
    mine.learn({OTHER: "127.9.0.22"})
    mine.read_table(TABLE.encode())
    assert mine.addresses()[OTHER] == "127.9.0.22"
    mine.read_table(TABLE.replace("127.9.0.2:", "127.9.0.23:").encode())
    assert mine.addresses()[OTHER] == "127.9.0.23"
