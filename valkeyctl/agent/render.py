"""The files that the server of this Pod starts with: the instance's settings, the users, and what only this Pod has.

The password comes from a mounted Secret. It goes, as a hash or in a form in which no character has a meaning, into
files on a memory volume that only this user can read; it is never an argument or an environment variable (ADR 0037).
"""

from __future__ import annotations

import threading

from valkeyctl.agent import acl
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.kept import Kept, replace_file

SERVER_FILE = "valkey.conf"

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
            replace_file(environment.run / acl.FILE, acl.users_file(passwords).encode())
            replace_file(environment.run / SERVER_FILE, text.encode())
        except FileNotFoundError as error:
            raise NotRendered(f"a file is missing: {error.filename}") from error
        except (OSError, ValueError) as error:
            raise NotRendered(str(error)) from error


def _own_lines(environment: Environment, primary_password: bytes) -> str:
    # Every byte as \xHH between double quotes: no character of a password has a meaning in the file.
    escaped = "".join(f"\\x{byte:02x}" for byte in primary_password)
    lines = (
        "",
        "# What this Pod alone has.",
        f'aclfile "{environment.run / acl.FILE}"',
        # Peers have the same password: this server signs in to the primary that it copies.
        f'primaryauth "{escaped}"',
        f'cluster-announce-ip "{environment.address}"',
        f'cluster-announce-hostname "{environment.host}"',
        f'cluster-announce-human-nodename "{environment.pod}"',
        "",
    )
    return "\n".join(lines)
