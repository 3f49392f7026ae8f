"""The files of a set of Sentinels: what each starts with, and the scripts. All of its Pods share them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha1, sha256
from pathlib import Path

from valkeyctl.dataplane.sentinel.apply import SENTINEL_COMMANDS_NEEDED
from valkeyctl.dataplane.sentinel.model import SENTINEL_PORT
from valkeyctl.dataplane.sentinel.rights import CLIENTS_AT_SENTINELS, OPERATOR, SENTINEL, SENTINELS_AT_SENTINELS

CONFIG, USERS = "sentinel.conf", "sentinel-users.conf"
SCRIPTS = ("sentinel.sh", "sentinel_probe.sh")


def config_data() -> dict[str, str]:
    """The ConfigMap's data: file name → text."""
    here = Path(__file__).parent
    return {CONFIG: config_file(), USERS: users_file(), **{name: (here / name).read_text() for name in SCRIPTS}}


def start_hash(data: Mapping[str, str]) -> str:
    """Changes when a Sentinel has to be started anew to have the files in effect."""
    read_at_start = "\0".join(data[name] for name in (CONFIG, USERS, "sentinel.sh"))
    return sha256(read_at_start.encode()).hexdigest()[:16]


def config_file() -> str:
    """What every Sentinel starts with. Names instead of addresses: a Pod's address is another one tomorrow."""
    lines = (
        "# Written by Pulumi. Each Sentinel starts with this, and with what it knew before.",
        f"port {SENTINEL_PORT}",
        "bind * -::*",
        "protected-mode no",
        "daemonize no",
        'logfile ""',
        'pidfile ""',
        "sentinel resolve-hostnames yes",
        "sentinel announce-hostnames yes",
        f"sentinel announce-port {SENTINEL_PORT}",
        # Nobody who signs in may have a program run here.
        "sentinel deny-scripts-reconfig yes",
        "",
    )
    return "\n".join(lines)


def users_file() -> str:
    """Who may sign in at a Sentinel, and what each may do. Hashes of the passwords are put in at the start."""
    operating = tuple(f"+{command}" for command in SENTINEL_COMMANDS_NEEDED)
    users = (
        ("default", "#CLIENTS", CLIENTS_AT_SENTINELS),
        (OPERATOR, "#OPERATOR", operating),
        (SENTINEL, "#OPERATOR", SENTINELS_AT_SENTINELS),
    )
    return "".join(f"user {name} on sanitize-payload {word} {' '.join(rights)}\n" for name, word, rights in users)


def sentinel_id(pod: str, namespace: str) -> str:
    """The id of the Sentinel in a Pod, always the same, as `sentinel.sh` has it: 40 hexadecimal digits."""
    return sha1(f"{namespace}/{pod}".encode(), usedforsecurity=False).hexdigest()
