"""Whether a profile says what it means: a name that no rule has would leave a rule weaker than was meant, unseen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from .rules import BY_NAME

#: Pulumi's own key: a level for every policy of a pack.
_ALL = "all"
_LEVEL = "enforcementLevel"


def problems(profile: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The names in a profile (rule → its settings) that mean nothing, each with the nearest one that does."""
    for name, settings in profile.items():
        if name == _ALL:
            continue
        if name not in BY_NAME:
            yield f"there is no rule {name}{_nearest(name, list(BY_NAME))}"
            continue
        known = [_LEVEL, *BY_NAME[name].all_parameters]
        yield from (f"{name} has no parameter {key}{_nearest(key, known)}" for key in settings if key not in known)


def _nearest(name: str, known: Sequence[str]) -> str:
    by_letters = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), by_letters, n=1)
    return f"; did you mean {by_letters[close[0]]}?" if close else f"; there is {', '.join(sorted(known))}"
