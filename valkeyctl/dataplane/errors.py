"""What can go wrong on the data plane, told to a person.

    ValkeyctlError              what is wrong, where, and what to do; never a secret; printed without a traceback
    ├── InvalidSlots            a text isn't a slot set, or a layout doesn't cover every slot exactly once
    ├── Unreachable             no talk with a server was possible, or it broke off
    │   ├── ConnectFailed       nobody listens there, the name or the route is unknown, the tunnel failed
    │   ├── NoAnswer            it was silent until the deadline
    │   └── NotUnderstood       what answers there doesn't speak the protocol, or not with a server of a cluster
    ├── Refused                 the server answered that we may not
    │   ├── AuthFailed          user or password are wrong, missing, or not expected
    │   └── RightMissing        the user lacks the right to a command
    ├── ErrorReply              the server answered with an error of its own
    │   └── Loading             it still reads its dataset from disk; it is live, and not ready
    ├── Blocked                 nothing can go on without a person's decision
    ├── DeadlineExceeded        the declared state wasn't reached in time; says who and what is missing
    └── Interrupted             the caller took back the permission to go on; whatever was done is safe to resume from

The records of the same names that `observe` and `plan` return (`view.Unreachable`, `plan.Blocked`) are values about one
node or one plan; the classes here are raised, and are reached as `errors.Unreachable` and so on.
"""

# ruff: noqa: N818  (names read as what happened, as in the tree above)

from __future__ import annotations


class ValkeyctlError(Exception):
    """What is wrong, where, and what to do.

    `where` names a Pod, a host or a path in the configuration ("" when the text says it), `remedy` the way out ("" when
    there is none to give). `str()` joins the three into what a person reads.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where, remedy)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text.rstrip('.')}. {self.remedy}" if self.remedy else text


class InvalidSlots(ValkeyctlError, ValueError):
    """A text isn't a slot set, or a layout doesn't cover every slot exactly once."""


class Unreachable(ValkeyctlError):
    """No talk with a server was possible, or it broke off; says nothing about whether it exists or holds data."""


class ConnectFailed(Unreachable):
    """Nobody listens there, the name or the route is unknown, or the tunnel to it failed."""


class NoAnswer(Unreachable):
    """The server was silent until the deadline."""


class NotUnderstood(Unreachable):
    """What answers there doesn't speak the protocol, or isn't a server with cluster mode on."""


class Refused(ValkeyctlError):
    """The server answered that we may not."""


class AuthFailed(Refused):
    """User or password are wrong, missing, or not expected."""


class RightMissing(Refused):
    """The user lacks the right to a command."""


class ErrorReply(ValkeyctlError):
    """The server answered with an error of its own."""


class Loading(ErrorReply):
    """The server still reads its dataset from disk: live, and not ready."""


class _ConvergeEnded(ValkeyctlError):
    """Ends a converge before its goal.

    `view` is the last observation, of the kind that was converged; `done` tells in order what had been done.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        remedy: str = "",
        view: object = None,
        done: tuple[str, ...] = (),
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.view = view
        self.done = done


class Blocked(_ConvergeEnded):
    """Nothing can go on without a person's decision; what could be done without it was done before."""


class DeadlineExceeded(_ConvergeEnded):
    """The declared state wasn't reached in time; the text says who and what is missing."""


class Interrupted(_ConvergeEnded):
    """The caller took back the permission to go on (its parent is gone, the lease is lost). Safe to resume from."""
