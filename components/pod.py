"""The Pod template: one server, in a Pod that meets the `restricted` Pod Security Standard on a read-only root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from valkeyctl.dataplane.model import BUS_PORT, CLIENT_PORT
from valkeyctl.kube.labels import SERVER_CONTAINER

from .agent import PodAgent, agent_container, agent_volumes, ask
from .args import Resources, SecretKey
from .config_files import DATA_DIR
from .container import CONFIG_DIR, DATA_VOLUME, RUN_DIR, SECRET_DIR, locked_down, pod_environment, required
from .labels import AGENT_ANNOTATION, CONFIG_ANNOTATION, RESTART_ANNOTATION, Identity, selector
from .names import Names
from .versions import version_of

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        AffinityArgsDict,
        ContainerArgsDict,
        LifecycleArgsDict,
        PodSpecArgsDict,
        PodTemplateSpecArgsDict,
        ProbeArgsDict,
        TopologySpreadConstraintArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )
    from pulumi_kubernetes.meta.v1 import LabelSelectorArgsDict

#: User and group of the server in its own images.
USER = 999

#: The first version of the server that hands over on SIGTERM (`shutdown-on-sigterm failover`).
HANDS_OVER_SINCE = (9, 0)

HOST_KEY, ZONE_KEY = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
#: Seconds from the request to stop until the kill: to hand over, and to let the replicas catch up.
GRACE_S = 30
#: The same where the append-only file has to reach its disk too.
GRACE_PERSISTENT_S = 120


@dataclass(frozen=True)
class ServerPod:
    """What the Pods of one shard are made of.

    `config_hash` changes when the servers have to be started anew. `persistent`: the volume `data` comes from a claim,
    else it lives and dies with the Pod. `restart`: any text, to have the Pods replaced on demand. The last three are
    the room for what comes beside server and agent: exporter, certificates.
    """

    names: Names
    identity: Identity
    shard: int
    image: str
    resources: Resources
    password: SecretKey
    agent: PodAgent
    config_hash: str
    persistent: bool
    restart: str | None = None
    sidecars: Sequence[ContainerArgsDict] = ()
    volumes: Sequence[VolumeArgsDict] = ()
    mounts: Sequence[VolumeMountArgsDict] = ()


def pod_template(pod: ServerPod) -> PodTemplateSpecArgsDict:
    """The template of a shard's StatefulSet. Equal arguments give equal templates: a difference marks Pods outdated."""
    spec: PodSpecArgsDict = {
        "service_account_name": pod.names.agent,
        # Into the agent's container alone, see there.
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
        "init_containers": [agent_container(pod.agent)],
        "containers": [_server(pod), *pod.sidecars],
        "volumes": _volumes(pod),
    }
    return {
        "metadata": {
            "labels": pod.identity.pod_labels(pod.shard),
            "annotations": {
                CONFIG_ANNOTATION: pod.config_hash,
                AGENT_ANNOTATION: pod.agent.digest,
                **({RESTART_ANNOTATION: pod.restart} if pod.restart else {}),
            },
        },
        "spec": spec,
    }


def _server(pod: ServerPod) -> ContainerArgsDict:
    server: ContainerArgsDict = {
        "name": SERVER_CONTAINER,
        "image": pod.image,
        "image_pull_policy": "IfNotPresent",
        "command": ["sh", f"{CONFIG_DIR}/start.sh"],
        "env": pod_environment(pod.names),
        "ports": [
            {"name": "valkey", "container_port": CLIENT_PORT, "protocol": "TCP"},
            {"name": "bus", "container_port": BUS_PORT, "protocol": "TCP"},
        ],
        "resources": required(pod.resources),
        "security_context": locked_down(),
        # A server that can't start says why in its last lines; they then stand in the Pod's status.
        "termination_message_policy": "FallbackToLogsOnError",
        # From the first second on, once a second: the start may be held until another member was promoted, and a
        # dataset takes long to load, but a small one must not wait.
        "startup_probe": _ask_agent("/started", period_s=1, failures=3600),
        "readiness_probe": _ask_agent("/ready", period_s=2, failures=2),
        # Not the agent: a server that serves is not stopped because the agent beside it has a fault.
        # A command in a container costs the node more than all else that an idle Pod does, so it is given rarely, and a
        # server that hangs is restarted after the same minute.
        "liveness_probe": _ask_server("live", period_s=20, failures=3),
        "volume_mounts": [
            {"name": "config", "mount_path": CONFIG_DIR, "read_only": True},
            {"name": "secret", "mount_path": SECRET_DIR, "read_only": True},
            {"name": "run", "mount_path": RUN_DIR},
            {"name": DATA_VOLUME, "mount_path": DATA_DIR},
            *pod.mounts,
        ],
    }
    if not _hands_over(pod.image):
        handover: LifecycleArgsDict = {"pre_stop": {"exec_": {"command": ["sh", f"{CONFIG_DIR}/handover.sh"]}}}
        server["lifecycle"] = handover
    return server


def _hands_over(image: str) -> bool:
    """Whether the server, when it is told to stop, makes a replica primary by itself. Where the image tells no version
    the script is there too: it does nothing beside a server that can.
    """
    version = version_of(image)
    return version is not None and version >= HANDS_OVER_SINCE


def _ask_agent(path: str, *, period_s: int, failures: int) -> ProbeArgsDict:
    """What the agent of the same Pod says of the server. It costs no process in the container, as a command would."""
    return {
        "http_get": ask(path),
        "period_seconds": period_s,
        "timeout_seconds": 5,
        "failure_threshold": failures,
    }


def _ask_server(question: str, *, period_s: int, failures: int) -> ProbeArgsDict:
    """The server itself, by a command in its container."""
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
    return [*volumes, *agent_volumes(pod.names), *pod.volumes]


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
