"""Reading what another agent told, as JSON: a value of another kind than expected is nonsense, not a surprise later."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar, cast

from valkeyctl.dataplane.model import Member

_Value = TypeVar("_Value", str, int, bool)
_Number = TypeVar("_Number", int, float, bool)


class Fields:
    """A JSON object, read by kinds. All raise ValueError for a value of another kind than was asked for."""

    def __init__(self, told: object) -> None:
        if not isinstance(told, Mapping):
            raise ValueError("not a JSON object")  # noqa: TRY004  (nonsense from outside is a value)
        self._told = cast(Mapping[str, object], told)

    def get(self, key: str, default: _Value) -> _Value:
        """The value, of the kind that the default has."""
        value = self._told.get(key, default)
        if type(value) is not type(default):
            raise ValueError(f"{key} has the wrong kind")
        return value

    def optional(self, key: str, kind: type[_Number]) -> _Number | None:
        """The value, None where there is none."""
        value = self._told.get(key)
        if value is None:
            return None
        if kind is float and type(value) is int:
            return kind(value)
        if type(value) is not kind:
            raise ValueError(f"{key} has the wrong kind")
        return value

    def inner(self, key: str) -> Fields:
        """The object under a key; an empty one where there is none."""
        return Fields(self._told.get(key, {}))

    def each(self, key: str) -> Iterator[Fields]:
        """The objects of the list under a key."""
        values = self._told.get(key, [])
        if not isinstance(values, list):
            raise ValueError(f"{key} has the wrong kind")  # noqa: TRY004  (nonsense from outside is a value)
        return (Fields(value) for value in cast(list[object], values))


def text_of(member: Member | None) -> str:
    """A member by its name, "" for none."""
    return "" if member is None else str(member)


def member_of_text(text: str) -> Member:
    """The member of a name like `s0-1`. Raises ValueError."""
    match = re.fullmatch(r"s(\d{1,9})-(\d{1,9})", text)
    if match is None:
        raise ValueError("not the name of a member")
    return Member(int(match[1]), int(match[2]))


def member_or_none(text: str) -> Member | None:
    """The member of a name, None for ""."""
    return member_of_text(text) if text else None
