"""Which Kubernetes it is: what an instance is made of takes a certain age of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import ApiError, KubeError

#: The first in which an init container may go on running beside the others, as the agent does, without a feature gate.
OLDEST = (1, 29)

_NUMBERS = re.compile(r"v?(\d+)\.(\d+)")


class KubernetesTooOld(KubeError):  # noqa: N818 - reads as what happened
    """This Kubernetes has not what an instance needs."""


def refuse_too_old(api: Api) -> None:
    """Raises KubernetesTooOld where the API server says that it is older than `OLDEST`.

    One that doesn't say, or doesn't want to, is not refused: most likely it is a new one behind a proxy.
    """
    try:
        told = api.get("/version")
    except ApiError:
        return
    version = numbers_of(told)
    if version is not None and version < OLDEST:
        raise KubernetesTooOld(
            f"this Kubernetes is {_text(version)}, and an instance needs {_text(OLDEST)} or newer: older ones don't "
            "know the sidecar that runs beside each server",
            where=str(api.target.origin),
            remedy="Upgrade the cluster, or choose another context.",
        )


def numbers_of(told: Mapping[str, Any]) -> tuple[int, int] | None:
    """Major and minor version in the answer to `/version`; None where it tells none."""
    for text in (str(told.get("gitVersion") or ""), f"{told.get('major')}.{told.get('minor')}"):
        if found := _NUMBERS.match(text):
            return int(found[1]), int(found[2])
    return None


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
