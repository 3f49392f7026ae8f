"""Prepare: the first resource of an instance. It refuses, before any write, objects that belong to somebody else.

Then it makes what the Pods' agents write into and may not make: the status ConfigMap, the one that will tell them what
is declared, and the Lease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.changes import owners, refuse_move, refuse_storage_change
from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.engine import engine
from valkeyctl.lifecycle.props import CONNECTION_KEYS, changed, is_unknown, place_of
from valkeyctl.lifecycle.provider import WRITE_PATIENCE_S, Props, Provider

if TYPE_CHECKING:
    from valkeyctl.kube.access import Object
    from valkeyctl.kube.ownership import Wanted
    from valkeyctl.lifecycle.retreat import Retreating


#: What a change of is an update: the objects are looked at once more, or something is done before they are written.
_COMPARED = (
    "owner",
    "former_owners",
    "objects",
    "storage",
    "settings",
    "version",
    "replicas",
    "paused",
    *CONNECTION_KEYS,
)


class PrepareProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""

    def check_it(self, olds: Props, news: Props) -> Props:
        """Refuses, already at preview, what can't be done: moves, changes of storage, older servers, foreign objects.

        As far as names and cluster are known.
        """
        refuse_move(olds, news)
        refuse_storage_change(olds, news)
        inputs = {**news, "former_owners": owners(olds, news)[1:]}
        if not is_unknown({key: value for key, value in inputs.items() if key != "former_owners"}):
            _refuse(inputs)
            _refuse_downgrade(inputs)
        return inputs

    def diff_it(self, olds: Props, news: Props) -> dynamic.DiffResult:
        """The same namespace and instance are updated in place; others are another instance."""
        replaces = changed(olds, news, ("namespace", "instance"))
        differs = bool(changed(olds, news, _COMPARED))
        if not replaces and not is_unknown(news):
            differs |= _say_who_goes(news)
            differs |= _say_who_rests(news)
        return dynamic.DiffResult(changes=bool(replaces or differs), replaces=replaces)

    def create_it(self, props: Props) -> dynamic.CreateResult:
        """Looks once more: somebody may have been faster than this `up`. What still goes is waited for."""
        _let_go(props, _refuse(props))
        _ensure_words(props)
        _pause_or_wake(props)
        return dynamic.CreateResult(f"{props['namespace']}/{props['instance']}", dict(props))

    def update_it(self, olds: Props, news: Props) -> Props:
        """As create; and changed settings are tried on a running server before any file has them.

        Last, where members are to go, the primaries' roles move off them, and where all of them are to stop for a
        pause, everything is brought to rest: the StatefulSets, which follow, don't ask.
        """
        _let_go(news, _refuse(news))
        if changed(olds, news, ("settings",)):
            _rehearse(news)
        _ensure_words(news)
        _retreat(news)
        _pause_or_wake(news)
        return dict(news)

    def delete_it(self, props: Props) -> None:
        """The last of an instance to go: with it go its status, what was declared to its agents, and the Lease.

        And what a killed pulumi made without coming to write it down: Pulumi doesn't know of it, and would leave it.
        Claims are not touched: what they hold may be meant to stay.
        """
        from valkeyctl.kube.ownership import remove_owned  # noqa: PLC0415
        from valkeyctl.kube.status import remove_traces  # noqa: PLC0415
        from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

        place = place_of(props)
        api, ours = api_of(place), owners({}, props)
        forgotten = [one for one in _wanted(props) if one.kind != "PersistentVolumeClaim"]
        for one in remove_owned(api, place.namespace, forgotten, ours):
            engine().info(f"{one.kind} {one.name} was left by an interrupted run, and is deleted")
        remove_traces(api, place.namespace, place.instance, ours)


def _rehearse(props: Props) -> None:
    from valkeyctl.lifecycle.rehearsal import Declared, rehearse  # noqa: PLC0415

    settings: Mapping[str, Any] = props.get("settings") or {}
    if settings:
        declared = Declared(
            settings={str(name): str(value) for name, value in settings.items()},
            version=str(props.get("version") or ""),
            port=int(props.get("port") or 6379),
            credentials=props.get("credentials"),
        )
        rehearse(place_of(props), declared)


def _refuse_downgrade(props: Props) -> None:
    from valkeyctl.lifecycle.present import refuse_downgrade  # noqa: PLC0415

    refuse_downgrade(
        place_of(props),
        version=str(props.get("version") or ""),
        port=int(props.get("port") or 6379),
        credentials=props.get("credentials"),
        persistent=props.get("storage") is not None,
    )


def _say_who_goes(props: Props) -> bool:
    """Whether there are members that aren't declared any more; a line for each whose role has to move first."""
    from valkeyctl.lifecycle.retreat import roles_that_move, too_many  # noqa: PLC0415

    if props.get("replicas") is None or not too_many(place_of(props), int(props["replicas"])):
        return False
    for line in roles_that_move(place_of(props), _retreating(props)):
        engine().info(f"to do: {line}")
    return True


def _retreat(props: Props) -> None:
    from valkeyctl.lifecycle.retreat import retreat, too_many  # noqa: PLC0415

    if props.get("replicas") is not None and too_many(place_of(props), int(props["replicas"])):
        retreat(place_of(props), _retreating(props), engine(), engine().progress)


def _retreating(props: Props) -> Retreating:
    from valkeyctl.lifecycle.retreat import Retreating  # noqa: PLC0415

    return Retreating(int(props["replicas"]), int(props.get("port") or 6379), props.get("credentials"))


def _say_who_rests(props: Props) -> bool:
    """Whether Pods run that are to rest, or rest that are to run; says which in a line."""
    from valkeyctl.lifecycle.pausing import to_do  # noqa: PLC0415

    line = to_do(place_of(props), paused=bool(props.get("paused")))
    if line:
        engine().info(f"to do: {line}")
    return bool(line)


def _pause_or_wake(props: Props) -> None:
    from valkeyctl.lifecycle.pausing import Pausing, pause, wake  # noqa: PLC0415

    settings: Mapping[str, Any] = props.get("settings") or {}
    declared = Pausing(
        settings={str(name): str(value) for name, value in settings.items()},
        port=int(props.get("port") or 6379),
        credentials=props.get("credentials"),
    )
    (pause if props.get("paused") else wake)(place_of(props), declared, engine(), engine().progress)


def _wanted(props: Props) -> list[Wanted]:
    from valkeyctl.kube.ownership import Wanted  # noqa: PLC0415

    return [Wanted(str(o["apiVersion"]), str(o["kind"]), str(o["name"])) for o in props.get("objects") or []]


def _ensure_words(props: Props) -> None:
    """Makes what lifecycle and agents speak through, where it isn't there yet."""
    from valkeyctl.kube.declared import ensure_declared  # noqa: PLC0415
    from valkeyctl.kube.lease import ensure_lease  # noqa: PLC0415
    from valkeyctl.kube.status import ensure_status  # noqa: PLC0415
    from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

    place = place_of(props)
    for ensure in (ensure_status, ensure_declared, ensure_lease):
        ensure(api_of(place, patience_s=WRITE_PATIENCE_S), place.namespace, place.instance, place.owner)


def _refuse(props: Props) -> Mapping[Wanted, Object]:
    """Refuses what is others'; returns what is there of this instance."""
    from valkeyctl.kube.labels import declared_name, status_name  # noqa: PLC0415
    from valkeyctl.kube.ownership import Wanted, refuse_foreign  # noqa: PLC0415
    from valkeyctl.kube.server_version import refuse_too_old  # noqa: PLC0415
    from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

    place = place_of(props)
    refuse_too_old(api_of(place))
    wanted = _wanted(props)
    wanted.append(Wanted("v1", "ConfigMap", status_name(place.instance)))
    wanted.append(Wanted("v1", "ConfigMap", declared_name(place.instance)))
    wanted.append(Wanted("coordination.k8s.io/v1", "Lease", place.instance))
    return refuse_foreign(api_of(place), place.namespace, wanted, owners({}, props))


def _let_go(props: Props, found: Mapping[Wanted, Object]) -> None:
    """Waits for objects that are still being deleted, as after a scale in or a `destroy` a moment ago."""
    from valkeyctl.kube.leaving import wait_until_gone  # noqa: PLC0415
    from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

    place = place_of(props)

    def tell(line: str) -> None:
        engine().require()
        engine().progress(line)

    wait_until_gone(api_of(place), place.namespace, found, tell)


class Prepare(dynamic.Resource, module="valkey", name="Prepare"):
    """Looks at every object that the instance is going to write, and refuses those that others own.

    Everything else of an instance depends on it. `check` looks at preview, `create` and `update` once more just before
    the first write. Writes only what goes beside Pulumi's Kubernetes provider (two ConfigMaps and the Lease that
    lifecycle and agents speak through), and removes that on deletion, as the last of the instance.
    """

    def __init__(
        self,
        name: str,
        *,
        connection: Connection,
        owner: pulumi.Input[str],
        namespace: pulumi.Input[str],
        instance: pulumi.Input[str],
        objects: Sequence[Mapping[str, pulumi.Input[str]]],
        storage: Mapping[str, Any] | None = None,
        settings: Mapping[str, str] | None = None,
        version: str | None = None,
        replicas: pulumi.Input[int] | None = None,
        port: int = 6379,
        credentials: Mapping[str, pulumi.Input[str] | None] | None = None,
        paused: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`objects`: each `{"kind": …, "apiVersion": …, "name": …}`, all of `namespace`, names known at preview.

        `storage`: what each Pod's volume is, `{"size": "1Gi", "bytes": …, "storageClassName": …}`; None: no volumes.
        `settings`: what running servers are going to be told; a change is tried on one of them before it is written,
        where one of the release line of `version` answers. `replicas`: how many each primary is to have. `credentials`
        and `paused` as for `Topology`.
        """
        props: dict[str, Any] = {
            **connection.props(),
            "owner": owner,
            "namespace": namespace,
            "instance": instance,
            "objects": [dict(entry) for entry in objects],
            "storage": dict(storage) if storage is not None else None,
            "settings": dict(settings) if settings is not None else None,
            "version": version,
            "replicas": replicas,
            "port": port,
            "credentials": dict(credentials) if credentials is not None else None,
            "paused": paused,
        }
        super().__init__(PrepareProvider(), name, props, options(opts))
