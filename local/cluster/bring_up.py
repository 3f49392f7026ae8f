"""From whatever is there to a cluster in order."""

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from .. import environment, packages, paths
from ..errors import LocalError
from ..images import Image
from ..progress import Progress
from ..tools import Tools
from . import desired, faults, health, kubeconfigs, network, pki, preflight, store, teardown
from .api import ApiError
from .cluster import Cluster, Record, write_if_changed
from .desired import Desired
from .layout import CONTROL_PLANE, Node
from .mending import Mender
from .network import api_side

READY_TIMEOUT_S = 180.0
_RECOVERY_TIMEOUT_S = 120.0
_PATIENCE_S = 10.0
_T = TypeVar("_T")


def ensure(cluster: Cluster, tools: Tools, images: list[Image], progress: Progress) -> bool:
    """Make the cluster, or whatever of it is missing. Changes nothing when all is in order. Raises LocalError.

    A cluster that was made from something else, or that doesn't recover with its data, is made anew, saying so. Returns
    whether it is new: nothing that was in an earlier one is in it.
    """
    wanted = _describe(cluster, tools, images, progress)
    record = cluster.record()
    if record is not None and record.digest != wanted.digest():
        progress.say("The cluster was made from other versions, images or settings; making it anew")
        record = None
    elif record is not None and not record.complete:
        progress.say("The cluster was never completed; making it anew")
        record = None
    elif record is None and (cluster.layout.record.exists() or cluster.cgroups.exists()):
        progress.say("Something is left of an earlier cluster; removing it")
    if record is not None:
        found = health.faults(cluster, record)
        if not found and not faults.losses(cluster):
            _write_files(cluster, wanted, record)  # Somebody may have removed the kubeconfig.
            return False
        progress.say(f"Not in order: {found[0] if found else 'the network is cut'}; repairing the cluster")
        left = _start(cluster, wanted, record, progress, timeout_s=_RECOVERY_TIMEOUT_S)
        if not left:
            return False
        progress.say(f"The cluster doesn't recover ({left[0]}); making it anew")
    _make(cluster, wanted, progress)
    return True


def _make(cluster: Cluster, wanted: Desired, progress: Progress) -> None:
    _remove_remains(cluster, progress)
    preflight.check()
    record = Record(wanted.digest(), network.free_host_link(cluster.layout), complete=False)
    cluster.layout.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    cluster.write_record(record)
    left = _start(cluster, wanted, record, progress, timeout_s=READY_TIMEOUT_S)
    if left:
        lines = "\n".join(f"  {fault}" for fault in left)
        raise LocalError(
            f"the cluster isn't in order after {READY_TIMEOUT_S:.0f} s:\n{lines}\n"
            f"Logs are in {cluster.layout.state / 'machines'}/*/log; `python -m local down` removes everything."
        )


def _remove_remains(cluster: Cluster, progress: Progress) -> None:
    if cluster.layout.state.exists() or cluster.cgroups.exists():
        teardown.remove(cluster, progress, keep=environment.PULUMI_FOLDERS)


def _start(
    cluster: Cluster, wanted: Desired, record: Record, progress: Progress, *, timeout_s: float
) -> list[health.Fault]:
    """Start what doesn't run, connect what isn't connected, and wait. Returns what isn't in order in the end."""
    _write_files(cluster, wanted, record)
    with progress.step("Starting the control plane and the nodes"):
        _start_machines(cluster, wanted, record)
    with progress.step("Waiting for the API server"):
        _apply_addons(cluster, wanted, record, timeout_s)
    with progress.step("Waiting for the nodes, Services and DNS"):
        tell, mend = _teller(progress), Mender(cluster)

        def unfinished(found: list[health.Fault]) -> None:
            tell(found)
            mend(found)

        left = health.wait(cluster, record, timeout_s=timeout_s, unfinished=unfinished)
    if not left:
        cluster.write_record(Record(record.digest, record.host_link, complete=True))
    return left


def _write_files(cluster: Cluster, wanted: Desired, record: Record) -> None:
    layout = cluster.layout
    api_address = str(api_side(record.host_link).ip)
    pki.ensure(layout.pki, pki.identities(layout, api_address))
    for path, text in wanted.files.items():
        write_if_changed(path, text)
    write_if_changed(layout.kubeconfig, kubeconfigs.of_user(layout.pki, api_address, paths.KUBE_CONTEXT))


def _start_machines(cluster: Cluster, wanted: Desired, record: Record) -> None:
    def start(name: str) -> None:
        machine = cluster.machine(name)
        if machine.pid() is None:
            if name != CONTROL_PLANE:
                wanted.store.seed(machine.folder / "var/lib/containerd")
            machine.start(wanted.specs[name], wanted.services[name])
        else:
            cluster.cgroups.thaw(name)
            for service, on in machine.enabled().items():
                if not on:
                    machine.enable(service, on=True)

    _each(start, [machine.name for machine in cluster.machines])
    network.make_fabric(cluster.layout, cluster.control_plane)
    network.link_host(cluster.layout, record.host_link, cluster.control_plane)

    def link(node: Node) -> None:
        network.link_node(cluster.layout, node, cluster.machine_of(node), cluster.control_plane)

    _each(link, list(cluster.layout.nodes))
    faults.heal_all(cluster)


def _apply_addons(cluster: Cluster, wanted: Desired, record: Record, timeout_s: float) -> None:
    api = cluster.api(record)
    until = time.monotonic() + timeout_s
    while True:
        try:
            api.get("/readyz")
            for manifest in wanted.manifests:
                api.apply(manifest)
        except ApiError:
            if time.monotonic() < until:
                time.sleep(0.1)
                continue
        return  # What isn't in order now is told by the checks that follow.


def _teller(progress: Progress) -> Callable[[list[health.Fault]], None]:
    """Say what is waited for, if it takes unusually long, and each time it is something else."""
    began, told = time.monotonic(), ""

    def tell(found: list[health.Fault]) -> None:
        nonlocal told
        if time.monotonic() - began > _PATIENCE_S and str(found[0]) != told:
            told = str(found[0])
            progress.say(f"still waiting: {told}")

    return tell


def _each(work: Callable[[_T], None], items: list[_T]) -> None:
    with ThreadPoolExecutor(len(items)) as pool:
        list(pool.map(work, items))


def _describe(cluster: Cluster, tools: Tools, images: list[Image], progress: Progress) -> Desired:
    containerd = shutil.which("containerd", path=packages.SYSTEM_PATH)
    cni_folder = packages.cni_folder()
    if containerd is None or cni_folder is None:
        raise LocalError("containerd or the CNI plugins aren't installed; `python -m local up` installs them")
    images_store = store.ensure(images, Path(containerd), cluster.cgroups, progress)
    return desired.describe(
        cluster.layout,
        tools=tools,
        images=images,
        store=images_store,
        containerd=Path(containerd),
        cni_folder=cni_folder,
    )
