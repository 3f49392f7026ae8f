"""Shared defaults under what an instance says itself, and which of the two a value came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from .problems import Path

#: Two words for one thing: who says one of them doesn't want the other's default.
_INSTEAD = {"version": "image", "image": "version"}


def laid_over(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`own` over `defaults`: mappings key by key, everything else as a whole. `null` takes a default away."""
    unwanted = {_INSTEAD[key] for key in own if key in _INSTEAD and own[key] is not None} - set(own)
    return _merged({key: value for key, value in defaults.items() if key not in unwanted}, own)


def is_default(path: Path, defaults: object, own: object) -> bool:
    """Whether what stands at `path` came from the defaults: they lead further along it than the instance does."""
    return _depth(path, defaults) > _depth(path, own)


def _merged(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(cast("Mapping[str, Any]", defaults[key]), cast("Mapping[str, Any]", value))
        if isinstance(value, Mapping) and isinstance(defaults.get(key), Mapping)
        else value
        for key, value in own.items()
    }
    taken_away = {key for key, value in own.items() if value is None and key in defaults}
    return {key: value for key, value in {**defaults, **both}.items() if key not in taken_away}


def _depth(path: Path, value: object) -> int:
    for depth, part in enumerate(path):
        if not isinstance(value, Mapping) or part not in value:
            return depth
        value = cast("Mapping[Any, Any]", value)[part]
    return len(path)
