"""The text in the ConfigMap `<instance>-declared`, whatever it declares. Light: agents read it before servers start."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from valkeyctl.kube.errors import KubeError
from valkeyctl.kube.labels import CLUSTER, OWNER_ANNOTATION, declared_name

KEY = "declared.json"
#: Raised when a reader of an older version would misunderstand what is written.
FORMAT = 1

Read = TypeVar("Read")
Reader: TypeAlias = Callable[[Mapping[str, Any], str, str], Read]


class DeclaredUnreadable(KubeError):  # noqa: N818 - reads as what happened
    """The ConfigMap holds something that this version doesn't understand: nobody may act on a guess."""


def read_text(
    known: Mapping[str, Any], instance: str, read: Callable[[Mapping[str, Any], str, str], Read]
) -> Read | None:
    """What `read` makes of the text (told, instance, owner) that a ConfigMap holds; None where it is still empty.

    Errors: DeclaredUnreadable, also where it is of another format.
    """
    text = (known.get("data") or {}).get(KEY)
    if not text:
        return None
    owner = str(((known.get("metadata") or {}).get("annotations") or {}).get(OWNER_ANNOTATION) or "")
    try:
        told = json.loads(text)
        if told["format"] != FORMAT:
            raise ValueError(f"it is of format {told['format']}, this version knows {FORMAT}")  # noqa: TRY301
        return read(told, instance, owner)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DeclaredUnreadable(
            f"ConfigMap {declared_name(instance)} is not understood: {type(error).__name__} {error}",
            remedy="The next `pulumi up` writes it anew.",
        ) from error


def declared_architecture(known: Mapping[str, Any] | None) -> str:
    """The architecture that a ConfigMap declares: "" where there is none, or nothing in it that is understood. Pure."""
    try:
        text = ((known or {}).get("data") or {})[KEY]
        return str(json.loads(text).get("architecture", CLUSTER))
    except (KeyError, ValueError, AttributeError):
        return ""
