"""The members that there are now, whatever is declared: for what has to be known before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from valkeyctl.dataplane import Dialer, Spec, View, observe, planned_layout
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.kube.access import Api
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.forward import dialer_for
from valkeyctl.kube.labels import workload_name
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.kube.status import read_status
from valkeyctl.lifecycle.changes import ChangeRefused
from valkeyctl.lifecycle.downgrade import downgrades, line_of, numbers_of
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.session import api_of

ANSWER_TIMEOUT_S = 2.0
Credentials = Mapping[str, str | None] | None


@dataclass(frozen=True)
class Present:
    """An instance's StatefulSets as they stand, and the ways to their Pods."""

    api: Api
    directory: Directory
    dialer: Dialer
    spec: Spec

    def look(self) -> View:
        """What every member that there is says of itself."""
        return observe(self.spec, self.directory(), self.dialer, timeout_s=ANSWER_TIMEOUT_S)


def present(place: Place, *, port: int, credentials: Credentials, patience_s: float = 0.0) -> Present | None:
    """The instance as it stands; None where it has no StatefulSet. Errors: those of the API, SecretMissing."""
    api = api_of(place, patience_s=patience_s)
    directory = Directory(api, place.namespace, place.instance, port)
    sizes = sizes_of(place, directory)
    if not sizes:
        return None
    known = read_credentials(api, place.namespace, credentials, instance=place.instance)
    dialer = dialer_for(place.transport, api, place.namespace, known)
    shards = len(sizes)
    spec = Spec(place.instance, shards, max(0, max(sizes) - 1), planned_layout(shards), formed=True)
    return Present(api, directory, dialer, spec)


def sizes_of(place: Place, directory: Directory) -> Sequence[int]:
    """How many members the StatefulSet of each shard asks for, by shard; up to the first that isn't there."""
    found = directory.workloads()
    asked = {str(one["metadata"]["name"]): int((one.get("spec") or {}).get("replicas") or 0) for one in found}
    sizes: list[int] = []
    while (name := workload_name(place.instance, len(sizes))) in asked:
        sizes.append(asked[name])
    return sizes


def refuse_downgrade(place: Place, *, version: str, port: int, credentials: Credentials, persistent: bool) -> None:
    """Refuses a server of an older release line than the one that has the data. Errors: ChangeRefused.

    The status tells, and where it tells of a newer line, the servers themselves: an upgrade that got no further than
    a replica may be taken back. What can't be asked now is refused by what the status says.
    """
    declared = numbers_of(version)
    status = read_status(api_of(place), place.namespace, place.instance)
    if declared is None or status is None or not status.formed or status.destroying:
        return
    known = [word for word in status.server_version.split(", ") if (numbers_of(word) or declared) > declared]
    if not known:
        return
    view: View | None = None
    with suppress(ValkeyctlError):
        found = present(place, port=port, credentials=credentials)
        view = found.look() if found else None
    if view is not None and view.nodes:
        newer = downgrades(persistent, view.nodes.values(), declared)
        if not newer:
            return
        known = sorted({node.version for node in newer})
    raise ChangeRefused(
        f"Valkey {version} is declared where servers run {', '.join(known)}: a server of an older line can't read the "
        "data of a newer one",
        where="version",
        remedy=f'Declare `version: "{line_of(known[-1])}"`, or make a new instance and copy the data.',
    )
