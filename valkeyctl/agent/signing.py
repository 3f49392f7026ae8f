"""Who speaks: agents of one instance know each other by its password, which never goes over the wire.

A Pod of another instance may have got the address of one of ours (report C2): what it says isn't signed with our key.
An answer is signed together with the question's nonce, so that an old answer is never taken for a new one. A question
may well be an old one, sent again by somebody: it is answered, and nothing is ever done only because of it.
"""

from __future__ import annotations

import hashlib
import hmac
import os

_PURPOSE = b"valkeyctl agents 1"


def key_of(password: bytes, namespace: str, instance: str) -> bytes:
    """The key of an instance's agents. Of no use for anything but the talk between them."""
    return hmac.digest(password, b"\0".join((_PURPOSE, namespace.encode(), instance.encode())), hashlib.sha256)


def new_nonce() -> str:
    """A text that no question had before."""
    return os.urandom(16).hex()


def signature(key: bytes, *, kind: str, sender: str, receiver: str, nonce: str, body: bytes) -> str:
    """The signature of one message. `kind` is question or answer, so that neither passes for the other."""
    # No part but the last can hold a line break: what is signed can be read in one way only.
    head = "\n".join((kind, sender, receiver, nonce))
    return hmac.new(key, head.encode() + b"\n" + body, hashlib.sha256).hexdigest()


def same(told: str, right: str) -> bool:
    """Whether two signatures are the same; takes as long for a wrong one as for the right one."""
    return hmac.compare_digest(told.encode(), right.encode())
