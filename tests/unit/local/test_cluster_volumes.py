"""Which claims get a volume, what it is, and which volumes are removed."""

from copy import deepcopy
from typing import Any

import pytest

from local.cluster.volumes import SELECTED_NODE, Settings, is_to_be_removed, volume_for, wants_volume

SETTINGS = Settings(
    server="https://127.0.0.1:6443",
    ca="ca",
    cert="cert",
    key="key",
    provisioner="ours",
    storage_class="local-path",
    node_folder="/var/lib/volumes",
    host_folders={"node1": "/state/node1/volumes"},
)
CLAIM: dict[str, Any] = {
    "metadata": {"name": "data", "namespace": "ns", "uid": "u1", "annotations": {SELECTED_NODE: "node1"}},
    "spec": {
        "storageClassName": "local-path",
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": "1Gi"}},
    },
    "status": {"phase": "Pending"},
}


def test_a_claim_whose_node_is_chosen_wants_a_volume() -> None:
    assert wants_volume(CLAIM, SETTINGS)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("spec", {"storageClassName": "other"}),
        ("spec", {"volumeName": "pvc-u1"}),
        ("spec", {"volumeMode": "Block"}),
        ("spec", {"accessModes": ["ReadWriteMany"]}),
        ("status", {"phase": "Bound"}),
        ("metadata", {"annotations": {}}),
        ("metadata", {"annotations": {SELECTED_NODE: "node9"}}),
        ("metadata", {"deletionTimestamp": "now"}),
    ],
)
def test_other_claims_want_none_of_ours(part: str, change: dict[str, Any]) -> None:
    claim = deepcopy(CLAIM)
    claim[part] |= change
    assert not wants_volume(claim, SETTINGS)


def test_a_volume_is_a_folder_of_the_chosen_node() -> None:
    volume = volume_for(CLAIM, "Retain", SETTINGS)
    assert volume["metadata"]["name"] == "pvc-u1"
    spec = volume["spec"]
    assert spec["local"] == {"path": "/var/lib/volumes/pvc-u1"}
    assert spec["capacity"] == {"storage": "1Gi"}
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert spec["claimRef"]["uid"] == "u1"
    terms = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]}]}]


@pytest.mark.parametrize(
    ("policy", "phase", "removed"),
    [
        ("Delete", "Released", True),
        ("Delete", "Failed", True),
        ("Delete", "Bound", False),
        ("Delete", "Available", False),
        ("Retain", "Released", False),
    ],
)
def test_a_volume_is_removed_when_released_and_not_retained(policy: str, phase: str, *, removed: bool) -> None:
    volume = volume_for(CLAIM, policy, SETTINGS) | {"status": {"phase": phase}}
    assert is_to_be_removed(volume, SETTINGS) is removed


def test_a_volume_of_another_provisioner_is_left_alone() -> None:
    volume = volume_for(CLAIM, "Delete", SETTINGS) | {"status": {"phase": "Released"}}
    volume["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": "theirs"}
    assert not is_to_be_removed(volume, SETTINGS)
