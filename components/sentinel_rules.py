"""Rules about the arguments of Sentinels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from valkeyctl.dataplane.sentinel.model import majority

from .problems import Problem, fail

if TYPE_CHECKING:
    from .sentinel_args import Sentinel, SentinelArgs

_LEAST, _MOST = 3, 9


def count(value: int) -> int:
    """A number of Sentinels that can outvote a lost one and never be split into halves."""
    if not _LEAST <= value <= _MOST or value % 2 == 0:
        fail(f"must be odd, {_LEAST} to {_MOST}: a majority of the Sentinels decides")
    return value


def problems(args: Sentinel) -> Iterator[Problem]:
    """Everything that is wrong with them together."""
    if args.reference is not None:
        for name in ("replicas", "image", "resources", "persistence"):
            if name in args.model_fields_set and getattr(args, name) is not None:
                reason = f"belongs to the set's own Pods, which {args.reference.name} declares; write it there"
                yield Problem((name,), getattr(args, name), reason)
    if args.quorum is None:
        return
    if args.quorum > args.members:
        yield Problem(("quorum",), args.quorum, f"there are {args.members} Sentinels")
    elif args.quorum < majority(args.members) and not args.allow_small_quorum:
        reason = (
            f"a majority of {args.members} is {majority(args.members)}; set allowSmallQuorum: true to have fewer decide"
        )
        yield Problem(("quorum",), args.quorum, reason)


def image_problems(args: SentinelArgs) -> Iterator[Problem]:
    """Two words for one thing."""
    if args.image is not None and args.version is not None:
        yield Problem(("version",), args.version, "image says which version is run; remove one of the two")
