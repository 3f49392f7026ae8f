"""What a user reads when a provider fails: our message, without a traceback.

Pulumi's server for dynamic providers answers every exception with `traceback.format_exc()`, and offers no other way
out: it holds the bound methods from its start, passes no context on, and a BaseException would leave the call hanging.
So the name `traceback` of that one module is given a stand-in that renders the ValkeyctlError family as its message
alone. The standard library, and everybody else's view of it, stay as they are; any other exception is a bug, and keeps
its traceback.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.lifecycle.engine import is_dynamic_provider


class _PlainForUsers:
    """Stands for the module `traceback`."""

    def format_exc(self, limit: int | None = None, chain: bool = True) -> str:  # noqa: FBT001, FBT002 - its signature
        """As traceback.format_exc, but for errors that are meant for a person."""
        error = sys.exc_info()[1]
        return str(error) if isinstance(error, ValkeyctlError) else traceback.format_exc(limit, chain)

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


def render_plainly() -> bool:
    """Puts the stand-in in place; True if it is there. Idempotent; does nothing outside of Pulumi's server."""
    if not is_dynamic_provider():
        return False
    server: Any = sys.modules["__main__"]
    if getattr(server, "traceback", None) is traceback:
        server.traceback = _PlainForUsers()
    return isinstance(getattr(server, "traceback", None), _PlainForUsers)
