"""The edge to valkey-py: its errors and the operating system's become ours, with the cause chained."""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator
from contextlib import contextmanager

from valkey import exceptions as theirs

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.model import Endpoint

_LONGEST = 200
_AUTH_REPLY = re.compile(
    r"^(NOAUTH|WRONGPASS|ERR AUTH|ERR invalid password|AUTH <password> called|invalid username)", re.I
)


def where(endpoint: Endpoint) -> str:
    """How messages name a server: its Pod and its address."""
    return f"{endpoint.pod} ({endpoint.address}:{endpoint.port})"


@contextmanager
def translated(endpoint: Endpoint) -> Generator[None]:
    """Turn whatever a talk with a server raises into our errors, naming the Pod. Ours pass through unchanged."""
    try:
        yield
    except errors.ValkeyctlError:
        raise
    except Exception as e:
        raise ours(e, endpoint) from e


def ours(error: Exception, endpoint: Endpoint) -> errors.ValkeyctlError:
    """Our error for one of valkey-py, of the operating system, or of a parser that got nonsense.

    The most specific comes first: valkey-py's AuthenticationError and BusyLoadingError are ConnectionErrors to it.
    """
    place = where(endpoint)
    if isinstance(error, theirs.ResponseError | theirs.AuthenticationError | theirs.BusyLoadingError):
        return of_reply(error, endpoint)
    if isinstance(error, theirs.TimeoutError | TimeoutError):
        return errors.NoAnswer("no answer in time", where=place)
    # valkey-py puts the operating system's error into a sentence of its own; what lies under it says it better.
    under = error.__context__ if isinstance(error.__context__, OSError) else error
    if isinstance(under, ssl.SSLError):
        return errors.ConnectFailed(
            f"TLS failed: {_short(under)}", where=place, remedy="See whether the server speaks TLS and who signed it."
        )
    if isinstance(error, theirs.InvalidResponse):
        return errors.NotUnderstood("what answers there doesn't speak the protocol", where=place)
    if isinstance(error, theirs.ConnectionError | OSError):
        told = under.strerror if isinstance(under, OSError) and under.strerror else _short(under)
        return errors.ConnectFailed(told, where=place)
    return errors.NotUnderstood(f"the answer couldn't be read ({type(error).__name__})", where=place)


def of_reply(error: Exception, endpoint: Endpoint) -> errors.ValkeyctlError:
    """Our error for an error reply of the server.

    valkey-py cuts the code word off the replies that it has a class for, so the class counts before the text does.
    """
    place, text = where(endpoint), _short(error)
    if isinstance(error, theirs.NoPermissionError) or text.startswith("NOPERM"):
        return errors.RightMissing(text, where=place, remedy="Grant the user the right, or name another user.")
    if isinstance(error, theirs.AuthenticationError | theirs.AuthenticationWrongNumberOfArgsError) or _AUTH_REPLY.match(
        text
    ):
        return errors.AuthFailed(
            f"the server refused to let us in: {text}",
            where=place,
            remedy="Compare the password in the Secret with the one that the server was started with.",
        )
    if isinstance(error, theirs.BusyLoadingError) or text.startswith("LOADING"):
        return errors.Loading("the server still reads its dataset", where=place)
    return errors.ErrorReply(f"the server answered: {text}", where=place)


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
