"""From the properties of a `Dataset` to typed values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from valkeyctl.kube.labels import REPLICA
from valkeyctl.kube.watched import Members, Reference, Watch, watch_of
from valkeyctl.lifecycle.props import Place, Props, place_of, settings_of

ANY = "any"


@dataclass(frozen=True)
class Handover:
    """A wish for one handover: to an ordinal, or with None to the best replica. `token` tells it from the last one."""

    to: int | None
    token: str


@dataclass(frozen=True)
class DatasetDeclaration:
    """What a `Dataset` declares. See there for each field.

    `former_watch`: the Sentinels that watched it before and are to forget it, when they don't watch it any more.
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

    @property
    def members(self) -> Members:
        """The declared members."""
        return Members(self.place.namespace, self.place.instance, self.replicas, self.port)


def declaration_of(props: Props, olds: Props | None = None) -> DatasetDeclaration:
    """The declaration that properties hold; `olds` are the former outputs."""
    place = place_of(props)
    watch = watch_of(props.get("sentinel"), place.namespace)
    former = watch_of(olds.get("sentinel"), place_of(olds).namespace) if olds else None
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
        former_watch=None if former is None or former.is_same_set(watch) else former,
        paused=bool(props.get("paused")),
    )


def handover_of(props: Props) -> Handover | None:
    """The handover that is declared. Numbers come as floats, so `to` may be "1", 1 or 1.0."""
    told: Mapping[str, Any] = props.get("handover") or {}
    if not told.get("token"):
        return None
    to = told.get("to", ANY)
    return Handover(None if to in (None, ANY) else int(float(to)), str(told["token"]))
