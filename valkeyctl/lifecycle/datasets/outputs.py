"""What a look at a dataset becomes in Pulumi's state: only what stays the same while nothing changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valkeyctl.dataplane import Condition, Phase, Status
from valkeyctl.dataplane.dataset_report import DatasetReport
from valkeyctl.kube.labels import primary_service_name, replicas_service_name
from valkeyctl.lifecycle.datasets.declaration import DatasetDeclaration


def outputs_of(
    declaration: DatasetDeclaration, found: DatasetReport, conditions: Sequence[Condition]
) -> dict[str, Any]:
    """No key, offset, time, or count is among them: a drift check would be red for ever."""
    return {
        "phase": str(found.phase),
        "conditions": [short(one) for one in conditions],
        **({"primary": found.primary} if found.primary else {}),
        **({"server_version": found.server_version} if found.server_version else {}),
        **place_outputs(declaration),
    }


def place_outputs(declaration: DatasetDeclaration) -> dict[str, Any]:
    """The outputs that say where the instance is, whatever runs of it.

    `primary` takes writes, `replicas` are for reading; `sentinels` and `primaryName` are for clients that ask those.
    """
    place, port, watch = declaration.place, declaration.port, declaration.watch

    def host(service: str) -> str:
        return f"{service}.{place.namespace}.svc"

    def uri(service: str) -> str:
        return f"valkey://{host(service)}:{port}"

    rw, ro = primary_service_name(place.instance), replicas_service_name(place.instance)
    return {
        "endpoints": {
            "host": host(rw),
            "port": port,
            "uri": uri(rw),
            "primary": uri(rw),
            "replicas": uri(ro),
            **({} if watch is None else {"sentinels": list(watch.hosts), "primaryName": watch.name}),
        },
        "secret_name": str((declaration.credentials or {}).get("secretName") or ""),
    }


def unreachable(problem: str) -> dict[str, Any]:
    """The outputs that change when nothing could be asked; all others keep what was last known."""
    condition = Condition("Reachable", Status.FALSE, "Unreachable", problem)
    return {"phase": str(Phase.UNREACHABLE), "conditions": [short(condition)]}


def short(condition: Condition) -> dict[str, str]:
    """A condition without its message, which may hold times and offsets."""
    return {"type": condition.type, "status": str(condition.status), "reason": condition.reason}
