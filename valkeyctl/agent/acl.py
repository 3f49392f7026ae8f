"""The users of the server, in its own file of them. Only hashes of passwords stand in it."""

from __future__ import annotations

from hashlib import sha256

from valkeyctl.agent.kept import Passwords

FILE = "users.acl"


def users_file(passwords: Passwords) -> str:
    """The text of the ACL file: the default user, who may do everything with any of the accepted passwords."""
    hashes = " ".join(f"#{sha256(password).hexdigest()}" for password in dict.fromkeys(passwords.accepted))
    return f"user default on sanitize-payload {hashes} ~* &* +@all\n"
