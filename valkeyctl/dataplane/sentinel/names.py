"""What a set of Sentinels monitors altogether, whoever's names these are: for those who are about to stop one of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.sentinel import wire
from valkeyctl.dataplane.session import Session
from valkeyctl.dataplane.translate import where


@dataclass(frozen=True)
class Names:
    """The names that one Sentinel monitors: with it, what is wrong with a name, "" where it could be failed over."""

    troubles: Mapping[str, str] = field(default_factory=dict[str, str])


def names_of(links: Links, endpoints: Mapping[Member, Endpoint]) -> Mapping[Member, Names | errors.ValkeyctlError]:
    """What each of these Sentinels monitors; who doesn't answer, with the reason. Only reads."""
    return links.each(endpoints, _ask)


def _ask(session: Session) -> Names:
    told = session.ask([wire.NAMES])[0]
    if isinstance(told, errors.ValkeyctlError):
        raise told
    try:
        known = wire.names(told)
    except (ValueError, LookupError) as e:
        raise errors.NotUnderstood("what answers there isn't a Sentinel", where=where(session.endpoint)) from e
    replies = session.ask([wire.quorum_question(name) for name in known]) if known else []
    return Names(
        {
            name: "its primary is down" if not is_up else reply.what if isinstance(reply, errors.ErrorReply) else ""
            for (name, is_up), reply in zip(known.items(), replies, strict=True)
        }
    )
