"""What `check` decides of a topology, before anything is written: the planned layout, and what this version cannot do.

Pure: the old inputs, the new ones, and what the status ConfigMap last told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from valkeyctl.dataplane import Layout, describe_layout, planned_layout
from valkeyctl.dataplane.errors import InvalidSlots, ValkeyctlError
from valkeyctl.lifecycle.downgrade import numbers_of
from valkeyctl.lifecycle.props import Props, is_unknown, layout_of

if TYPE_CHECKING:
    from valkeyctl.kube.status import InstanceStatus

#: What a change of is an update that has something to do.
DECLARED_KEYS = (
    "owner",
    "namespace",
    "instance",
    "shards",
    "replicas",
    "slots",
    "port",
    "tls",
    "credentials",
    "timeout_s",
    "allow_data_loss",
    "node_timeout_ms",
    "persistent",
    "takeover_after_s",
    "migration",
    "heal",
    "settings",
    "workload_revision",
    "version",
    "primary_ordinals",
    "spread_primaries",
    "prefer_ordinal_zero",
    "parallel_shards",
    "paused",
    "context",
    "kubeconfig",
    "transport",
)

#: Of these, those whose change moves roles or replaces Pods: a preview looks at Valkey to tell which.
ROLLING_KEYS = ("workload_revision", "primary_ordinals", "spread_primaries", "prefer_ordinal_zero")


class ChangeRefused(ValkeyctlError):  # noqa: N818 - reads as what happened
    """The program declares a change that this version cannot carry out safely."""


def planned_inputs(olds: Props, news: Props, live: InstanceStatus | None) -> dict[str, Any]:
    """The new inputs with their planned `layout`, `{"s0": "0-5460"}`; unknown shards leave it unknown.

    Errors: ChangeRefused, InvalidSlots.
    """
    inputs = dict(news)
    if is_unknown(news.get("shards")) or is_unknown(news.get("slots")):
        return inputs
    shards, slots = int(news["shards"]), news.get("slots")
    explicit = layout_of(slots) if slots else None
    if explicit is not None and len(explicit) != shards:
        raise InvalidSlots(
            f"{len(explicit)} shards have slots where {shards} are declared",
            where="slots",
            remedy="Give each shard its slots, or leave `slots` out.",
        )
    previous = standing(olds, live)
    layout = planned_layout(shards, previous, explicit)
    _refuse_lost_copies(olds, news)
    inputs["layout"] = describe_layout(layout)
    _refuse_beside_a_pause(olds, inputs)
    return inputs


def standing(olds: Props, live: InstanceStatus | None) -> Layout | None:
    """The layout that the instance has now, as far as anybody knows; None where it is new.

    Old inputs come first: they are what the last `up` that succeeded declared. Without them (a first `up`, a lost
    state) the status tells, once all slots are assigned.
    """
    if olds.get("layout") and not is_unknown(olds.get("layout")):
        return layout_of(olds["layout"])
    if live is not None and live.formed and not live.destroying and live.layout:
        try:
            return layout_of(live.layout)
        except InvalidSlots:
            return None  # Slots are missing at the moment; who has the rest is found out by looking.
    return None


def _refuse_lost_copies(olds: Props, news: Props) -> None:
    """Refuses to replace Pods that have the only copy of their shard's data, in memory, unless a person consents."""
    before, after = olds.get("workload_revision"), news.get("workload_revision")
    if not before or before == after or news.get("persistent") or news.get("allow_data_loss"):
        return
    if is_unknown(news.get("replicas")) or int(news.get("replicas") or 0) > 0:
        return
    raise ChangeRefused(
        "the change replaces all Pods, and without replicas and without volumes each has the only copy of its shard's "
        "data: all of it would be gone",
        where="replicas",
        remedy="Declare `replicas: 1` first, which takes copies, or set `allowDataLoss: true` for this `pulumi up`.",
    )


def _refuse_beside_a_pause(olds: Props, inputs: Props) -> None:
    """Refuses what takes running servers while an instance is paused, and in the `up` that pauses or resumes it.

    Slots and keys can't be moved then, nor copies taken; and were the servers' version to change, all of them would
    start with the other one at once, and none could be gone back to. All else takes effect when the Pods come back.
    """
    if not olds or not (olds.get("paused") or inputs.get("paused")):
        return
    change = next(_changes_of_shape(olds, inputs), None)
    if change is None:
        return
    where, how = change
    before, after = bool(olds.get("paused")), bool(inputs.get("paused"))
    when = (
        "while the instance is paused"
        if before and after
        else "with the `up` that " + ("pauses the instance" if after else "ends the pause")
    )
    raise ChangeRefused(
        f"{how} {when}: that takes servers that run",
        where=where,
        remedy="Unpause it first: put this back, declare `paused: false`, and change it when that `pulumi up` is over."
        if before
        else "Change it first, and pause with the `pulumi up` after that.",
    )


def _changes_of_shape(olds: Props, inputs: Props) -> Iterator[tuple[str, str]]:
    """What has changed of shards, replicas, slots, and the line of the server's version: path, and in words."""
    for key in ("shards", "replicas"):
        before, after = olds.get(key), inputs.get(key)
        if not is_unknown([before, after]) and before is not None and int(before) != int(after or 0):
            yield key, f"`{key}` changes from {int(before)} to {int(after or 0)}"
    if olds.get("layout") and not is_unknown(olds["layout"]) and olds["layout"] != inputs["layout"]:
        yield "slots", "slots change their shards"
    lines = [numbers_of(str(props.get("version") or "")) for props in (olds, inputs)]
    if not is_unknown([olds.get("version"), inputs.get("version")]) and None not in lines and lines[0] != lines[1]:
        yield "version", f"the version changes from {olds['version']} to {inputs['version']}"


def refuse_move(olds: Props, news: Props) -> None:
    """Refuses another namespace for an instance that is there: nothing moves, an empty one would take its place.

    Errors: ChangeRefused.
    """
    before, after = olds.get("namespace"), news.get("namespace")
    if not before or not after or is_unknown([before, after]) or before == after:
        return
    raise ChangeRefused(
        f"the instance is in the namespace {before}, and {after} is declared: it would be deleted there with its data, "
        "and an empty one made here",
        where="kubernetes.namespace",
        remedy="Put it back as it was. To have it elsewhere, make a new stack with the other namespace and copy the "
        "data; or `pulumi destroy` this one first, if nothing of it is wanted.",
    )


def refuse_storage_change(olds: Props, news: Props) -> None:
    """Refuses what a StatefulSet and its claims can't follow: storage that comes, goes, shrinks or changes its class.

    `storage` is None, or `{"size": "1Gi", "bytes": 1073741824, "storageClassName": …}`. Size may grow, in place.
    Errors: ChangeRefused.
    """
    if "storage" not in olds or is_unknown(olds["storage"]) or is_unknown(news.get("storage")):
        return
    before, after = olds["storage"], news.get("storage")
    if (before is None) != (after is None):
        change = "with storage is declared without" if after is None else "without storage is declared with it"
        loss = ": its servers would start again without their data" if after is None else ""
        raise ChangeRefused(
            f"an instance {change}{loss}",
            where="persistence",
            remedy="Put it back as it was. To change it, make a new instance and copy the data.",
        )
    if before is None or after is None:
        return
    if int(after["bytes"]) < int(before["bytes"]):
        raise ChangeRefused(
            f"{after['size']} is declared where the volumes have {before['size']}: volumes can only grow",
            where="persistence.size",
            remedy=f"Declare {before['size']} or more. To shrink, make a new instance and copy the data.",
        )
    if after.get("storageClassName") != before.get("storageClassName"):
        raise ChangeRefused(
            f"the class {after.get('storageClassName') or 'by default'} is declared where the volumes are of the class "
            f"{before.get('storageClassName') or 'by default'}, which is fixed at creation",
            where="persistence.storageClassName",
            remedy="Put it back as it was. To change it, make a new instance and copy the data.",
        )


def owners(olds: Props, news: Props, limit: int = 8) -> list[str]:
    """The owner declared now and those before it, newest first: a stack that was renamed still owns its objects."""
    former: Mapping[str, None] = dict.fromkeys(
        str(owner)
        for owner in (
            *(news.get("former_owners") or []),
            olds.get("owner"),
            *(olds.get("former_owners") or []),
        )
        if owner and owner != news.get("owner") and not is_unknown(owner)
    )
    return [str(news.get("owner") or ""), *list(former)[:limit]]
