"""The files that the server of this Pod starts with: the instance's settings, the users, and what only this Pod has.

The password comes from a mounted Secret. It goes, as a hash or in a form in which no character has a meaning, into
files on a memory volume that only this user can read; it is never an argument or an environment variable (ADR 0037).
"""

from __future__ import annotations

import threading

from valkeyctl.agent import acl
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.kept import Kept, replace_file
from valkeyctl.dataplane.model import Address
from valkeyctl.kube.labels import CLUSTER, FAILOVER

SERVER_FILE = "valkey.conf"
FOLLOW_FILE = "follow"
"""Whom a dataset's server follows at its next start, as a line of its file; an empty one for a primary."""
NOBODY = Address("127.0.0.1", 1)
"""Where nobody listens. A replica of it takes no writes, and no replica gets a copy from it."""

_lock = threading.Lock()


class NotRendered(Exception):  # noqa: N818  (what it is)
    """A file that the server would start with can't be made; the text tells a person why."""


def write(environment: Environment) -> None:
    """Write valkey.conf and the file of users out of what this Pod keeps (see `kept`), or takes from its mounts now.

    Idempotent, and safe from several threads. Raises NotRendered.
    """
    kept = Kept(environment.run)
    with _lock:
        try:
            kept.begin(environment.config, environment.secret)
            passwords = kept.passwords
            text = kept.base + kept.live + _own_lines(environment, passwords.primary)
            replace_file(
                environment.run / acl.FILE, acl.users_file(passwords, _sentinels_password(environment)).encode()
            )
            replace_file(environment.run / SERVER_FILE, text.encode())
        except FileNotFoundError as error:
            raise NotRendered(f"a file is missing: {error.filename}") from error
        except (OSError, ValueError) as error:
            raise NotRendered(str(error)) from error


def follow(environment: Environment, whom: Address | None, *, writable: bool = False) -> None:
    """Note whom a dataset's server is to follow when it starts the next time: None is nobody.

    `writable`: it is to be the primary. Idempotent. Raises NotRendered.
    """
    at = whom or NOBODY
    line = "" if writable else f'replicaof "{at.host}" {at.port}'
    try:
        replace_file(environment.run / FOLLOW_FILE, line.encode())
    except OSError as error:
        raise NotRendered(str(error)) from error


def _place_lines(environment: Environment) -> tuple[str, ...]:
    """Under what name others know this server, and in a dataset whom it follows."""
    if environment.architecture == CLUSTER:
        return (
            f'cluster-announce-ip "{environment.address}"',
            f'cluster-announce-hostname "{environment.host}"',
            f'cluster-announce-human-nodename "{environment.pod}"',
        )
    try:
        whom = (environment.run / FOLLOW_FILE).read_text()
    except FileNotFoundError:
        # Nothing was judged in this Pod so far: such a server mustn't take writes.
        whom = f'replicaof "{NOBODY.host}" {NOBODY.port}'
    # Under its name, which stays when its Pod gets another address.
    return (f'replica-announce-ip "{environment.host}"', f"replica-announce-port {environment.client_port}", whom)


def _own_lines(environment: Environment, primary_password: bytes) -> str:
    # Every byte as \xHH between double quotes: no character of a password has a meaning in the file.
    escaped = "".join(f"\\x{byte:02x}" for byte in primary_password)
    lines = (
        "",
        "# What this Pod alone has.",
        f'aclfile "{environment.run / acl.FILE}"',
        # Peers have the same password: this server signs in to the primary that it copies.
        f'primaryauth "{escaped}"',
        *_place_lines(environment),
        "",
    )
    return "\n".join(lines)


def _sentinels_password(environment: Environment) -> bytes | None:
    """With what the Sentinels sign in at this server; None where none watch it, or it isn't mounted yet."""
    if environment.architecture != FAILOVER:
        return None
    try:
        return environment.sentinel_secret.read_bytes() or None
    except FileNotFoundError:
        return None
