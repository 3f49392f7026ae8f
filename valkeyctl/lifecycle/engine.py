"""The Pulumi engine that this provider process works for: what it is told, and whether it still lives.

Facts this rests on (CLI 3.26x to 3.276, SDK 3.272): the process is `python -m pulumi.dynamic <engine address>` under a
shell, so the parent's pid says nothing about pulumi; `pulumi.log` finds no engine in it and prints to standard error;
the engine takes messages at that address, and shows ephemeral ones as a progress line of the resource whose URN they
carry; the URN is in the request, which the methods of a provider do not get; nobody ends the process when pulumi is
killed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

from valkeyctl.dataplane.errors import Interrupted

_CALL_TIMEOUT_S = 2.0
_LOOK_EVERY_S = 0.25
_WATCH_EVERY_S = 0.5
#: An orphan's work stops at its next step; if a step hangs for so long, the process ends as by SIGKILL.
_ORPHAN_LIMIT_S = 60.0


_URN: ContextVar[str] = ContextVar("urn", default="")


class Engine:
    """The engine of this process; without one (`address` None) it counts as alive and messages go to standard error."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._stub: Any = None
        self._looked_at = float("-inf")
        self._alive = True
        self._working = 0

    def info(self, message: str) -> None:
        """A line that stays in the output of `up`."""
        self._log(message, "INFO", ephemeral=False)

    def warn(self, message: str) -> None:
        """A warning that stays in the output of `up`."""
        self._log(message, "WARNING", ephemeral=False)

    def progress(self, message: str) -> None:
        """A line that the next one replaces."""
        self._log(message, "INFO", ephemeral=True)

    def alive(self) -> bool:
        """Whether somebody still listens at the engine's address; looks at most a few times a second."""
        if self._address is None:
            return True
        with self._lock:
            now = time.monotonic()
            if self._alive and now - self._looked_at >= _LOOK_EVERY_S:
                self._looked_at = now
                self._alive = _listens(self._address)
            return self._alive

    def require(self) -> None:
        """Raises Interrupted once pulumi is gone: then nobody reads the result, and another `up` may have begun."""
        if not self.alive():
            raise Interrupted("the pulumi process that this works for has ended", remedy="Run it again; it resumes.")

    @contextlib.contextmanager
    def working(self) -> Generator[None, None, None]:
        """Marks that a provider's method runs: the orphan watch lets it end, and messages go to its resource."""
        with self._lock:
            self._working += 1
        before = _URN.set(_requested_urn())
        try:
            yield
        finally:
            _URN.reset(before)
            with self._lock:
                self._working -= 1

    def watch(self) -> None:
        """Ends this process when the engine has ended and no method runs any more. Returns only then."""
        while self.alive():
            time.sleep(_WATCH_EVERY_S)
        until = time.monotonic() + _ORPHAN_LIMIT_S
        while self._working and time.monotonic() < until:
            time.sleep(_WATCH_EVERY_S / 5)
        os._exit(0)

    def _log(self, message: str, severity: str, *, ephemeral: bool) -> None:
        if self._address is None:
            sys.stderr.write(f"{message}\n")
            return
        import grpc  # noqa: PLC0415 - loaded already wherever there is an engine
        from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc  # noqa: PLC0415

        with self._lock:
            if self._stub is None:
                self._stub = engine_pb2_grpc.EngineStub(grpc.insecure_channel(self._address))
        level: Any = getattr(engine_pb2, severity)
        request: Any = engine_pb2.LogRequest(
            severity=level, message=message, urn=_URN.get(), streamId=0, ephemeral=ephemeral
        )
        # What cannot be told must not stop what is being done.
        with contextlib.suppress(grpc.RpcError):
            self._stub.Log(request, timeout=_CALL_TIMEOUT_S)


@functools.cache
def engine() -> Engine:
    """The engine of this process; the first call starts the watch that ends an orphaned provider."""
    address = _address() if is_dynamic_provider() else None
    found = Engine(address)
    if address is not None:
        threading.Thread(target=found.watch, name="orphan-watch", daemon=True).start()
    return found


def is_dynamic_provider() -> bool:
    """Whether this is Pulumi's process for dynamic providers, not the program, a test or a tool."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", "") == "pulumi.dynamic.__main__"


def _requested_urn() -> str:
    """The URN in the request that Pulumi's server is serving on this thread; "" where it is not to be found.

    Without it messages would show under the stack; nothing else depends on it.
    """
    frame = inspect.currentframe()
    while frame is not None:
        frame = frame.f_back
        if frame is not None and frame.f_globals.get("__name__") == "__main__" and "request" in frame.f_locals:
            return str(getattr(frame.f_locals["request"], "urn", ""))
    return ""


def _address() -> str | None:
    given = sys.argv[1] if len(sys.argv) > 1 else ""
    return given if re.fullmatch(r"[\w.:\[\]-]+:\d+", given) else None


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CALL_TIMEOUT_S):
            return True
    except TimeoutError:
        return True  # Busy, not gone.
    except OSError:
        return False
