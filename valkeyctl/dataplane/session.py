"""A talk with one server: commands in one round trip, raw replies out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import valkey
from valkey import exceptions as theirs
from valkey.connection import Connection

from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.errors import ConnectFailed, ValkeyctlError
from valkeyctl.dataplane.model import Endpoint
from valkeyctl.dataplane.translate import of_reply, translated, where

Command = tuple[str | int | bytes, ...]
Reply = bytes | int | list[object] | ValkeyctlError | None


class Session:
    """One open connection. Not for several threads at once; after an error other than a reply it is of no more use."""

    def __init__(self, endpoint: Endpoint, dialer: Dialer, timeout_s: float) -> None:
        """Connect. Raises `errors.Unreachable` and `errors.Refused`."""
        self.endpoint = endpoint
        #: Whether the server is known to move slots by itself; set by who has asked for its version.
        self.moves_atomically = False
        self._closed = False
        with translated(endpoint):
            self._client: valkey.Valkey = dialer.dial(endpoint, timeout_s)
            # A client that has no connection of its own takes one from its pool.
            own = self._client.connection or self._client.connection_pool.get_connection("")
            self._connection = cast("Connection", own)

    def ask(self, commands: Sequence[Command]) -> list[Reply]:
        """Send all commands at once and return their replies in order.

        An error reply is returned, as our error, not raised; the other commands have run nevertheless. Raises
        `errors.Unreachable` when the talk breaks off (some of the commands may have run then), `errors.AuthFailed` and
        `errors.Loading` when the server takes no commands from us now.
        """
        replies: list[Reply] = []
        if self._closed:  # valkey-py would connect again and go on after we were told to stop
            raise ConnectFailed("the connection was closed", where=where(self.endpoint))
        with translated(self.endpoint):
            packed = self._connection.pack_commands(commands)
            self._connection.send_packed_command(packed, check_health=False)
            for _ in commands:
                try:
                    replies.append(cast("Reply", self._connection.read_response(disable_decoding=True)))
                except theirs.ResponseError as e:
                    replies.append(of_reply(e, self.endpoint))
        return replies

    def tell(self, command: Command) -> None:
        """Send a command that servers don't answer. Raises `errors.Unreachable`."""
        if self._closed:
            raise ConnectFailed("the connection was closed", where=where(self.endpoint))
        with translated(self.endpoint):
            self._connection.send_packed_command(self._connection.pack_command(*command), check_health=False)

    def close(self) -> None:
        """Hang up for good. Also from another thread, to end a wait for an answer. Never raises."""
        self._closed = True
        try:
            self._connection.disconnect()
            self._client.close()
        except Exception:  # noqa: BLE001, S110  # whatever a broken connection says on its way out is of no interest
            pass
