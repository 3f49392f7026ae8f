"""What can go wrong between us and the API server.

    ValkeyctlError                     (dataplane.errors) a message for a person: what, where, what to do
    └─ KubeError
       ├─ KubeconfigError              no kubeconfig, a broken one, or a credential plugin that fails
       ├─ ApiError                     the API server answered, but not with what was asked for
       │  ├─ ApiForbidden              401, 403
       │  ├─ ApiNotFound               404
       │  ├─ ApiConflict               409: somebody else wrote in between, or the object exists already
       │  ├─ ApiInvalid                400, 422
       │  └─ ApiBusy                   429, 5xx: it may work later
       ├─ ApiUnreachable               no answer at all, or not from whom it should come
       ├─ OwnedByOthers                objects that carry no owner, or another one
       ├─ SecretMissing                a Secret or one of its keys
       └─ LeaseHeld                    another converge works on the instance

Unreachable is never read as absent: only ApiNotFound says that an object does not exist.
"""

# ruff: noqa: N818  (names read as what happened, as in the tree above)

from __future__ import annotations

from valkeyctl.dataplane.errors import ValkeyctlError


class KubeError(ValkeyctlError):
    """Base of all errors of this package."""


class KubeconfigError(KubeError):
    """The kubeconfig, its context, or its credentials cannot be used."""


class ApiError(KubeError):
    """The API server refused or failed a request. `status` is the HTTP status, `reason` Kubernetes' own word."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", status: int = 0, reason: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.status = status
        self.reason = reason


class ApiForbidden(ApiError):
    """The credentials are not accepted, or lack a right."""


class ApiNotFound(ApiError):
    """The object does not exist."""


class ApiConflict(ApiError):
    """The object exists already, or changed since it was read."""


class ApiInvalid(ApiError):
    """The API server does not take the object."""


class ApiBusy(ApiError):
    """The API server cannot serve the request at the moment."""


class ApiUnreachable(KubeError):
    """No answer from the API server."""


class OwnedByOthers(KubeError):
    """Objects that the instance would write belong to somebody else."""


class SecretMissing(KubeError):
    """A Secret, or a key of it, is not there."""


class LeaseHeld(KubeError):
    """Another converge holds the instance's Lease."""
