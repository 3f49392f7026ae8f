"""Rules about the arguments of one dataset that concern several of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import rules
from .problems import Problem

if TYPE_CHECKING:
    from .dataset_args import Dataset


def problems(args: Dataset) -> Iterator[Problem]:
    """Everything that is wrong with the arguments together, each with the path of the one to change."""
    yield from rules.common(args)
    last = f"0 to {args.replicas}" if args.replicas else "just 0"
    nobody = f"there is no such member: the ordinals are {last}"
    if args.primary is not None and args.primary > args.replicas:
        yield Problem(("primary",), args.primary, nobody)
    if args.handover is not None:
        if args.primary is not None:
            reason = "primary says where the role is to be; a handover away from there would be undone. Remove one"
            yield Problem(("handover",), args.handover.token, reason)
        elif isinstance(args.handover.to, int) and args.handover.to > args.replicas:
            yield Problem(("handover", "to"), args.handover.to, nobody)
        elif not args.replicas:
            yield Problem(("handover",), args.handover.token, "there is nobody to hand the role over to")
    if (args.min_replicas_to_write or 0) > args.replicas:
        reason = rules.too_few_to_write(args.replicas)
        yield Problem(("minReplicasToWrite",), args.min_replicas_to_write, reason)
