"""Dynamic volumes: a folder on the node that the scheduler chose, for each claim of the class `local-path`.

Runs as a service of the control plane, by the standard library alone: `volumes.py SETTINGS`, a JSON file of Settings.

The nodes' folders lie on one disk, so that a volume is made and removed at once, without a Pod for it, and also
while its node is down. A folder is removed when its PersistentVolume is released and its reclaim policy says Delete.
"""

import http.client
import json
import shutil
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_WATCH_S = 300
_RETRY_S = 1.0
_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Settings:
    server: str
    ca: str
    cert: str
    key: str
    provisioner: str
    storage_class: str
    node_folder: str
    """Where the volumes are, as the nodes see it."""
    host_folders: dict[str, str]
    """Where each node's volumes are, as this process sees it."""


class ConflictError(Exception):
    """The object exists already."""


class GoneError(Exception):
    """The object, or the point from which to watch, exists no more."""


class Client:
    """JSON over HTTPS with the provisioner's own certificate."""

    def __init__(self, settings: Settings) -> None:
        self._host = urlsplit(settings.server)
        self._context = ssl.create_default_context(cafile=settings.ca)
        self._context.load_cert_chain(settings.cert, settings.key)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = self._connect(_TIMEOUT_S)
        try:
            return json.loads(self._response(connection, method, path, body).read())
        finally:
            connection.close()

    def watch(self, path: str, version: str) -> Iterator[Any]:
        connection = self._connect(_WATCH_S + _TIMEOUT_S)
        query = f"?watch=true&allowWatchBookmarks=true&timeoutSeconds={_WATCH_S}&resourceVersion={version}"
        try:
            for line in self._response(connection, "GET", path + query, None):
                yield json.loads(line)
        finally:
            connection.close()

    def _connect(self, timeout_s: float) -> http.client.HTTPSConnection:
        host, port = self._host.hostname or "", self._host.port or 443
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=self._context)

    @staticmethod
    def _response(
        connection: http.client.HTTPSConnection, method: str, path: str, body: Any
    ) -> http.client.HTTPResponse:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status == 409:
            raise ConflictError(path)
        if response.status in (404, 410):
            raise GoneError(path)
        if response.status >= 300:
            raise OSError(f"{method} {path}: {response.status} {response.read()[:300]!r}")
        return response


def wants_volume(claim: dict[str, Any], settings: Settings) -> bool:
    """Whether a claim of our class has its node chosen and no volume yet."""
    return (
        claim["spec"].get("storageClassName") == settings.storage_class
        and not claim["spec"].get("volumeName")
        and claim["spec"].get("volumeMode", "Filesystem") == "Filesystem"
        and set(claim["spec"].get("accessModes", [])) <= {"ReadWriteOnce", "ReadWriteOncePod"}
        and claim["status"].get("phase") == "Pending"
        and claim["metadata"].get("annotations", {}).get(SELECTED_NODE) in settings.host_folders
        and "deletionTimestamp" not in claim["metadata"]
    )


def volume_for(claim: dict[str, Any], reclaim_policy: str, settings: Settings) -> dict[str, Any]:
    """The PersistentVolume that a claim gets: a folder of the chosen node, under the claim's own name."""
    metadata, spec = claim["metadata"], claim["spec"]
    node = metadata["annotations"][SELECTED_NODE]
    name = f"pvc-{metadata['uid']}"
    on_this_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: settings.provisioner, SELECTED_NODE: node}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            # Of type local, unlike hostPath, the kubelet gives it to the Pod's group (fsGroup).
            "local": {"path": f"{settings.node_folder}/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_this_node]}]}},
            "persistentVolumeReclaimPolicy": reclaim_policy,
            "storageClassName": settings.storage_class,
            "volumeMode": "Filesystem",
        },
    }


def is_to_be_removed(volume: dict[str, Any], settings: Settings) -> bool:
    return (
        volume["metadata"].get("annotations", {}).get(PROVISIONED_BY) == settings.provisioner
        and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        and volume["status"].get("phase") in ("Released", "Failed")
    )


def provision(client: Client, claim: dict[str, Any], settings: Settings) -> None:
    storage_class = client.call("GET", f"/apis/storage.k8s.io/v1/storageclasses/{settings.storage_class}")
    volume = volume_for(claim, storage_class.get("reclaimPolicy", "Delete"), settings)
    name = volume["metadata"]["name"]
    folder = Path(settings.host_folders[claim["metadata"]["annotations"][SELECTED_NODE]]) / name
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    try:
        client.call("POST", "/api/v1/persistentvolumes", volume)
    except ConflictError:
        return
    print(f"made {name} for {claim['metadata']['namespace']}/{claim['metadata']['name']}", flush=True)


def remove(client: Client, volume: dict[str, Any], settings: Settings) -> None:
    name, node = volume["metadata"]["name"], volume["metadata"]["annotations"].get(SELECTED_NODE, "")
    if node in settings.host_folders:
        shutil.rmtree(Path(settings.host_folders[node]) / name, ignore_errors=True)
    try:
        client.call("DELETE", f"/api/v1/persistentvolumes/{name}")
    except GoneError:
        return
    print(f"removed {name}", flush=True)


def follow(client: Client, path: str, handle: Callable[[dict[str, Any]], None]) -> None:
    """Handle every object that is there and every one that changes, for ever; start over after any failure."""
    while True:
        try:
            listed = client.call("GET", path)
            for item in listed["items"]:
                handle(item)
            for event in client.watch(path, listed["metadata"]["resourceVersion"]):
                if event["type"] == "ERROR":
                    break
                if event["type"] in ("ADDED", "MODIFIED"):
                    handle(event["object"])
        except GoneError:
            continue
        except Exception as error:  # noqa: BLE001  # whatever it was, the next turn lists everything anew
            print(f"{path}: {error!r}", flush=True)
            time.sleep(_RETRY_S)


def main() -> None:
    settings = Settings(**json.loads(Path(sys.argv[1]).read_text()))
    client = Client(settings)

    def on_claim(claim: dict[str, Any]) -> None:
        if wants_volume(claim, settings):
            provision(client, claim, settings)

    def on_volume(volume: dict[str, Any]) -> None:
        if is_to_be_removed(volume, settings):
            remove(client, volume, settings)

    volumes = threading.Thread(target=follow, args=(client, "/api/v1/persistentvolumes", on_volume), daemon=True)
    volumes.start()
    follow(client, "/api/v1/persistentvolumeclaims", on_claim)


if __name__ == "__main__":
    main()
