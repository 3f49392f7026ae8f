"""Where the other agents are, by their Pods' DNS names: also when the API server can't be asked, or hasn't been."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Mapping

from valkeyctl.dataplane.model import Member

EVERY_S = 15.0
AGAIN_S = 1.0
"""Between two looks for somebody who doesn't answer where he was."""


class Names:
    """Looks names up in a thread of its own, since that may take its time. The rest is for any thread."""

    def __init__(self, host_of: Callable[[Member], str], family: socket.AddressFamily) -> None:
        """`family` is that of the own address: the agents of an instance listen on one of a kind."""
        self._host_of = host_of
        self._family = family
        self._found: dict[Member, str] = {}
        self._now = threading.Event()
        self.wanted: Collection[Member] = ()

    def addresses(self) -> Mapping[Member, str]:
        """What was found last."""
        return dict(self._found)

    def look_now(self) -> None:
        """Somebody doesn't answer: look again soon."""
        self._now.set()

    def run(self, stopping: threading.Event) -> None:
        """Look, until `stopping` is set."""
        while not stopping.wait(AGAIN_S):
            for member in sorted(self.wanted):
                self._look(member)
            self._now.wait(EVERY_S)
            self._now.clear()

    def _look(self, member: Member) -> None:
        try:
            found = socket.getaddrinfo(self._host_of(member), None, self._family, socket.SOCK_STREAM)
        except OSError:
            return  # what was found before may still be right
        self._found[member] = str(found[0][4][0])
