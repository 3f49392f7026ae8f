"""From the properties of a `Dataset` to typed values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from valkeyctl.dataplane.sentinel.model import SENTINEL_PORT, Parameters
from valkeyctl.kube.labels import REPLICA
from valkeyctl.lifecycle.props import Place, Props, place_of, settings_of

Reference = Mapping[str, str | None]
ANY = "any"


@dataclass(frozen=True)
class Handover:
    """A wish for one handover: to an ordinal, or with None to the best replica. `token` tells it from the last one."""

    to: int | None
    token: str


@dataclass(frozen=True)
class Watch:
    """The Sentinels that watch the dataset, and what is declared to them. See `Dataset` for each field."""

    name: str
    set_name: str | None
    namespace: str
    hosts: tuple[str, ...]
    replicas: int
    quorum: int
    parameters: Parameters = field(default_factory=Parameters)
    port: int = SENTINEL_PORT
    ids: Mapping[int, str] = field(default_factory=dict[int, str])
    credentials: Reference | None = None
    monitor_as: Reference | None = None
    any_quorum: bool = False
    own: bool = True


@dataclass(frozen=True)
class DatasetDeclaration:
    """What a `Dataset` declares. See there for each field.

    `former`: what the resource declared before, as far as something has to be put right for it: the Sentinels that are
    to forget this dataset, when it isn't watched by them any more.
    """

    place: Place
    architecture: str
    replicas: int
    port: int = 6379
    tls: Mapping[str, Any] | None = None
    credentials: Reference | None = None
    timeout_s: float = 600.0
    allow_data_loss: bool = False
    persistent: bool = False
    heal: bool = True
    live_settings: Mapping[str, str] = field(default_factory=dict[str, str])
    version: str = ""
    primary: int | None = None
    handover: Handover | None = None
    automatic_failover_s: int | None = None
    watch: Watch | None = None
    former_watch: Watch | None = None
    paused: bool = False


def declaration_of(props: Props, olds: Props | None = None) -> DatasetDeclaration:
    """The declaration that properties hold; `olds` are the former outputs."""
    place = place_of(props)
    watch = _watch(props, place)
    former = _watch(olds, place_of(olds)) if olds else None
    wish = props.get("primary_ordinal")
    lease_s = props.get("automatic_failover_s")
    return DatasetDeclaration(
        place=place,
        architecture=str(props.get("architecture") or REPLICA),
        replicas=int(props["replicas"]),
        port=int(props.get("port") or 6379),
        tls=props.get("tls"),
        credentials=props.get("credentials"),
        timeout_s=float(props.get("timeout_s") or 600),
        allow_data_loss=bool(props.get("allow_data_loss")),
        persistent=bool(props.get("persistent")),
        heal=props.get("heal") is not False,
        live_settings=settings_of(props.get("settings")),
        version=str(props.get("version") or ""),
        primary=None if wish is None else int(wish),
        handover=handover_of(props),
        automatic_failover_s=None if not lease_s else int(lease_s),
        watch=watch,
        former_watch=None if former is None or _same_set(former, watch) else former,
        paused=bool(props.get("paused")),
    )


def handover_of(props: Props) -> Handover | None:
    """The handover that is declared. Numbers come as floats, so `to` may be "1", 1 or 1.0."""
    told: Mapping[str, Any] = props.get("handover") or {}
    if not told.get("token"):
        return None
    to = told.get("to", ANY)
    return Handover(None if to in (None, ANY) else int(float(to)), str(told["token"]))


def _same_set(former: Watch, now: Watch | None) -> bool:
    return now is not None and (former.name, former.set_name, former.namespace) == (
        now.name,
        now.set_name,
        now.namespace,
    )


def _watch(props: Props, place: Place) -> Watch | None:
    told: Mapping[str, Any] | None = props.get("sentinel")
    if not told:
        return None
    standard = Parameters()
    return Watch(
        name=str(told["name"]),
        set_name=told.get("set") or None,
        namespace=str(told.get("namespace") or place.namespace),
        hosts=tuple(str(host) for host in told.get("hosts") or ()),
        replicas=int(told["replicas"]),
        quorum=int(told["quorum"]),
        parameters=Parameters(
            down_after_ms=int(told.get("down_after_ms") or standard.down_after_ms),
            failover_timeout_ms=int(told.get("failover_timeout_ms") or standard.failover_timeout_ms),
            parallel_syncs=int(told.get("parallel_syncs") or standard.parallel_syncs),
        ),
        port=int(told.get("port") or SENTINEL_PORT),
        ids={int(ordinal): str(one) for ordinal, one in (told.get("ids") or {}).items()},
        credentials=told.get("credentials"),
        monitor_as=told.get("monitor_as"),
        any_quorum=bool(told.get("any_quorum")),
        own=told.get("own") is not False,
    )
