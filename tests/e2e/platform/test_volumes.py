"""Dynamic volumes: made on the node of the Pod that wants them, kept with it, and removed or retained after it."""

from pathlib import Path
from typing import Any

from tests.e2e.harness.kube import Kube, Object, eventually
from tests.e2e.platform.platform import Namespace


def _claim(kube: Kube, namespace: Namespace, name: str, **spec: Any) -> None:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}, **spec}
    kube.create("persistentvolumeclaims", namespace.name, {"metadata": {"name": name}, "spec": body})


def _server_with(namespace: Namespace, name: str, claim: str, **spec: Any) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    namespace.server(name, volumes=volumes, volume_mounts=mounts, **spec)


def _volume(kube: Kube, namespace: Namespace, claim: str) -> Object:
    bound = kube.get("persistentvolumeclaims", namespace.name, claim)
    assert bound is not None
    assert bound["status"]["phase"] == "Bound"
    return kube.request("GET", f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}")


def _folders(kube: Kube, volume: str) -> list[Path]:
    return list((Path(kube.kubeconfig).parent / "machines").glob(f"node*/var/lib/volumes/{volume}"))


def test_a_claim_waits_for_its_first_pod(kube: Kube, namespace: Namespace) -> None:
    _claim(kube, namespace, "data")
    claim = kube.get("persistentvolumeclaims", namespace.name, "data")
    assert claim is not None
    assert claim["spec"]["storageClassName"] == "local-path"
    assert claim["status"]["phase"] == "Pending"
    _server_with(namespace, "server", "data")
    node = namespace.ready("server")["spec"]["nodeName"]
    volume = _volume(kube, namespace, "data")
    assert node in str(volume["spec"]["nodeAffinity"])
    assert [path.parts[-5] for path in _folders(kube, volume["metadata"]["name"])] == [node]


def test_data_outlives_the_pod_also_of_another_user(kube: Kube, namespace: Namespace) -> None:
    _claim(kube, namespace, "data")
    user = {"runAsUser": 999, "runAsNonRoot": True, "fsGroup": 999}
    _server_with(namespace, "first", "data", securityContext=user)
    node = namespace.ready("first")["spec"]["nodeName"]
    written = kube.execute(namespace.name, "first", ["sh", "-c", "echo kept > /data/file && id -u"])
    assert written.out.strip() == "999", written.err
    kube.delete("pods", namespace.name, "first", grace_s=0)
    _server_with(namespace, "second", "data", securityContext=user)
    assert namespace.ready("second")["spec"]["nodeName"] == node
    assert kube.execute(namespace.name, "second", ["cat", "/data/file"]).out.strip() == "kept"


def test_a_deleted_claim_takes_its_data_along(kube: Kube, namespace: Namespace) -> None:
    _claim(kube, namespace, "data")
    _server_with(namespace, "server", "data")
    namespace.ready("server")
    name = _volume(kube, namespace, "data")["metadata"]["name"]
    kube.delete("pods", namespace.name, "server", grace_s=0)
    kube.delete("persistentvolumeclaims", namespace.name, "data")
    volumes = "/api/v1/persistentvolumes"
    gone = lambda: name not in [item["metadata"]["name"] for item in kube.request("GET", volumes)["items"]]  # noqa: E731
    eventually("the volume is gone", gone, timeout_s=30)
    assert _folders(kube, name) == []


def test_a_retained_volume_keeps_its_data(kube: Kube, namespace: Namespace) -> None:
    _claim(kube, namespace, "data")
    _server_with(namespace, "server", "data")
    namespace.ready("server")
    path = f"/api/v1/persistentvolumes/{_volume(kube, namespace, 'data')['metadata']['name']}"
    retain = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
    kube.request("PATCH", path, retain, "application/merge-patch+json")
    kube.execute(namespace.name, "server", ["sh", "-c", "echo kept > /data/file"])
    kube.delete("pods", namespace.name, "server", grace_s=0)
    kube.delete("persistentvolumeclaims", namespace.name, "data")
    released = lambda: kube.request("GET", path)["status"]["phase"] == "Released"  # noqa: E731
    eventually("the volume is released", released, timeout_s=30)
    (folder,) = _folders(kube, path.rsplit("/", 1)[-1])
    assert (folder / "file").read_text() == "kept\n"
    # Delete it after all, so that the test leaves nothing.
    kube.request("PATCH", path, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, "application/merge-patch+json")
    eventually("the folder is gone", lambda: not folder.exists(), timeout_s=30)
