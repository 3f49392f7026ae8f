"""Dataset: makes one dataset (a primary and its replicas), and the Sentinels that watch it, what is declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.engine import engine
from valkeyctl.lifecycle.props import changed, is_unknown
from valkeyctl.lifecycle.provider import Props, Provider

if TYPE_CHECKING:
    from valkeyctl.lifecycle.datasets.look import Seen

#: What a change of is an update that has something to do.
DECLARED_KEYS = (
    "owner",
    "namespace",
    "instance",
    "architecture",
    "replicas",
    "port",
    "tls",
    "credentials",
    "timeout_s",
    "allow_data_loss",
    "persistent",
    "heal",
    "settings",
    "workload_revision",
    "version",
    "primary_ordinal",
    "handover",
    "automatic_failover_s",
    "sentinel",
    "paused",
    "context",
    "kubeconfig",
    "transport",
)
#: Of these, those whose change moves the role or replaces Pods: a preview looks at the servers to tell which.
ROLLING_KEYS = ("architecture", "replicas", "workload_revision", "primary_ordinal", "handover")
#: Outputs that an update keeps where it has nothing to say of them.
_KEPT = ("server_version", "primary")
#: Output that says that the instance was Ready once: the status, which says it too, may be deleted.
_FORMED = "formed"


class DatasetProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""

    def check_it(self, olds: Props, news: Props) -> Props:
        """Refuses what cannot be done safely, already at preview."""
        from valkeyctl.lifecycle.datasets.changes import refuse_unsafe  # noqa: PLC0415

        refuse_unsafe(olds, news)
        return news

    def diff_it(self, olds: Props, news: Props) -> dynamic.DiffResult:
        """Compares what is declared, then looks at the servers themselves, which may be in another state all the same.

        Another architecture of the same kind is no replacement: `replica` and `failover` become each other in place.
        """
        replaces = changed(olds, news, ("namespace", "instance"))
        if replaces or is_unknown([news.get(key) for key in DECLARED_KEYS]):
            return dynamic.DiffResult(changes=True, replaces=replaces)
        declared = changed(olds, news, DECLARED_KEYS)
        if declared and not changed(olds, news, ROLLING_KEYS):
            return dynamic.DiffResult(changes=True, replaces=replaces)
        new_template = bool(changed(olds, news, ("workload_revision", "architecture")))
        seen = _look(olds, news, all_outdated=new_template)
        if seen.problem:
            engine().progress(seen.problem)  # Prepare says it for good, where it matters
        # Of what is about to change, what the servers lack now tells nothing.
        for line in (*(() if declared else seen.todo), *seen.rolling):
            engine().info(f"to do: {line}")
        if not seen.told_to_agents and not seen.problem and not declared:
            engine().info("to do: tell the Pods' agents what is declared")
        return dynamic.DiffResult(changes=bool(declared) or not (seen.right and seen.told_to_agents), replaces=replaces)

    def create_it(self, props: Props) -> dynamic.CreateResult:
        """Forms the dataset; one that is right already is adopted as it is, a half made one completed."""
        return dynamic.CreateResult(f"{props['namespace']}/{props['instance']}", _brought_about({}, props))

    def read_it(self, id_: str, props: Props) -> dynamic.ReadResult:
        """What the servers say of themselves; phase Unreachable where nobody can be asked, under the same id."""
        return dynamic.ReadResult(id_, {**props, **_look(props, props).outputs})

    def update_it(self, olds: Props, news: Props) -> Props:
        """As create, with what was last known where nothing new is told."""
        return {**{key: olds[key] for key in _KEPT if key in olds}, **_brought_about(olds, news)}

    def delete_it(self, props: Props) -> None:
        """Says that the whole instance goes, and has Sentinels that stay forget it.

        Needs the API server, and not the servers: Sentinels that can't be reached are named in a warning.
        """
        from valkeyctl.lifecycle.datasets.farewell import take_leave  # noqa: PLC0415

        take_leave(props, engine())


def _was_ready(outputs: Props) -> bool:
    return bool(outputs.get(_FORMED))


def _look(olds: Props, news: Props, *, all_outdated: bool = False) -> Seen:
    from valkeyctl.lifecycle.datasets.declaration import declaration_of  # noqa: PLC0415
    from valkeyctl.lifecycle.datasets.look import look  # noqa: PLC0415
    from valkeyctl.lifecycle.datasets.paused import look_paused  # noqa: PLC0415

    declaration = declaration_of(news, olds)
    if declaration.paused:
        return look_paused(declaration, formed=_was_ready(olds))
    return look(declaration, formed=_was_ready(olds), all_outdated=all_outdated)


def _brought_about(olds: Props, news: Props) -> Props:
    from valkeyctl.lifecycle.datasets.declaration import declaration_of  # noqa: PLC0415
    from valkeyctl.lifecycle.datasets.paused import run_paused  # noqa: PLC0415
    from valkeyctl.lifecycle.datasets.run import run  # noqa: PLC0415

    declaration = declaration_of(news, olds)
    bring_about = run_paused if declaration.paused else run
    return {**news, **bring_about(declaration, engine(), engine().progress, formed=_was_ready(olds))}


class Dataset(dynamic.Resource, module="valkey", name="Dataset"):
    """One permanent resource an instance of the architectures `replica` and `failover`; depends on its StatefulSet, and
    with Sentinels of its own on their `Sentinels`.
    """

    phase: pulumi.Output[str]
    conditions: pulumi.Output[list[dict[str, str]]]
    endpoints: pulumi.Output[dict[str, Any]]
    primary: pulumi.Output[str]
    server_version: pulumi.Output[str]
    secret_name: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        connection: Connection,
        owner: pulumi.Input[str],
        namespace: pulumi.Input[str],
        instance: pulumi.Input[str],
        architecture: str,
        replicas: pulumi.Input[int],
        port: pulumi.Input[int] = 6379,
        tls: Mapping[str, Any] | None = None,
        credentials: Mapping[str, pulumi.Input[str] | None] | None = None,
        timeout_s: pulumi.Input[float] = 600,
        allow_data_loss: pulumi.Input[bool] = False,
        persistent: pulumi.Input[bool] = False,
        heal: pulumi.Input[bool] = True,
        settings: Mapping[str, Mapping[str, str]] | None = None,
        workload_revision: pulumi.Input[str] = "",
        version: pulumi.Input[str] | None = None,
        primary_ordinal: pulumi.Input[int] | None = None,
        handover: Mapping[str, pulumi.Input[Any]] | None = None,
        automatic_failover_s: pulumi.Input[int] | None = None,
        sentinel: Mapping[str, Any] | None = None,
        paused: pulumi.Input[bool] = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`architecture`: "replica" or "failover". `timeout_s`: deadline of one `up` for this instance; Pulumi's custom
        timeouts do not reach a dynamic provider. `allow_data_loss`: a person's consent to go on with less data than
        there may be elsewhere. `persistent`: the Pods have volumes. `heal`, `settings`, `workload_revision`, `version`
        and `paused` as for `Topology`.

        `primary_ordinal`: the member that is to be the primary; None leaves the role wherever it is. `handover`:
        `{"to": "1" | "any", "token": …}`: the role is handed over once, as soon as another token is declared than
        before; not beside `primary_ordinal`. `automatic_failover_s`: with `replica`, the duration of the Lease by which
        the agents fail over; None: they don't.

        `sentinel`, with `failover` only: `{"name": the monitored name, "set": the Sentinels' StatefulSet, "namespace":
        where that is (None: the instance's), "hosts": ["<host>:<port>", …] as members dial them, "replicas", "quorum",
        "down_after_ms", "failover_timeout_ms", "parallel_syncs", "port": 26379, "ids": {"0": <40 hex digits>} or None,
        "credentials": {"user", "secretName", "key"} to sign in at the Sentinels, "monitor_as": the same for the
        Sentinels to sign in at the servers with (None: as `credentials` of the instance), "any_quorum": a quorum of
        less than a majority is meant, "own": the set belongs to this instance}`. Where `set` is None the Sentinels are
        reached by `hosts` alone. Secrets are of the instance's namespace.
        """
        props: dict[str, Any] = {
            **connection.props(),
            "owner": owner,
            "namespace": namespace,
            "instance": instance,
            "architecture": architecture,
            "replicas": replicas,
            "port": port,
            "tls": dict(tls) if tls is not None else None,
            "credentials": dict(credentials) if credentials is not None else None,
            "timeout_s": timeout_s,
            "allow_data_loss": allow_data_loss,
            "persistent": persistent,
            "heal": heal,
            "settings": {how: dict(values) for how, values in settings.items()} if settings is not None else None,
            "workload_revision": workload_revision,
            "version": version,
            "primary_ordinal": primary_ordinal,
            "handover": dict(handover) if handover is not None else None,
            "automatic_failover_s": automatic_failover_s,
            "sentinel": dict(sentinel) if sentinel is not None else None,
            "paused": paused,
            # Outputs: named here so that the resource has attributes for them.
            "formed": None,
            "phase": None,
            "conditions": None,
            "endpoints": None,
            "primary": None,
            "server_version": None,
            "secret_name": None,
        }
        super().__init__(DatasetProvider(), name, props, options(opts))
