"""The volume claims of an instance: declared here, one for each Pod, and found by its StatefulSet under their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .args import Persistence
from .quantity import size_bytes

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PersistentVolumeClaimSpecArgsDict

#: Fixed once a claim exists: Pulumi would replace the claim, and the data with it.
IGNORED_CHANGES = ["spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName"]

#: What becomes of a claim when its instance is destroyed. Pulumi alone knows else, and a policy pack is never told.
RECLAIM_ANNOTATION = "valkeyctl/reclaim-policy"


def claim_spec(persistence: Persistence) -> PersistentVolumeClaimSpecArgsDict:
    """A claim of the declared size. Only its size may change later, and only upwards."""
    spec: PersistentVolumeClaimSpecArgsDict = {
        "access_modes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": persistence.size}},
    }
    if persistence.storage_class_name is not None:
        spec["storage_class_name"] = persistence.storage_class_name
    return spec


def storage_of(persistence: Persistence | None) -> dict[str, Any] | None:
    """What may not change freely from one `up` to the next, for `Prepare` to compare."""
    if persistence is None:
        return None
    size = persistence.size
    return {"size": size, "bytes": size_bytes(size), "storageClassName": persistence.storage_class_name}
