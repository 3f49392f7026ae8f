"""From the properties of a dynamic resource to typed values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulumi.runtime import rpc

from valkeyctl.dataplane import Layout, Migration, parse_layout
from valkeyctl.dataplane.errors import InvalidSlots

Props = Mapping[str, Any]


def is_unknown(value: object) -> bool:
    """Whether a value, or anything in it, is not known yet at preview."""
    if isinstance(value, Mapping):
        return any(is_unknown(v) for v in value.values())  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return any(is_unknown(v) for v in value)  # pyright: ignore[reportUnknownVariableType]
    return isinstance(value, str) and value == rpc.UNKNOWN


def changed(olds: Props, news: Props, keys: Iterable[str]) -> list[str]:
    """Those of the declared keys whose values differ. A missing key equals None, 3.0 equals 3; unknown is a change."""
    return [key for key in keys if is_unknown(news.get(key)) or _plain(olds.get(key)) != _plain(news.get(key))]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        items: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {str(k): _plain(v) for k, v in items.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


@dataclass(frozen=True)
class Place:
    """Where an instance is, and how to get there. Its repr shows no kubeconfig."""

    namespace: str
    instance: str
    owner: str = ""
    context: str | None = None
    kubeconfig: str | None = field(default=None, repr=False)
    transport: str = "portForward"


CONNECTION_KEYS = ("context", "kubeconfig", "transport")


def place_of(props: Props) -> Place:
    """The place that the properties name."""
    return Place(
        namespace=str(props.get("namespace") or ""),
        instance=str(props.get("instance") or ""),
        owner=str(props.get("owner") or ""),
        context=props.get("context") or None,
        kubeconfig=props.get("kubeconfig") or None,
        transport=str(props.get("transport") or "portForward"),
    )


@dataclass(frozen=True)
class Declaration:
    """What a topology resource declares. `layout` is the planned one, `explicit` says that a person wrote it.

    `node_timeout_ms`: the `cluster-node-timeout` of the servers; None where the program doesn't say it.
    `persistent`: the members have volumes. `takeover_after_s`: as in the data plane's Spec; None is never.
    `heal`: the Pods' agents heal the instance between two runs.
    `migration`: how slots are moved.
    `live_settings`: what every running server is to have, as it tells it; empty where the program doesn't say it.
    `version`: the server's, as its image tells it, "" where that tells none. `primaries`: shard → the ordinal that is
    to be its primary. `spread_primaries`: the roles of all others go where no zone and no node has more of them than it
    must, and with `prefer_ordinal_zero` to the ordinal 0 where that is as good. `parallel_shards`: in how many shards
    at a time Pods are replaced. `paused`: no Pod is to run.
    """

    place: Place
    shards: int
    replicas: int
    layout: Layout
    explicit: bool
    port: int = 6379
    tls: Mapping[str, Any] | None = None
    credentials: Mapping[str, str | None] | None = None
    timeout_s: float = 600.0
    allow_data_loss: bool = False
    node_timeout_ms: int | None = None
    persistent: bool = False
    takeover_after_s: float | None = None
    heal: bool = True
    migration: Migration = field(default_factory=Migration)
    live_settings: Mapping[str, str] = field(default_factory=dict[str, str])
    version: str = ""
    primaries: Mapping[int, int] = field(default_factory=dict[int, int])
    spread_primaries: bool = False
    prefer_ordinal_zero: bool = False
    parallel_shards: int = 1
    paused: bool = False


def declaration_of(props: Props) -> Declaration:
    """The declaration that checked properties hold (their `layout` is filled in)."""
    return Declaration(
        place=place_of(props),
        shards=int(props["shards"]),
        replicas=int(props["replicas"]),
        layout=layout_of(props["layout"]),
        explicit=bool(props.get("slots")),
        port=int(props.get("port") or 6379),
        tls=props.get("tls"),
        credentials=props.get("credentials"),
        timeout_s=float(props.get("timeout_s") or 600),
        allow_data_loss=bool(props.get("allow_data_loss")),
        node_timeout_ms=int(props["node_timeout_ms"]) if props.get("node_timeout_ms") else None,
        persistent=bool(props.get("persistent")),
        takeover_after_s=float(props["takeover_after_s"]) if props.get("takeover_after_s") else None,
        heal=props.get("heal") is not False,
        migration=_migration(props.get("migration")),
        live_settings=_settings(props.get("settings")),
        version=str(props.get("version") or ""),
        primaries={int(shard): int(ordinal) for shard, ordinal in (props.get("primary_ordinals") or {}).items()},
        spread_primaries=bool(props.get("spread_primaries")),
        prefer_ordinal_zero=bool(props.get("prefer_ordinal_zero")),
        parallel_shards=int(props.get("parallel_shards") or 1),
        paused=bool(props.get("paused")),
    )


def _migration(told: Mapping[str, Any] | None) -> Migration:
    standard, told = Migration(), told or {}
    return Migration(
        max_parallel=int(told.get("max_parallel") or standard.max_parallel),
        method=told.get("method") or standard.method,
        pipeline=int(told.get("pipeline") or standard.pipeline),
    )


def _settings(settings: Mapping[str, Mapping[str, str]] | None) -> dict[str, str]:
    return {str(name): str(value) for name, value in ((settings or {}).get("live") or {}).items()}


def layout_of(named: Mapping[str, str]) -> Layout:
    """The layout of `{"0": "0-5460"}` or `{"s0": "0-5460"}`. Errors: InvalidSlots."""
    try:
        numbered = {int(str(shard).removeprefix("s")): str(slots) for shard, slots in named.items()}
    except ValueError as error:
        raise InvalidSlots(f"a layout names shards by number, got {', '.join(map(str, named))}") from error
    return parse_layout(numbered)
