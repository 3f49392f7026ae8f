"""Rules about an instance's arguments that concern several of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from valkeyctl.dataplane import SlotSet
from valkeyctl.dataplane.slots import uncovered

from . import server_config
from .memory import SHARE_IN_MEMORY, SHARE_PERSISTENT
from .names import Names
from .problems import Problem
from .quantity import memory_bytes, quantity, size_bytes
from .versions import settings_of, version_of

if TYPE_CHECKING:
    from .args import ClusterSettings, Resources

#: Below this, nodes that are merely busy are taken for dead; above the other, a dead one goes unnoticed for minutes.
NODE_TIMEOUT_MS = (1000, 120_000)


def problems(args: ClusterSettings) -> Iterator[Problem]:
    """Everything that is wrong with the arguments together, each with the path of the one to change."""
    if args.image is not None and args.version is not None:
        yield Problem(("version",), args.version, "image says which version is run; remove one of the two")
    if args.shards < 3 and not args.allow_few_shards:
        reason = "a cluster of fewer than 3 shards can't fail over; set allowFewShards: true to have it for development"
        yield Problem(("shards",), args.shards, reason)
    if args.paused and args.persistence is None:
        reason = "its data is in the memory of its Pods and would go with them; only an instance with persistence rests"
        yield Problem(("paused",), args.paused, f"{reason}. Remove paused, or make a new instance with persistence")
    yield from _slots(args)
    yield from _primaries(args)
    yield from _config(args)


def secret_problem(instance: str, args: ClusterSettings) -> Iterator[Problem]:
    """A Secret of the user's that is called as the generated one would be removed with that."""
    own = args.auth.password_secret
    if own is not None and own.name == Names(instance).secret:
        reason = f"{own.name} is the name of the Secret that would be generated; call yours otherwise"
        yield Problem(("auth", "passwordSecret", "name"), own.name, reason)


def resources_problems(resources: Resources) -> Iterator[Problem]:
    """Requests that exceed the limits, and limits in which what runs doesn't live."""
    for name in ("cpu", "memory"):
        request, limit = getattr(resources.requests, name), getattr(resources.limits, name)
        if request and limit and quantity(request) > quantity(limit):
            yield Problem(("requests", name), request, f"more than the limit, {limit}")
    limit = resources.limits.memory
    if limit and size_bytes(limit) < size_bytes(resources.least_memory):
        yield Problem(("limits", "memory"), limit, f"{resources.runs} needs at least {resources.least_memory}")


def _slots(args: ClusterSettings) -> Iterator[Problem]:
    if args.slots is None:
        return
    for shard in sorted(set(args.slots) - set(range(args.shards))):
        reason = f"there is no such shard: {args.shards} shards are 0 to {args.shards - 1}"
        yield Problem(("slots", str(shard)), args.slots[shard], reason)
    missing = [str(shard) for shard in range(args.shards) if shard not in args.slots]
    if missing:
        where = f"shard {missing[0]}" if len(missing) == 1 else f"shards {', '.join(missing)}"
        yield Problem(("slots",), dict(args.slots), f"says nothing of {where}")
    elif len(args.slots) == args.shards:
        problem = uncovered(tuple(SlotSet.parse(args.slots[shard]) for shard in range(args.shards)))
        if problem:
            yield Problem(("slots",), dict(args.slots), f"every slot from 0 to 16383 is named once: {problem}")


def _primaries(args: ClusterSettings) -> Iterator[Problem]:
    for shard, ordinal in sorted(args.primaries.items()):
        if shard >= args.shards:
            reason = f"there is no such shard: {args.shards} shards are 0 to {args.shards - 1}"
            yield Problem(("primaries", str(shard)), ordinal, reason)
        elif ordinal > args.replicas:
            last = f"0 to {args.replicas}" if args.replicas else "just 0"
            yield Problem(("primaries", str(shard)), ordinal, f"there is no such member: the ordinals are {last}")


def _config(args: ClusterSettings) -> Iterator[Problem]:
    version = version_of(args.server_image)
    server = f"Valkey {version[0]}.{version[1]}" if version else "Valkey"
    config = {name: str(value) for name, value in args.config.items()}
    wrong: set[str | int] = set()
    for problem in server_config.check(config, settings_of(args.server_image), server):
        wrong |= set(problem.path)
        yield Problem(("config", *problem.path), problem.value, problem.reason)
    for name, reason in _config_rules(args, {k: v for k, v in config.items() if k not in wrong}):
        yield Problem(("config", name), config[name], reason)


def _config_rules(args: ClusterSettings, config: dict[str, str]) -> Iterator[tuple[str, str]]:
    if args.persistence is None:
        if config.get("appendonly", "no").lower() == "yes":
            yield "appendonly", "there is no volume to keep the file on; declare persistence"
        if config.get("save", ""):
            yield "save", "there is no volume to keep snapshots on; declare persistence"
    if int(config.get("min-replicas-to-write", 0)) > args.replicas:
        copies = "1 replica" if args.replicas == 1 else f"{args.replicas} replicas"
        yield "min-replicas-to-write", f"no write would ever be accepted: each primary has {copies}"
    if "cluster-node-timeout" in config:
        lowest, highest = NODE_TIMEOUT_MS
        if not lowest <= int(config["cluster-node-timeout"]) <= highest:
            yield "cluster-node-timeout", f"must be {lowest} to {highest} milliseconds"
    if "maxmemory" in config:
        reason = _maxmemory(args, memory_bytes(config["maxmemory"]))
        if reason:
            yield "maxmemory", reason


def _maxmemory(args: ClusterSettings, value: int) -> str:
    limit = args.resources.limits.memory
    if limit is None or 0 < value < size_bytes(limit):
        return ""
    share = SHARE_IN_MEMORY if args.persistence is None else SHARE_PERSISTENT
    what = "must be below the memory limit" if value else "0 means no bound, which ends in an out-of-memory kill"
    return f"{what}; the limit is {limit}, and without a word maxmemory is {share} % of it"
