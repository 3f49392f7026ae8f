"""Connections that outlive one observation, so that a converge connects to each member once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Self, TypeVar

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.dial import Credentials, Dialer
from valkeyctl.dataplane.fanout import fan_out
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.session import Session
from valkeyctl.dataplane.translate import where

Result = TypeVar("Result")


class Links:
    """At most one open connection per member, opened when first needed and after every failure. A context manager."""

    def __init__(self, dialer: Dialer, *, timeout_s: float, max_parallel: int) -> None:
        """`timeout_s` bounds connecting, each answer, and all that is done with one member in one call of `each`."""
        self._dialer = dialer
        self._timeout_s = timeout_s
        self._max_parallel = max_parallel
        self._idle: dict[Member, Session] = {}
        self._busy: dict[Member, Session] = {}
        self._lock = threading.Lock()
        self._patient: dict[int, Links] = {}

    @property
    def credentials(self) -> Credentials:
        """Who we are to the servers: a server that sends keys to another has to say so too."""
        return self._dialer.credentials

    def patient(self, timeout_s: float, lane: int = 0) -> Links:
        """Links to the same members for what takes its time; opened at the first call, closed with these.

        Each `lane` has connections of its own, for what a server does one by one for a connection.
        """
        with self._lock:
            if lane not in self._patient:
                self._patient[lane] = Links(self._dialer, timeout_s=timeout_s, max_parallel=self._max_parallel)
            return self._patient[lane]

    def each(
        self,
        endpoints: Mapping[Member, Endpoint],
        talk: Callable[[Session], Result],
    ) -> Mapping[Member, Result | errors.ValkeyctlError]:
        """Talk with all the members at once: what `talk` returns for each, or the error that it raised.

        A connection that failed in any way is closed and opened again at the next call.
        """

        def one(member: Member) -> Result | errors.ValkeyctlError:
            try:
                session = self._take(endpoints[member])
            except errors.ValkeyctlError as e:
                return e
            try:
                result = talk(session)
            except errors.ValkeyctlError as e:
                self._end(session)
                return e
            self._put_back(session)
            return result

        def late(member: Member) -> errors.ValkeyctlError:
            self._give_up(member)
            return errors.NoAnswer(f"no answer within {self._timeout_s:g} s", where=where(endpoints[member]))

        return fan_out(endpoints, one, max_parallel=self._max_parallel, timeout_s=self._timeout_s, late=late)

    def close(self) -> None:
        """Hang up everywhere."""
        with self._lock:
            sessions = [*self._idle.values(), *self._busy.values()]
            self._idle.clear()
            self._busy.clear()
            patient, self._patient = self._patient, {}
        for links in patient.values():
            links.close()
        for session in sessions:
            session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, endpoint: Endpoint) -> Session:
        with self._lock:
            session = self._idle.pop(endpoint.member, None)
        if session is not None and session.endpoint != endpoint:
            session.close()
            session = None
        if session is None:
            session = Session(endpoint, self._dialer, self._timeout_s)
        with self._lock:
            self._busy[endpoint.member] = session
        return session

    def _put_back(self, session: Session) -> None:
        """Keep a session for the next call, unless its talk was given up: another may then be in its place."""
        with self._lock:
            mine = self._is_current(session)
            if mine:
                self._idle[session.endpoint.member] = self._busy.pop(session.endpoint.member)
        if not mine:
            session.close()

    def _end(self, session: Session) -> None:
        """Close a session whose talk failed, and no other: of one that was given up before, another is in its place."""
        with self._lock:
            if self._is_current(session):
                del self._busy[session.endpoint.member]
        session.close()

    def _is_current(self, session: Session) -> bool:
        return self._busy.get(session.endpoint.member) is session

    def _give_up(self, member: Member) -> None:
        """Close the session of a member that gives no answer; whoever talks on it hears of that."""
        with self._lock:
            session = self._busy.pop(member, None)
        if session is not None:
            session.close()
