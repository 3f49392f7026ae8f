"""Tales in envelopes: signed questions and answers between the agents of one instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from valkeyctl.agent import http, signing
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.tale import Tale
from valkeyctl.dataplane.model import Member

PATH = "/peer/tale"
_FROM, _NONCE, _SIGNATURE = "Valkeyctl-From", "Valkeyctl-Nonce", "Valkeyctl-Signature"
_NONCE_LENGTHS = range(16, 65)


class NotOurs(Exception):  # noqa: N818  (what it is)
    """Not signed by an agent of this instance, or not meant for this one."""


@dataclass(frozen=True)
class Letters:
    """Writes and reads them for one agent.

    `passwords` are all that the instance has now, the one to sign with first: while it is changed, some agents have the
    new one already, and others only the old one.
    """

    environment: Environment
    passwords: Callable[[], tuple[bytes, ...]]

    def question(self, to: Member, nonce: str, own: Tale) -> bytes:
        """Tell `to` the own tale and ask for its one. Raises NotOurs without a password."""
        body = own.encode()
        signed = self._sign("question", str(self.environment.member), str(to), nonce, body)
        headers = {_FROM: str(self.environment.member), _NONCE: nonce, _SIGNATURE: signed}
        return http.request("POST", PATH, self.environment.host_of(to), headers, body)

    def read_question(self, asked: http.Message) -> tuple[Tale, str]:
        """The asker's tale, and the nonce that the answer is to be signed with. Raises NotOurs.

        It may be a letter of old, sent again by somebody: nothing may be done because of it, but to ask back.
        """
        nonce = asked.headers.get(_NONCE.lower(), "")
        if len(nonce) not in _NONCE_LENGTHS:
            raise NotOurs("no nonce")
        sender = asked.headers.get(_FROM.lower(), "")
        self._check("question", sender, str(self.environment.member), nonce, asked)
        return _tale(asked.body, sender), nonce

    def answer(self, to: Member, nonce: str, own: Tale) -> bytes:
        """Answer a question. Raises NotOurs without a password."""
        body = own.encode()
        signed = self._sign("answer", str(self.environment.member), str(to), nonce, body)
        return http.response(200, body, {_SIGNATURE: signed, "Content-Type": "application/json"})

    def read_answer(self, sender: Member, nonce: str, answered: http.Message) -> Tale:
        """The tale of the member that was asked. Raises NotOurs."""
        if answered.status != "200":
            raise NotOurs(f"answered {answered.status}")
        self._check("answer", str(sender), str(self.environment.member), nonce, answered)
        return _tale(answered.body, str(sender))

    def _keys(self) -> tuple[bytes, ...]:
        place = self.environment
        return tuple(signing.key_of(one, place.namespace, place.instance) for one in self.passwords())

    def _sign(self, kind: str, sender: str, receiver: str, nonce: str, body: bytes) -> str:
        keys = self._keys()
        if not keys:
            raise NotOurs("there is no password yet to sign with")
        return signing.signature(keys[0], kind=kind, sender=sender, receiver=receiver, nonce=nonce, body=body)

    def _check(self, kind: str, sender: str, receiver: str, nonce: str, told: http.Message) -> None:
        signed = told.headers.get(_SIGNATURE.lower(), "")
        for key in self._keys():
            right = signing.signature(key, kind=kind, sender=sender, receiver=receiver, nonce=nonce, body=told.body)
            if signing.same(signed, right):
                return
        raise NotOurs("not signed with this instance's key")


def _tale(body: bytes, sender: str) -> Tale:
    try:
        tale = Tale.decode(body)
    except ValueError as error:
        raise NotOurs(f"not a tale: {error}") from error
    if str(tale.member) != sender:
        raise NotOurs("the tale of another member")
    return tale
