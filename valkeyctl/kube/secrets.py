"""Passwords in Kubernetes Secrets: read by name and key, generated where absent. Their bytes go nowhere else."""

from __future__ import annotations

import base64
import binascii
import secrets
import string
from collections.abc import Mapping, Sequence

from valkeyctl.dataplane import Credentials
from valkeyctl.kube.access import Api, Object, path_of, terminating
from valkeyctl.kube.errors import ApiConflict, ApiNotFound, OwnedByOthers, SecretMissing
from valkeyctl.kube.labels import OWNER_ANNOTATION, SERVER_CONTAINER, secret_name, selector

LENGTH = 32
#: Letters and digits only: 190 bits at this length, and nothing that a shell, a URL or a config file would take amiss.
ALPHABET = string.ascii_letters + string.digits
_ATTEMPTS = 5
_GENERATED = "`pulumi up` makes it anew; where servers still run with the lost one, it says how to put that back."


def read_credentials(
    api: Api,
    namespace: str,
    reference: Mapping[str, str | None] | None,
    hint: str = "auth.passwordSecret",
    *,
    instance: str = "",
) -> Credentials:
    """The user and password that `{"user": …, "secretName": …, "key": …}` names; none where it is None.

    Errors: SecretMissing, naming the Secret and the setting (`hint`) that refers to it; of the Secret that is generated
    for `instance`, which nobody declares and nobody has to make, that `up` makes it.
    """
    if reference is None:
        return Credentials()
    name, key = str(reference.get("secretName") or ""), str(reference.get("key") or "password")
    generated = bool(instance) and name == secret_name(instance)
    try:
        return Credentials(user=reference.get("user"), password=_read(api, namespace, name, key, hint))
    except SecretMissing as error:
        if not generated:
            raise
        raise SecretMissing(error.what, where="the generated password", remedy=_GENERATED) from error


def _read(api: Api, namespace: str, name: str, key: str, hint: str) -> str:
    found = api.find(path_of("v1", "secrets", namespace, name))
    if found is None:
        raise SecretMissing(f"namespace {namespace} has no Secret '{name}'", where=hint, remedy="Create it first.")
    data: dict[str, str] = found.get("data") or {}
    if key not in data:
        listed = ", ".join(sorted(data)) or "none"
        raise SecretMissing(
            f"Secret '{name}' in namespace {namespace} has no key '{key}'; its keys: {listed}",
            where=hint,
            remedy="Name one of its keys, or add this one.",
        )
    try:
        password = base64.b64decode(data[key], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise SecretMissing(f"key '{key}' of Secret '{name}' is not UTF-8 text", where=hint) from error
    if not password:
        raise SecretMissing(f"key '{key}' of Secret '{name}' is empty", where=hint, remedy="Put a password there.")
    return password


def has_key(secret: Object | None, key: str) -> bool:
    """Whether a Secret holds something under the key."""
    return bool(secret is not None and (secret.get("data") or {}).get(key))


def ensure_password(
    api: Api,
    namespace: str,
    name: str,
    *,
    key: str,
    owners: Sequence[str],
    labels: Mapping[str, str],
    instance: str = "",
) -> None:
    """Generates a password into the key of our Secret, unless it is there. Idempotent; returns nothing on purpose.

    `owners`: the owner, then what it was called before. Errors: OwnedByOthers where the Secret exists and carries no
    owner, or another; ApiConflict where others keep writing it; SecretMissing where servers of `instance` run with a
    password that the Secret no longer has: another one would lock everybody out.
    """
    collection = path_of("v1", "secrets", namespace)
    wanted: Object = {"metadata": {"labels": dict(labels), "annotations": {OWNER_ANNOTATION: owners[0]}}}
    for attempt in range(_ATTEMPTS):
        try:
            known = api.find(f"{collection}/{name}")
            if known is None:
                _refuse_beside_servers(api, namespace, name, key=key, owner=owners[0], instance=instance)
                api.create(collection, _new(namespace, name, wanted["metadata"], key))
                return
            refuse_foreign_secret(known, *owners)
            if has_key(known, key):
                api.merge(f"{collection}/{name}", wanted)
                return
            _refuse_beside_servers(api, namespace, name, key=key, owner=owners[0], instance=instance)
            # Only over what was read: of two that generate, one wins, and both then see the same password.
            version = {"resourceVersion": known["metadata"]["resourceVersion"]}
            metadata = {**wanted["metadata"], **version}
            api.merge(f"{collection}/{name}", {"metadata": metadata, "stringData": {key: generate()}})
        except (ApiConflict, ApiNotFound):
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def refuse_foreign_secret(known: Object, *owners: str) -> None:
    """Raises OwnedByOthers where an existing Secret is not one of the owners'."""
    owner = str((known["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) or "")
    if owner not in owners:
        raise OwnedByOthers(
            f"Secret '{known['metadata']['name']}' exists and " + (f"belongs to {owner}" if owner else "has no owner"),
            remedy="To use a Secret of your own, name it under auth.passwordSecret; otherwise delete it.",
        )


def generate() -> str:
    """A new password."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def _new(namespace: str, name: str, metadata: Object, key: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {**metadata, "name": name, "namespace": namespace},
        "stringData": {key: generate()},
    }


def _refuse_beside_servers(api: Api, namespace: str, name: str, *, key: str, owner: str, instance: str) -> None:
    if not instance:
        return
    pods = api.items(path_of("v1", "pods", namespace), {"labelSelector": selector(instance)})
    # One that is being deleted, as after a `destroy` a moment ago, is spoken to by nobody any more.
    staying = [pod for pod in pods if not terminating(pod)]
    running = [str(pod["metadata"]["name"]) for pod in staying if (pod.get("status") or {}).get("phase") == "Running"]
    if running:
        raise SecretMissing(
            f"Secret '{name}' in namespace {namespace} has lost its key '{key}' while {len(running)} servers run with "
            "the password that was in it; a new one would lock everybody out",
            remedy="Put it back from a running Pod:\n"
            f"  kubectl -n {namespace} exec {running[0]} -c {SERVER_CONTAINER} -- cat /run/valkey/password |\n"
            f"    kubectl -n {namespace} create secret generic {name} --from-file={key}=/dev/stdin\n"
            f"  kubectl -n {namespace} annotate secret {name} {OWNER_ANNOTATION}={owner}",
        )
