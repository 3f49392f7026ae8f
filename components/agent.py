"""The agent in a Pod: a sidecar on a stock Python image, whose code comes in a ConfigMap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from valkeyctl.agent.ports import AGENT_PORT
from valkeyctl.kube.labels import SERVER_CONTAINER
from valkeyctl.lifecycle.bundle import BUNDLE_FILE

from .args import Agent, SecretKey
from .config_files import DATA_DIR
from .container import CONFIG_DIR, DATA_VOLUME, RUN_DIR, SECRET_DIR, locked_down, pod_environment, required
from .names import Names

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ContainerArgsDict, HTTPGetActionArgsDict, VolumeArgsDict

AGENT_CONTAINER = "agent"
BUNDLE_DIR = "/opt/agent"
#: Where every client of the API server looks for a Pod's credentials.
TOKEN_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a folder, no secret
#: The kubelet renews the token long before; Kubernetes' own value.
TOKEN_LIFE_S = 3607
#: Where an agent sees that something is declared; what it is, it asks the API server.
DECLARED_DIR = "/etc/valkey-declared"
_CODE, _DECLARED, _TOKEN = "agent", "declared", "agent-api"


@dataclass(frozen=True)
class PodAgent:
    """The agent of an instance's Pods. `digest` is its code's: another one makes Pods outdated."""

    names: Names
    settings: Agent
    password: SecretKey
    digest: str


def agent_container(agent: PodAgent) -> ContainerArgsDict:
    """A native sidecar: an init container that goes on running (Kubernetes 1.29).

    The kubelet starts it before the server, starts it anew whenever it ends, and stops it after the server. It has no
    startup probe: the server's container would be started a second later than need be, and waits for the agent anyway.
    Of the Pod's containers it alone has credentials for the API server.
    """
    return {
        "name": AGENT_CONTAINER,
        "image": agent.settings.image,
        "image_pull_policy": "IfNotPresent",
        "restart_policy": "Always",
        # Unbuffered, deaf to the environment, and without site-packages: they would only be looked for at each start.
        "command": ["python", "-u", "-I", "-S", f"{BUNDLE_DIR}/{BUNDLE_FILE}"],
        "env": [
            *pod_environment(agent.names),
            {"name": "INSTANCE", "value": agent.names.instance},
            {"name": "AGENT_LOG", "value": agent.settings.log},
            # Where the password is, not what it is: a changed one is read from the API server within seconds.
            {"name": "PASSWORD_SECRET", "value": agent.password.name},
            {"name": "PASSWORD_KEY", "value": agent.password.key},
            {
                "name": "SERVER_MEMORY_LIMIT",
                "value_from": {
                    "resource_field_ref": {
                        "container_name": SERVER_CONTAINER,
                        "resource": "limits.memory",
                        "divisor": "1",
                    }
                },
            },
        ],
        "ports": [{"name": "agent", "container_port": AGENT_PORT, "protocol": "TCP"}],
        "resources": required(agent.settings.resources),
        "security_context": locked_down(),
        "termination_message_policy": "FallbackToLogsOnError",
        "liveness_probe": {
            "http_get": ask("/alive"),
            "period_seconds": 10,
            "timeout_seconds": 5,
            "failure_threshold": 6,
        },
        "volume_mounts": [
            {"name": "config", "mount_path": CONFIG_DIR, "read_only": True},
            {"name": "secret", "mount_path": SECRET_DIR, "read_only": True},
            {"name": "run", "mount_path": RUN_DIR},
            # What a stopped server left there says how far its data goes.
            {"name": DATA_VOLUME, "mount_path": DATA_DIR, "read_only": True},
            {"name": _CODE, "mount_path": BUNDLE_DIR, "read_only": True},
            {"name": _DECLARED, "mount_path": DECLARED_DIR, "read_only": True},
            {"name": _TOKEN, "mount_path": TOKEN_DIR, "read_only": True},
        ],
    }


def ask(path: str) -> HTTPGetActionArgsDict:
    """A question to the agent of the same Pod, as a probe of any of its containers asks it."""
    return {"path": path, "port": AGENT_PORT, "scheme": "HTTP"}


def agent_volumes(names: Names) -> list[VolumeArgsDict]:
    """The agent's code, and its account's credentials (which Kubernetes would else mount into every container).

    What is declared may come later than the first Pods.
    """
    return [
        {"name": _CODE, "config_map": {"name": names.agent}},
        {"name": _DECLARED, "config_map": {"name": names.declared, "optional": True}},
        {
            "name": _TOKEN,
            "projected": {
                "default_mode": 0o440,
                "sources": [
                    {"service_account_token": {"path": "token", "expiration_seconds": TOKEN_LIFE_S}},
                    {"config_map": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {
                        "downward_api": {
                            "items": [
                                {
                                    "path": "namespace",
                                    "field_ref": {"api_version": "v1", "field_path": "metadata.namespace"},
                                }
                            ]
                        }
                    },
                ],
            },
        },
    ]
