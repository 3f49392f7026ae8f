"""Settings are tried on one running server before they are written anywhere, so that a bad one is in no file (B5).

What the table of the server's settings knows was checked long before; this is for what only a server can judge: a
locale, a number of clients that the machine allows, one setting beside another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from valkeyctl.dataplane import Endpoint
from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.errors import ErrorReply, ValkeyctlError
from valkeyctl.dataplane.session import Session
from valkeyctl.dataplane.settings import differing, pairs_of
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.forward import dialer_for
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.session import api_of

TIMEOUT_S = 2.0
MOST_ASKED = 4
"""So many members are asked for one that can play; nobody is waited for."""
_LASTING = ("maxmemory", "appendonly", "save", "cluster-node-timeout", "import-mode")
"""What leaves traces even where it is set back at once: evicted keys, a file begun, a peer called failed."""


class SettingRefused(ValkeyctlError):  # noqa: N818 - reads as what happened
    """A running server refuses a declared setting. Nothing was written."""


@dataclass(frozen=True)
class Declared:
    """What is to be tried. `version`: the release that is declared, "9.1.2"; a server of another line is no judge."""

    settings: Mapping[str, str]
    version: str
    port: int
    credentials: Mapping[str, str | None] | None


def rehearse(place: Place, declared: Declared) -> None:
    """Returns where a running server takes the declared live settings, and where none can be asked.

    What was changed is set back at once; where that fails, the agent beside the server does it within seconds. Errors:
    SettingRefused, in the server's own words.
    """
    api = api_of(place)
    refusal: ErrorReply | None = None
    with suppress(ValkeyctlError):  # who can't be reached is told where that matters
        credentials = read_credentials(api, place.namespace, declared.credentials, instance=place.instance)
        endpoints = Directory(api, place.namespace, place.instance, declared.port)()
        dialer = dialer_for(place.transport, api, place.namespace, credentials)
        refusal = try_on_one(dialer, list(endpoints.values()), declared)
    if refusal is not None:
        raise SettingRefused(
            f"a running server refuses the declared settings, and nothing was written: {refusal.what}",
            where=refusal.where,
            remedy="Correct the setting in the stack config.",
        )


def try_on_one(dialer: Dialer, endpoints: list[Endpoint], declared: Declared) -> ErrorReply | None:
    """What a server says against the settings; None where it takes them, or where none is there to play.

    Errors: those of the data plane, where the talk breaks off.
    """
    player = _player(dialer, endpoints, declared.version)
    if player is None:
        return None
    session = Session(player, dialer, TIMEOUT_S)
    try:
        found = _found(session, declared.settings)
        # One that it doesn't have belongs to another version; that it is unknown shows elsewhere.
        asked = {name: value for name, value in declared.settings.items() if name in found and name not in _LASTING}
        changed = differing(asked, found)
        if not changed:
            return None
        reply = session.ask([("CONFIG", "SET", *_words(changed))])[0]
        if isinstance(reply, ErrorReply):
            return reply
        session.ask([("CONFIG", "SET", *_words({name: found[name] for name in changed}))])
        return None
    finally:
        session.close()


def _player(dialer: Dialer, endpoints: list[Endpoint], version: str) -> Endpoint | None:
    """A member of the declared line that answers: a replica, since nobody writes to it, else a primary."""
    primary: Endpoint | None = None
    for endpoint in sorted(endpoints, key=lambda one: (-one.member.ordinal, one.member.shard))[:MOST_ASKED]:
        try:
            session = Session(endpoint, dialer, TIMEOUT_S)
            try:
                told = session.ask([("INFO", "server", "replication")])[0]
            finally:
                session.close()
        except ValkeyctlError:
            continue
        info = told.decode(errors="replace") if isinstance(told, bytes) else ""
        if _same_line(info, version):
            if "role:slave" in info:
                return endpoint
            primary = primary or endpoint
    return primary


def _same_line(info: str, version: str) -> bool:
    line = ".".join(version.split(".")[:2])
    return bool(line) and f"valkey_version:{line}." in info


def _found(session: Session, settings: Mapping[str, str]) -> dict[str, str]:
    reply = session.ask([("CONFIG", "GET", *settings)])[0]
    return pairs_of(reply) if isinstance(reply, list) else {}


def _words(settings: Mapping[str, str]) -> Iterator[str]:
    return (word for pair in settings.items() for word in pair)
