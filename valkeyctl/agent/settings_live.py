"""Settings of the running server: told all in one command, so that either all of them hold or none is changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from valkeyctl.agent.resp import ErrorReply, Link
from valkeyctl.dataplane.settings import differing, pairs_of

MAXMEMORY = "maxmemory"
_LINE = re.compile(r'(?P<name>[\w-]+) (?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>.+))')


class Refused(Exception):  # noqa: N818  (what it is)
    """The server took none of the settings; the text is its own words."""


@dataclass(frozen=True)
class Wanted:
    """What a server is to have.

    `settings` are the declared ones. `text` is the file that says the same to the next start in this Pod. `postponed`
    are those that this Pod can't have, name → why; they have their former value in `settings` and in `text`.
    `forgotten` were taken out, and what the server's default is nobody knows: they stay until the next start.
    """

    settings: Mapping[str, str]
    text: str
    postponed: Mapping[str, str] = field(default_factory=dict[str, str])
    forgotten: tuple[str, ...] = ()


def read_directives(text: str) -> dict[str, str]:
    """Name → value of a file as `components.server_config.directive` writes it. Of two lines the last one holds."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match:
            quoted = match["quoted"]
            found[match["name"]] = match["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return found


def wanted(text: str, kept: str, defaults: Mapping[str, str], *, memory_limit: int | None = None) -> Wanted:
    """What the declared file `text` comes to in this Pod, whose server was last told `kept`. Pure.

    A setting that is declared no more goes back to its default (report B6). `memory_limit`, in bytes, is that of the
    server's container as this Pod was made: more than that must wait for a Pod that has more.
    """
    declared, before = read_directives(text), read_directives(kept)
    removed = {name: defaults[name] for name in before if name not in declared and name in defaults}
    forgotten = tuple(sorted(name for name in before if name not in declared and name not in defaults))
    settings, postponed = {**removed, **declared}, dict[str, str]()
    asked = settings.get(MAXMEMORY, "")
    if memory_limit is not None and asked.isdigit() and not 0 < int(asked) < memory_limit:
        postponed[MAXMEMORY] = f"{asked} doesn't fit this Pod, whose limit is {memory_limit}; a new Pod will have it"
        del settings[MAXMEMORY]
        if MAXMEMORY in before:
            settings[MAXMEMORY] = before[MAXMEMORY]
            text += f'\n# Until the Pod is replaced.\n{MAXMEMORY} "{before[MAXMEMORY]}"\n'
    return Wanted(settings, text, postponed, forgotten)


def found_in(link: Link, names: Mapping[str, str]) -> dict[str, str]:
    """What the server has of these settings. Raises Refused, and as `Link.ask`."""
    if not names:
        return {}
    reply = link.ask(("CONFIG", "GET", *names))[0]
    if isinstance(reply, ErrorReply):
        raise Refused(reply.text)
    return pairs_of(list(reply)) if isinstance(reply, list) else {}


def tell(link: Link, settings: Mapping[str, str]) -> dict[str, str]:
    """Makes the server have the settings; returns those that it didn't have. Idempotent.

    Raises Refused, with the server's words and nothing changed, also where it took a value and tells another one; and
    as `Link.ask`, after which nobody knows.
    """
    changed = differing(settings, found_in(link, settings))
    if not changed:
        return {}
    reply = link.ask(("CONFIG", "SET", *(word for pair in changed.items() for word in pair)))[0]
    if isinstance(reply, ErrorReply):
        raise Refused(reply.text)
    found = found_in(link, changed)
    for name, value in differing(changed, found).items():
        raise Refused(f"{name} was set to {value!r} and is {found.get(name)!r}")
    return changed
