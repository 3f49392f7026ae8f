"""Who this agent is, and where its files and ports are, as the Pod template says in environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from valkeyctl.agent.ports import AGENT_PORT
from valkeyctl.dataplane.model import BUS_PORT, CLIENT_PORT, Member, member_of_host


@dataclass(frozen=True)
class Environment:
    """One agent's place.

    `pod`, `namespace`, `instance` are names in Kubernetes, `address` is the Pod's IP, and `host` the DNS name that its
    server announces. The ports are the same on all members. `config` is the folder of the mounted ConfigMap, `secret`
    the mounted password file, `data` the server's folder, and `run` the folder on a memory volume that agent and server
    share. `declared` is there from the start where the instance was declared before this Pod was made; what it says is
    read from the API server.
    """

    pod: str
    namespace: str
    instance: str
    address: str
    host: str
    member: Member
    json_log: bool = False
    client_port: int = CLIENT_PORT
    bus_port: int = BUS_PORT
    agent_port: int = AGENT_PORT
    config: Path = Path("/etc/valkey")
    secret: Path = Path("/etc/valkey-secret/password")
    data: Path = Path("/data")
    declared: Path = Path("/etc/valkey-declared/declared.json")
    run: Path = Path("/run/valkey")

    @cached_property
    def domain(self) -> str:
        """What follows the first label of the members' host names; only names in it are of this instance."""
        return self.host.partition(".")[2]

    def host_of(self, member: Member) -> str:
        """The name that a member's server announces."""
        return f"{self.instance}-{member}.{self.domain}"

    def member_named(self, host: str) -> Member | None:
        """The member whose server announces `host`; None when that is no name of this instance."""
        return member_of_host(self.instance, host) if host.partition(".")[2] == self.domain else None


def read_environment(variables: Mapping[str, str]) -> Environment:
    """The environment as the variables say. Raises ValueError, naming the variable that is missing or wrong."""

    def needed(name: str) -> str:
        value = variables.get(name, "")
        if not value:
            raise ValueError(f"the environment variable {name} is missing")
        return value

    def port(name: str, default: int) -> int:
        text = variables.get(name, str(default))
        if not text.isdigit() or not 0 < int(text) < 1 << 16:
            raise ValueError(f"{name} is not a port: {text!r}")
        return int(text)

    pod, instance = needed("POD_NAME"), needed("INSTANCE")
    member = member_of_host(instance, pod)
    if member is None:
        raise ValueError(f"POD_NAME {pod!r} is not a Pod of the instance {instance!r}")
    log = variables.get("AGENT_LOG", "text")
    if log not in ("text", "json"):
        raise ValueError(f"AGENT_LOG is text or json, not {log!r}")
    return Environment(
        pod=pod,
        namespace=needed("POD_NAMESPACE"),
        instance=instance,
        address=needed("POD_IP"),
        host=needed("POD_HOST"),
        member=member,
        json_log=log == "json",
        client_port=port("VALKEY_PORT", CLIENT_PORT),
        bus_port=port("VALKEY_BUS_PORT", BUS_PORT),
        agent_port=port("AGENT_PORT", AGENT_PORT),
        config=Path(variables.get("VALKEY_CONFIG_DIR", "/etc/valkey")),
        secret=Path(variables.get("VALKEY_SECRET", "/etc/valkey-secret/password")),
        data=Path(variables.get("VALKEY_DATA", "/data")),
        declared=Path(variables.get("VALKEY_DECLARED", "/etc/valkey-declared/declared.json")),
        run=Path(variables.get("VALKEY_RUN", "/run/valkey")),
    )
