"""The workload of a set of Sentinels: Pods that meet the `restricted` Pod Security Standard on a read-only root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from valkeyctl.dataplane.sentinel.model import SENTINEL_PORT
from valkeyctl.dataplane.sentinel.rights import CLIENTS_KEY, OPERATOR_KEY
from valkeyctl.kube.labels import (
    COMPONENT_LABEL,
    INSTANCE_LABEL,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    OWNER_ANNOTATION,
    PART_OF_LABEL,
    SENTINEL,
    SENTINEL_CONTAINER,
    SENTINEL_NAME,
)

from .claims import claim_spec
from .config_files import DATA_DIR
from .container import CONFIG_DIR, DATA_VOLUME, from_field, locked_down, required, whole_pod
from .labels import CONFIG_ANNOTATION, PUT_BACK, VERSION_LABEL
from .names import SentinelNames
from .scheduling import kept_apart, spread
from .sentinel_args import SentinelSettings
from .versions import version_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pulumi_kubernetes.apps.v1 import StatefulSetSpecArgsDict
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        EnvVarArgsDict,
        PodSpecArgsDict,
        PodTemplateSpecArgsDict,
        ProbeArgsDict,
        ServiceSpecArgsDict,
        VolumeArgsDict,
    )
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.networking.v1 import NetworkPolicySpecArgsDict
    from pulumi_kubernetes.policy.v1 import PodDisruptionBudgetSpecArgsDict

SECRETS_DIR = "/etc/valkey-sentinel"
#: A Sentinel has nothing to hand over: it writes its file whenever something changes.
GRACE_S = 10


@dataclass(frozen=True)
class SentinelPods:
    """What a set of Sentinels is made of. `config_hash` changes when they have to be started anew."""

    names: SentinelNames
    namespace: pulumi.Input[str]
    owner: str
    image: str
    settings: SentinelSettings
    config_hash: str
    paused: bool = False

    @property
    def selector(self) -> dict[str, str]:
        """The labels by which its Pods are selected; those of no instance's servers. Immutable once written."""
        return {NAME_LABEL: SENTINEL_NAME, INSTANCE_LABEL: self.names.name}

    @property
    def labels(self) -> dict[str, str]:
        """The standard labels."""
        more = {COMPONENT_LABEL: SENTINEL, PART_OF_LABEL: "valkey", MANAGED_BY_LABEL: "pulumi"}
        return {**self.selector, **more}

    def metadata(self, name: str, annotations: Mapping[str, str] | None = None) -> ObjectMetaArgsDict:
        """The metadata of one object."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels,
            "annotations": {OWNER_ANNOTATION: self.owner, **PUT_BACK, **(annotations or {})},
        }


def workload_spec(pods: SentinelPods) -> StatefulSetSpecArgsDict:
    """The StatefulSet. Whoever replaces Pods asks the others first whether they can do without."""
    everything = pods.names.everything
    spec: StatefulSetSpecArgsDict = {
        "service_name": everything,
        "replicas": 0 if pods.paused else pods.settings.replicas,
        "selector": {"match_labels": pods.selector},
        "pod_management_policy": "Parallel",
        "update_strategy": {"type": "OnDelete"},
        "revision_history_limit": 10,
        "template": pod_template(pods),
    }
    if pods.settings.persistence is not None:
        claim = claim_spec(pods.settings.persistence)
        spec["volume_claim_templates"] = [{"metadata": {"name": DATA_VOLUME}, "spec": claim}]
    return spec


def pod_template(pods: SentinelPods) -> PodTemplateSpecArgsDict:
    """The template. Equal arguments give equal templates: a difference marks Pods outdated."""
    version = version_label(pods.image)
    spec: PodSpecArgsDict = {
        **whole_pod([_container(pods)], grace_s=GRACE_S),
        "affinity": kept_apart(pods.selector),
        "topology_spread_constraints": spread(pods.selector),
        "volumes": _volumes(pods),
    }
    return {
        "metadata": {
            "labels": pods.labels | ({VERSION_LABEL: version} if version else {}),
            "annotations": {CONFIG_ANNOTATION: pods.config_hash},
        },
        "spec": spec,
    }


def headless_spec(pods: SentinelPods) -> ServiceSpecArgsDict:
    """A DNS name for each Sentinel, ready or not, and one for all of them, where clients ask for the primary."""
    return {
        "type": "ClusterIP",
        "cluster_ip": "None",
        "publish_not_ready_addresses": True,
        "selector": pods.selector,
        "ports": [{"name": SENTINEL, "port": SENTINEL_PORT, "target_port": SENTINEL, "protocol": "TCP"}],
    }


def budget_spec(pods: SentinelPods) -> PodDisruptionBudgetSpecArgsDict:
    """One Sentinel at a time, so that a majority is there. One that isn't ready may always be evicted."""
    return {
        "max_unavailable": 1,
        "unhealthy_pod_eviction_policy": "AlwaysAllow",
        "selector": {"match_labels": pods.selector},
    }


def policy_spec(pods: SentinelPods) -> NetworkPolicySpecArgsDict:
    """Clients, the other Sentinels and the agents from anywhere, and to nothing else."""
    return {
        "pod_selector": {"match_labels": pods.selector},
        "policy_types": ["Ingress"],
        "ingress": [{"ports": [{"port": SENTINEL_PORT, "protocol": "TCP"}]}],
    }


def _container(pods: SentinelPods) -> ContainerArgsDict:
    return {
        "name": SENTINEL_CONTAINER,
        "image": pods.image,
        "image_pull_policy": "IfNotPresent",
        "command": ["sh", f"{CONFIG_DIR}/sentinel.sh"],
        "env": _environment(pods),
        "ports": [{"name": SENTINEL, "container_port": SENTINEL_PORT, "protocol": "TCP"}],
        "resources": required(pods.settings.resources),
        "security_context": locked_down(),
        "termination_message_policy": "FallbackToLogsOnError",
        "startup_probe": _probe(period_s=1, failures=60),
        "readiness_probe": _probe(period_s=5, failures=2),
        "liveness_probe": _probe(period_s=10, failures=3),
        "volume_mounts": [
            {"name": "config", "mount_path": CONFIG_DIR, "read_only": True},
            {"name": "secret", "mount_path": SECRETS_DIR, "read_only": True},
            {"name": DATA_VOLUME, "mount_path": DATA_DIR},
        ],
    }


def _volumes(pods: SentinelPods) -> list[VolumeArgsDict]:
    volumes: list[VolumeArgsDict] = [
        {"name": "config", "config_map": {"name": pods.names.everything}},
        {
            "name": "secret",
            "secret": {
                "secret_name": pods.names.everything,
                "items": [{"key": key, "path": key} for key in (CLIENTS_KEY, OPERATOR_KEY)],
                "default_mode": 0o440,
            },
        },
    ]
    if pods.settings.persistence is None:
        volumes.append({"name": DATA_VOLUME, "empty_dir": {"size_limit": "16Mi"}})
    return volumes


def _environment(pods: SentinelPods) -> list[EnvVarArgsDict]:
    return [
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_NAMESPACE", "metadata.namespace"),
        # What the others and clients call it.
        {"name": "POD_HOST", "value": f"$(POD_NAME).{pods.names.everything}.$(POD_NAMESPACE).svc"},
    ]


def _probe(*, period_s: int, failures: int) -> ProbeArgsDict:
    """Whether it answers, by a command in its container: a port that takes connections may belong to a frozen one."""
    return {
        "exec_": {"command": ["sh", f"{CONFIG_DIR}/sentinel_probe.sh"]},
        "period_seconds": period_s,
        "timeout_seconds": 5,
        "failure_threshold": failures,
    }
