"""Topology: makes Valkey itself what the program declares, and returns only when it is."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import dynamic

from valkeyctl.dataplane.slots import EMPTY
from valkeyctl.lifecycle.changes import DECLARED_KEYS, ROLLING_KEYS, planned_inputs
from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.engine import engine
from valkeyctl.lifecycle.moves import planned_moves, told_moves, told_strays
from valkeyctl.lifecycle.props import changed, declaration_of, is_unknown, place_of
from valkeyctl.lifecycle.provider import Props, Provider

if TYPE_CHECKING:
    from valkeyctl.dataplane import SlotSet
    from valkeyctl.lifecycle.look import Seen


class TopologyProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""

    def check_it(self, olds: Props, news: Props) -> Props:
        """Fills in the planned layout, so that preview shows it, and refuses what cannot be done safely."""
        from valkeyctl.dataplane.errors import ValkeyctlError  # noqa: PLC0415
        from valkeyctl.kube.status import read_status  # noqa: PLC0415
        from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

        live = None
        place = place_of(news)
        if not olds.get("layout") and not is_unknown([place.namespace, place.context, place.kubeconfig]):
            # That an unreachable API server ends the preview is for Prepare to say, once.
            with contextlib.suppress(ValkeyctlError):
                live = read_status(api_of(place), place.namespace, place.instance)
        return planned_inputs(olds, news, live)

    def diff_it(self, olds: Props, news: Props) -> dynamic.DiffResult:
        """Compares what is declared, then looks at Valkey itself, which may be in another state all the same."""
        replaces = changed(olds, news, ("namespace", "instance"))
        if replaces or is_unknown([news.get(key) for key in DECLARED_KEYS]):
            return dynamic.DiffResult(changes=True, replaces=replaces)
        declared = changed(olds, news, DECLARED_KEYS)
        before, planned, formed = _as_planned(olds), _as_planned(news), _was_ready(olds)
        moving = planned_moves(before, news) if declared else EMPTY
        if changed(olds, news, ROLLING_KEYS) or not declared:
            new_template = bool(changed(olds, news, ("workload_revision",)))
            seen = _look(planned, formed=formed, all_outdated=new_template, moving=moving)
        elif moving:
            seen = _look(planned, formed=formed, moving=moving, briefly=True)
        else:
            return dynamic.DiffResult(changes=True, replaces=replaces)
        if seen.problem:
            engine().progress(seen.problem)  # Prepare says it for good, where it matters
        if moving:
            moves = told_moves(before, news, seen.weight, done=seen.moved)
        else:
            moves = told_strays(seen.weight) if seen.weight is not None else ""
        # Of what is about to change, what Valkey lacks now tells nothing.
        for line in (*((moves,) if moves else ()), *(() if declared else seen.todo), *seen.rolling):
            engine().info(f"to do: {line}")
        if not seen.told_to_agents and not seen.problem and not declared:
            engine().info("to do: tell the Pods' agents what is declared")
        return dynamic.DiffResult(changes=bool(declared) or not (seen.right and seen.told_to_agents), replaces=replaces)

    def create_it(self, props: Props) -> dynamic.CreateResult:
        """Forms the cluster; one that is right already is adopted as it is, a half made one completed."""
        return dynamic.CreateResult(f"{props['namespace']}/{props['instance']}", _converged(props))

    def read_it(self, id_: str, props: Props) -> dynamic.ReadResult:
        """What Valkey says of itself; phase Unreachable where nobody can be asked, under the same id."""
        planned = _as_planned(props)
        seen = _look(planned, formed=_was_ready(props))
        kept = {_PLANNED: planned["layout"]} if _was_ready(props) else {}
        return dynamic.ReadResult(id_, {**props, **kept, **seen.outputs})

    def update_it(self, olds: Props, news: Props) -> Props:
        """As create, with what was last known where nothing new is told."""
        return {**{key: olds[key] for key in _KEPT if key in olds}, **_converged(news, formed=_was_ready(olds))}

    def delete_it(self, props: Props) -> None:
        """Says that the whole instance goes. Needs the API server, and not Valkey."""
        from valkeyctl.kube.status import mark_destroying  # noqa: PLC0415
        from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

        place = place_of(props)
        mark_destroying(api_of(place), place.namespace, place.instance, place.owner)


#: Outputs that an update keeps where it has nothing to say of them.
_KEPT = ("server_version",)


#: Output that keeps the planned layout, where the output `layout` tells the real one.
_PLANNED = "planned_layout"


def _as_planned(props: Props) -> Props:
    """Outputs as they were declared: in them `layout` is what Valkey has. A refresh compares outputs, too."""
    return {**props, "layout": props.get(_PLANNED) or props.get("layout")}


def _was_ready(outputs: Props) -> bool:
    """Whether the instance was Ready once, by this state: only then is the planned layout among its outputs."""
    return bool(outputs.get(_PLANNED))


def _look(
    planned: Props,
    *,
    formed: bool,
    all_outdated: bool = False,
    moving: SlotSet | None = None,
    briefly: bool = False,
) -> Seen:
    from valkeyctl.lifecycle.look import look, look_briefly  # noqa: PLC0415
    from valkeyctl.lifecycle.paused import look_paused  # noqa: PLC0415

    declaration = declaration_of(planned)
    if declaration.paused:
        return look_paused(declaration, formed=formed)
    if briefly and moving:
        return look_briefly(declaration, formed=formed, moving=moving)
    return look(declaration, formed=formed, all_outdated=all_outdated, moving=moving)


def _converged(props: Props, *, formed: bool = False) -> Props:
    from valkeyctl.lifecycle.paused import run_paused  # noqa: PLC0415
    from valkeyctl.lifecycle.run import run  # noqa: PLC0415

    declaration = declaration_of(props)
    if declaration.paused:
        resting = run_paused(declaration, engine(), engine().progress, formed=formed)
        # One that was made paused has nothing that a later `up` would have to find again.
        return {**props, **({_PLANNED: props["layout"]} if resting.formed else {}), **resting.outputs}
    found = run(declaration, engine(), engine().progress, formed=formed)
    return {**props, _PLANNED: props["layout"], **found}


class Topology(dynamic.Resource, module="valkey", name="Topology"):
    """One permanent resource an instance; depends on all its StatefulSets and guards."""

    phase: pulumi.Output[str]
    conditions: pulumi.Output[list[dict[str, str]]]
    endpoints: pulumi.Output[dict[str, Any]]
    layout: pulumi.Output[dict[str, str]]
    primaries: pulumi.Output[dict[str, str]]
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
        shards: pulumi.Input[int],
        replicas: pulumi.Input[int],
        slots: Mapping[str, str] | None = None,
        port: pulumi.Input[int] = 6379,
        tls: Mapping[str, Any] | None = None,
        credentials: Mapping[str, pulumi.Input[str] | None] | None = None,
        timeout_s: pulumi.Input[float] = 600,
        allow_data_loss: pulumi.Input[bool] = False,
        node_timeout_ms: pulumi.Input[int] | None = None,
        persistent: pulumi.Input[bool] = False,
        takeover_after_s: pulumi.Input[float] | None = None,
        heal: pulumi.Input[bool] = True,
        migration: Mapping[str, pulumi.Input[Any]] | None = None,
        settings: Mapping[str, Mapping[str, str]] | None = None,
        workload_revision: pulumi.Input[str] = "",
        version: pulumi.Input[str] | None = None,
        primary_ordinals: Mapping[str, int] | None = None,
        spread_primaries: pulumi.Input[bool] | None = None,
        prefer_ordinal_zero: pulumi.Input[bool] | None = None,
        parallel_shards: pulumi.Input[int] = 1,
        paused: pulumi.Input[bool] = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`slots`: an explicit layout by shard number, `{"0": "0-5460", …}`, covering 0..16383 once; None lets the
        fewest slots move. `workload_revision`: any string that changes when the Pod templates do. `timeout_s`: deadline
        of one `up` for this instance; Pulumi's custom timeouts do not reach a dynamic provider. `allow_data_loss`: a
        person's consent to give the slots of a shard whose every copy is gone to empty servers. `node_timeout_ms`: the
        `cluster-node-timeout` that the servers are configured with; with it, a new cluster serves as soon as it is
        formed (docs/adr/0012), and a value that differs on a running server is set back. `persistent`: the Pods have
        volumes, so that empty disks on all of them are a loss of data. `takeover_after_s`: when a majority of the
        primaries is gone, or silent for so long, the best copies take over without an election; None: never.
        `heal`: whether the Pods' agents bring the instance back to what is declared between two runs.
        `migration`: how slots are moved, `{"max_parallel": …, "method": "auto" | "atomic" | "keys", "pipeline": …}`.
        `settings`: the server's settings as previews show them, `{"live": {name: value}, "restart": …}`; the live ones,
        which the Pods' agents apply, are verified on every member at the end. No secret may be among them.
        `version`: the server's, "9.1.2"; None where the image tells none. `primary_ordinals`: the members that are
        to have their shards' primary roles, shard → ordinal, `{"0": 1}`; others stay where they are.
        `spread_primaries`: of those others, roles move so that no zone and no node has more primaries than it must, and
        with `prefer_ordinal_zero` to the ordinal 0 where the spread is as good; without the former, that does nothing.
        `parallel_shards`: in how many shards at a time Pods of a former template are replaced. `paused`: no Pod is to
        run; it returns when the last one has gone, and shards, replicas, slots and version stay as they were.
        """
        props: dict[str, Any] = {
            **connection.props(),
            "owner": owner,
            "namespace": namespace,
            "instance": instance,
            "shards": shards,
            "replicas": replicas,
            "slots": dict(slots) if slots is not None else None,
            "port": port,
            "tls": dict(tls) if tls is not None else None,
            "credentials": dict(credentials) if credentials is not None else None,
            "timeout_s": timeout_s,
            "allow_data_loss": allow_data_loss,
            "node_timeout_ms": node_timeout_ms,
            "persistent": persistent,
            "takeover_after_s": takeover_after_s,
            "heal": heal,
            "migration": dict(migration) if migration is not None else None,
            "settings": {how: dict(values) for how, values in settings.items()} if settings is not None else None,
            "workload_revision": workload_revision,
            "version": version,
            "primary_ordinals": dict(primary_ordinals) if primary_ordinals is not None else None,
            "spread_primaries": spread_primaries,
            "prefer_ordinal_zero": prefer_ordinal_zero,
            "parallel_shards": parallel_shards,
            "paused": paused,
            # Outputs: named here so that the resource has attributes for them; `check` fills the layout.
            "layout": None,
            "phase": None,
            "conditions": None,
            "endpoints": None,
            "primaries": None,
            "server_version": None,
            "secret_name": None,
        }
        super().__init__(TopologyProvider(), name, props, options(opts))
