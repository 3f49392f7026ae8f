"""The resource of a paused dataset: no Pod runs, and what is declared and known of it stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from valkeyctl.dataplane import Condition, Phase
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.kube.access import Api
from valkeyctl.kube.declared_dataset import write_declared_dataset
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.paused import paused_condition, running_pods
from valkeyctl.kube.status import read_status
from valkeyctl.lifecycle.datasets.declaration import DatasetDeclaration
from valkeyctl.lifecycle.datasets.look import Seen, is_told
from valkeyctl.lifecycle.datasets.outputs import place_outputs, short, unreachable
from valkeyctl.lifecycle.datasets.session import declared, for_agents
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.paused import Rest, rest
from valkeyctl.lifecycle.session import api_of


def run_paused(
    declaration: DatasetDeclaration, engine: Engine, tell: Callable[[str], None], *, formed: bool
) -> dict[str, Any]:
    """Returns the outputs when the last Pod has gone. See `rest`."""
    place = declaration.place

    def tell_agents(api: Api, formed: bool) -> None:  # noqa: FBT001
        write_declared_dataset(api, place.namespace, for_agents(declaration, formed=formed))

    resting = Rest(place, declaration.port, declaration.timeout_s, declared(declaration), tell_agents)
    status = rest(resting, engine, tell, formed=formed)
    primary = status.primaries.get("s0")
    return {
        **_outputs(declaration, Phase.PAUSED, paused_condition(())),
        **({"primary": primary} if primary else {}),
        **({"server_version": status.server_version} if status.server_version else {}),
        "formed": status.formed,
    }


def look_paused(declaration: DatasetDeclaration, *, formed: bool) -> Seen:
    """As `look`, where no Pod is to run. One that does is something to do, and nobody asks it."""
    place = declaration.place
    try:
        api = api_of(place)
        status = read_status(api, place.namespace, place.instance)
        told = is_told(api, declaration, formed=formed or bool(status and status.formed))
        running = running_pods(Directory(api, place.namespace, place.instance, declaration.port))
    except ValkeyctlError as error:
        return Seen(right=False, problem=str(error), outputs=unreachable(str(error)))
    phase = Phase.DEGRADED if running else Phase.PAUSED
    # Whose StatefulSet asks for them is put back by Kubernetes' provider; that is said by `Prepare`.
    return Seen(right=not running, told_to_agents=told, outputs=_outputs(declaration, phase, paused_condition(running)))


def _outputs(declaration: DatasetDeclaration, phase: Phase, condition: Condition) -> dict[str, Any]:
    return {"phase": str(phase), "conditions": [short(condition)], **place_outputs(declaration)}
