"""The ConfigMap that holds the agents' code."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence

from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.errors import ApiConflict, ApiNotFound, OwnedByOthers
from valkeyctl.kube.labels import OWNER_ANNOTATION
from valkeyctl.kube.ownership import owner_of

_ATTEMPTS = 3


def read_code(api: Api, namespace: str, name: str) -> Object | None:
    """The ConfigMap; None where there is none. Errors: those of the API."""
    return api.find(path_of("v1", "configmaps", namespace, name))


def code_in(known: Object | None, file: str) -> bytes:
    """The bytes under `file`; none where there is no such ConfigMap, no such file, or something else in it. Pure."""
    text = ((known or {}).get("binaryData") or {}).get(file) or ""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def write_code(
    api: Api,
    namespace: str,
    name: str,
    *,
    files: Mapping[str, str],
    owners: Sequence[str],
    labels: Mapping[str, str],
) -> None:
    """Writes file name → base64 into our ConfigMap, and makes that where there is none. Idempotent.

    `owners`: the owner, then what it was called before. Errors: OwnedByOthers, those of the API.
    """
    collection = path_of("v1", "configmaps", namespace)
    metadata: Object = {"labels": dict(labels), "annotations": {OWNER_ANNOTATION: owners[0]}}
    written: Object = {"apiVersion": "v1", "kind": "ConfigMap", "binaryData": dict(files)}
    for attempt in range(_ATTEMPTS):
        known = api.find(f"{collection}/{name}")
        try:
            if known is None:
                api.create(collection, {**written, "metadata": {**metadata, "name": name, "namespace": namespace}})
            else:
                if owner_of(known) not in owners:
                    raise OwnedByOthers(
                        f"ConfigMap '{name}' exists and belongs to {owner_of(known) or 'nobody that it names'}",
                        remedy="Delete it, or choose another name for the instance.",
                    )
                # Of what was read: whoever changes it meanwhile is seen, and looked at again.
                version = {"resourceVersion": known["metadata"]["resourceVersion"]}
                api.merge(f"{collection}/{name}", {**written, "metadata": {**metadata, **version}})
        except (ApiConflict, ApiNotFound):
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return
