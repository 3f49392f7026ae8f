"""The Pod template: one server, in a Pod that meets the `restricted` Pod Security Standard on a read-only root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from valkeyctl.dataplane.model import BUS_PORT, CLIENT_PORT
from valkeyctl.kube.labels import SERVER_CONTAINER

from .args import Amounts, Resources, SecretKey
from .config_files import DATA_DIR
from .labels import CONFIG_ANNOTATION, Identity, selector
from .names import Names

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        AffinityArgsDict,
        ContainerArgsDict,
        EnvVarArgsDict,
        PodSpecArgsDict,
        PodTemplateSpecArgsDict,
        ProbeArgsDict,
        TopologySpreadConstraintArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )
    from pulumi_kubernetes.meta.v1 import LabelSelectorArgsDict

CONFIG_DIR = "/etc/valkey"
SECRET_DIR = "/etc/valkey-secret"  # noqa: S105 - a folder, no secret
RUN_DIR = "/run/valkey"
DATA_VOLUME = "data"
#: User and group of the server in its own images.
USER = 999

HOST_KEY, ZONE_KEY = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
#: Seconds from the request to stop until the kill: to hand over, and to let the replicas catch up.
GRACE_S = 30
#: The same where the append-only file has to reach its disk too.
GRACE_PERSISTENT_S = 120


@dataclass(frozen=True)
class ServerPod:
    """What the Pods of one shard are made of.

    `config_hash` changes when the servers have to be started anew. `persistent`: the volume `data` comes from a claim,
    else it lives and dies with the Pod. The last four are the room for what comes beside the server: agent, exporter,
    certificates.
    """

    names: Names
    identity: Identity
    shard: int
    image: str
    resources: Resources
    password: SecretKey
    config_hash: str
    persistent: bool
    init_containers: Sequence[ContainerArgsDict] = ()
    sidecars: Sequence[ContainerArgsDict] = ()
    volumes: Sequence[VolumeArgsDict] = ()
    mounts: Sequence[VolumeMountArgsDict] = ()


def pod_template(pod: ServerPod) -> PodTemplateSpecArgsDict:
    """The template of a shard's StatefulSet. Equal arguments give equal templates: a difference marks Pods outdated."""
    spec: PodSpecArgsDict = {
        "automount_service_account_token": False,
        "enable_service_links": False,
        "termination_grace_period_seconds": GRACE_PERSISTENT_S if pod.persistent else GRACE_S,
        "security_context": {
            "run_as_non_root": True,
            "run_as_user": USER,
            "run_as_group": USER,
            "fs_group": USER,
            "fs_group_change_policy": "OnRootMismatch",
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "affinity": _affinity(pod),
        "topology_spread_constraints": [_spread(pod, HOST_KEY), _spread(pod, ZONE_KEY)],
        "containers": [_server(pod), *pod.sidecars],
        "volumes": _volumes(pod),
    }
    if pod.init_containers:
        # An empty list would never be found again in what the API server keeps.
        spec["init_containers"] = list(pod.init_containers)
    return {
        "metadata": {
            "labels": pod.identity.pod_labels(pod.shard),
            "annotations": {CONFIG_ANNOTATION: pod.config_hash},
        },
        "spec": spec,
    }


def _server(pod: ServerPod) -> ContainerArgsDict:
    return {
        "name": SERVER_CONTAINER,
        "image": pod.image,
        "image_pull_policy": "IfNotPresent",
        "command": ["sh", f"{CONFIG_DIR}/start.sh"],
        "env": _environment(pod),
        "ports": [
            {"name": "valkey", "container_port": CLIENT_PORT, "protocol": "TCP"},
            {"name": "bus", "container_port": BUS_PORT, "protocol": "TCP"},
        ],
        "resources": {"requests": _amounts(pod.resources.requests), "limits": _amounts(pod.resources.limits)},
        "security_context": {
            "allow_privilege_escalation": False,
            "read_only_root_filesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # A server that can't start says why in its last lines; they then stand in the Pod's status.
        "termination_message_policy": "FallbackToLogsOnError",
        # From the first second on, once a second: the dataset may take long to load, but a small one must not wait.
        "startup_probe": _probe("live", period_s=1, failures=1800),
        # Each probe starts a process in the container, which is not free where many instances share a node.
        "readiness_probe": _probe("ready", period_s=5, failures=2),
        "liveness_probe": _probe("live", period_s=10, failures=6),
        "volume_mounts": [
            {"name": "config", "mount_path": CONFIG_DIR, "read_only": True},
            {"name": "secret", "mount_path": SECRET_DIR, "read_only": True},
            {"name": "run", "mount_path": RUN_DIR},
            {"name": DATA_VOLUME, "mount_path": DATA_DIR},
            *pod.mounts,
        ],
    }


def _environment(pod: ServerPod) -> list[EnvVarArgsDict]:
    def from_field(name: str, path: str) -> EnvVarArgsDict:
        return {"name": name, "value_from": {"field_ref": {"api_version": "v1", "field_path": path}}}

    return [
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_NAMESPACE", "metadata.namespace"),
        from_field("POD_IP", "status.podIP"),
        # What peers and clients call the server, and later its certificate is checked against.
        {"name": "POD_HOST", "value": f"$(POD_NAME).{pod.names.headless}.$(POD_NAMESPACE).svc"},
    ]


def _amounts(amounts: Amounts) -> dict[str, str]:
    pairs = (("cpu", amounts.cpu), ("memory", amounts.memory))
    return {name: amount for name, amount in pairs if amount is not None}


def _probe(question: str, *, period_s: int, failures: int) -> ProbeArgsDict:
    return {
        "exec_": {"command": ["sh", f"{CONFIG_DIR}/probe.sh", question]},
        "period_seconds": period_s,
        "timeout_seconds": 5,
        "failure_threshold": failures,
    }


def _volumes(pod: ServerPod) -> list[VolumeArgsDict]:
    volumes: list[VolumeArgsDict] = [
        {"name": "config", "config_map": {"name": pod.names.config_map}},
        {
            "name": "secret",
            "secret": {
                "secret_name": pod.password.name,
                "items": [{"key": pod.password.key, "path": "password"}],
                "default_mode": 0o440,
            },
        },
        # In memory: the password is written there in the form in which the server reads it.
        {"name": "run", "empty_dir": {"medium": "Memory", "size_limit": "1Mi"}},
    ]
    if not pod.persistent:
        volumes.append({"name": DATA_VOLUME, "empty_dir": {}})
    return [*volumes, *pod.volumes]


def _affinity(pod: ServerPod) -> AffinityArgsDict:
    """The copies of a shard keep apart: on nodes of their own first, in zones of their own next."""
    own: LabelSelectorArgsDict = {"match_labels": selector(pod.names.instance, pod.shard)}
    return {
        "pod_anti_affinity": {
            "preferred_during_scheduling_ignored_during_execution": [
                {"weight": weight, "pod_affinity_term": {"topology_key": key, "label_selector": own}}
                for weight, key in ((100, HOST_KEY), (50, ZONE_KEY))
            ]
        }
    }


def _spread(pod: ServerPod, key: str) -> TopologySpreadConstraintArgsDict:
    """The whole instance spreads, so that no node and no zone holds more votes than it must."""
    return {
        "max_skew": 1,
        "topology_key": key,
        "when_unsatisfiable": "ScheduleAnyway",
        "label_selector": {"match_labels": selector(pod.names.instance)},
    }
