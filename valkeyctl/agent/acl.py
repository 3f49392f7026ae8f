"""The users of the server, in its own file of them. Only hashes of passwords stand in it."""

from __future__ import annotations

from hashlib import sha256

from valkeyctl.agent.kept import Passwords
from valkeyctl.dataplane.sentinel.rights import SENTINEL, SENTINELS_AT_SERVERS

FILE = "users.acl"


def users_file(passwords: Passwords, sentinels: bytes | None = None) -> str:
    """The text of the ACL file: the default user, who may do everything with any of the accepted passwords.

    With `sentinels`, the password of those that watch this server: their user, who may do what a failover needs.
    """
    hashes = " ".join(f"#{sha256(password).hexdigest()}" for password in dict.fromkeys(passwords.accepted))
    users = [f"user default on sanitize-payload {hashes} ~* &* +@all"]
    if sentinels is not None:
        users.append(f"user {SENTINEL} on #{sha256(sentinels).hexdigest()} {' '.join(SENTINELS_AT_SERVERS)}")
    return "".join(f"{user}\n" for user in users)
