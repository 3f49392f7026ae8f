"""The status ConfigMap of an instance: phase, conditions, what is declared, what was done. Holds nothing secret.

It outlives a failed `up`, tells `valkeyctl status` what to look for, and tells the shard guards when a whole instance
is being destroyed.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from valkeyctl.dataplane import Condition, Status
from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.declared import remove_declared
from valkeyctl.kube.errors import ApiConflict, ApiNotFound
from valkeyctl.kube.labels import OWNER_ANNOTATION, declared_name, instance_labels, status_name

_DONE_KEPT = 100


@dataclass(frozen=True)
class Declared:
    """What the program declares of an instance: enough to look at it with nothing but a kubeconfig.

    `credentials` name the Secret and its key, `{"user": …, "secretName": …, "key": …}`; never the password.
    """

    shards: int
    replicas: int
    port: int = 6379
    layout: Mapping[str, str] = field(default_factory=dict[str, str])
    credentials: Mapping[str, str | None] | None = None
    tls: bool = False
    paused: bool = False


@dataclass(frozen=True)
class InstanceStatus:
    """What was last seen. `formed`: the instance was Ready once. `failure`: why the last converge ended, if badly, and
    `failure_of`: whose that was, in the words of `observer`; "" where a former version wrote it.

    `finished`: an `up` has come to its good end, so that Pulumi's state has the topology; an instance may be formed
    without it, where agents went on with what a killed `up` began.

    `observer`: who saw it, "up of acme/valkey/prod" or "agent sessions-s0-0".
    """

    phase: str
    conditions: Sequence[Condition] = ()
    layout: Mapping[str, str] = field(default_factory=dict[str, str])
    primaries: Mapping[str, str] = field(default_factory=dict[str, str])
    server_version: str = ""
    done: Sequence[str] = ()
    failure: str = ""
    failure_of: str = ""
    formed: bool = False
    finished: bool = False
    destroying: bool = False
    declared: Declared | None = None
    observed_at: str = ""
    observer: str = ""
    owner: str = ""


def read_status(api: Api, namespace: str, instance: str) -> InstanceStatus | None:
    """The status of an instance, None where the API server says that there is none."""
    known = api.find(path_of("v1", "configmaps", namespace, status_name(instance)))
    return None if known is None else parse_status(known)


def write_status(api: Api, namespace: str, instance: str, owner: str, status: InstanceStatus) -> None:
    """Writes the status; what it does not name stays out. Idempotent. Errors: those of the API."""
    _put(api, namespace, instance, owner, render_status(status))


def ensure_status(api: Api, namespace: str, instance: str, owner: str) -> None:
    """Makes the status ConfigMap, empty, where there is none: agents may write into it and not make it. Idempotent."""
    _put(api, namespace, instance, owner, {})


def write_seen(api: Api, namespace: str, instance: str, status: InstanceStatus) -> None:
    """Writes what an agent saw: of the status only what an observation tells.

    What is `up`'s to say stays as it is: what is declared, and that the instance goes. That it was formed is said and
    never taken back. Errors: those of the API; ApiNotFound where there is no status.
    """
    seen = {
        key: value for key, value in render_status(status).items() if key not in ("declared", "destroying", "finished")
    }
    if not status.formed:
        seen.pop("formed")
    api.merge(path_of("v1", "configmaps", namespace, status_name(instance)), {"data": seen})


def mark_destroying(api: Api, namespace: str, instance: str, owner: str) -> None:
    """Says that the whole instance goes, so that its guards let go and no agent heals what is being destroyed.

    No-op without namespace, or under another owner.
    """
    known = api.find(path_of("v1", "configmaps", namespace, status_name(instance)))
    if known is not None and parse_status(known).owner not in ("", owner):
        return
    remove_declared(api, namespace, instance, owner)
    with suppress(ApiNotFound):
        _put(api, namespace, instance, owner, {"destroying": "true", "observedAt": _now()})


def remove_traces(api: Api, namespace: str, instance: str, owners: Collection[str]) -> None:
    """Deletes what the lifecycle wrote for an instance: its two ConfigMaps and its Lease, if one of the owners' is on
    them.
    """
    for version, plural, name in (
        ("v1", "configmaps", declared_name(instance)),
        ("v1", "configmaps", status_name(instance)),
        ("coordination.k8s.io/v1", "leases", instance),
    ):
        path = path_of(version, plural, namespace, name)
        known = api.find(path)
        if known is not None and (known["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) in owners:
            api.delete(path, uid=str(known["metadata"]["uid"]))


def render_status(status: InstanceStatus) -> dict[str, str | None]:
    """The ConfigMap's data; None takes a key away. Pure."""
    declared = status.declared
    return {
        "phase": status.phase,
        "conditions": _json([_condition(c) for c in status.conditions]),
        "layout": _json(dict(status.layout)),
        "primaries": _json(dict(status.primaries)),
        "serverVersion": status.server_version,
        "done": _json(list(status.done)[-_DONE_KEPT:]),
        "failure": status.failure or None,
        "failureOf": status.failure_of if status.failure and status.failure_of else None,
        "formed": "true" if status.formed else None,
        "finished": "true" if status.finished else None,
        "destroying": "true" if status.destroying else None,
        "declared": None if declared is None else _json(_declared(declared)),
        "observedAt": status.observed_at or _now(),
        "observer": status.observer or None,
    }


def parse_status(known: Object) -> InstanceStatus:
    """The status that a ConfigMap holds. What is missing or garbled in it reads as empty. Pure."""
    data: dict[str, str] = known.get("data") or {}
    declared = _loaded(data, "declared", None)
    return InstanceStatus(
        phase=data.get("phase", ""),
        conditions=tuple(
            Condition(str(c["type"]), Status(c["status"]), str(c["reason"]), str(c.get("message") or ""))
            for c in _loaded(data, "conditions", [])
        ),
        layout=_loaded(data, "layout", {}),
        primaries=_loaded(data, "primaries", {}),
        server_version=data.get("serverVersion", ""),
        done=tuple(_loaded(data, "done", [])),
        failure=data.get("failure", ""),
        failure_of=data.get("failureOf", ""),
        formed=data.get("formed") == "true",
        finished=data.get("finished") == "true",
        destroying=data.get("destroying") == "true",
        declared=None
        if declared is None
        else Declared(
            shards=int(declared["shards"]),
            replicas=int(declared["replicas"]),
            port=int(declared.get("port") or 6379),
            layout=declared.get("layout") or {},
            credentials=declared.get("credentials"),
            tls=bool(declared.get("tls")),
            paused=declared.get("paused") is True,
        ),
        observed_at=data.get("observedAt", ""),
        observer=data.get("observer", ""),
        owner=str((known["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) or ""),
    )


def _put(api: Api, namespace: str, instance: str, owner: str, data: Mapping[str, str | None]) -> None:
    collection = path_of("v1", "configmaps", namespace)
    metadata: Object = {"labels": instance_labels(instance), "annotations": {OWNER_ANNOTATION: owner}}
    patch: Object = {"metadata": metadata, **({"data": dict(data)} if data else {})}
    path = f"{collection}/{status_name(instance)}"
    try:
        api.merge(path, patch)
    except ApiNotFound:
        given = {key: value for key, value in data.items() if value is not None}
        named = {**metadata, "name": status_name(instance), "namespace": namespace}
        try:
            api.create(collection, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": given})
        except ApiConflict:
            api.merge(path, patch)


def _condition(condition: Condition) -> dict[str, str]:
    return {
        "type": condition.type,
        "status": str(condition.status),
        "reason": condition.reason,
        "message": condition.message,
    }


def _declared(declared: Declared) -> dict[str, Any]:
    return {
        "shards": declared.shards,
        "replicas": declared.replicas,
        "port": declared.port,
        "layout": dict(declared.layout),
        "credentials": None if declared.credentials is None else dict(declared.credentials),
        "tls": declared.tls,
        "paused": declared.paused,
    }


def _loaded(data: Mapping[str, str], key: str, default: Any) -> Any:
    try:
        return json.loads(data[key])
    except (KeyError, ValueError):
        return default


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
