"""The head of a snapshot file: where in the replication stream it was made, and whether anything is in it.

The format: a magic word of nine bytes, then fields, each the byte 0xFA, a name and a value; then the contents. A text
is a length and its bytes, or a small number in a form of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD_BYTES = 4096
"""The fields are a few hundred bytes."""
_MAGIC = (b"REDIS", b"VALKEY")
_FIELD, _END = 0xFA, 0xFF


@dataclass(frozen=True)
class Head:
    """What a snapshot tells of itself: "" and None where it doesn't say. `empty` is only true where that is certain."""

    replication_id: str = ""
    offset: int | None = None
    empty: bool = False


def read_head(start: bytes) -> Head:
    """Read the first HEAD_BYTES of a snapshot. What isn't understood tells nothing."""
    if not start.startswith(_MAGIC):
        return Head()
    fields: dict[bytes, bytes] = {}
    try:
        at = 9
        while start[at] == _FIELD:
            name, at = _text(start, at + 1)
            fields[name], at = _text(start, at)
        follows = start[at]
        offset = int(fields[b"repl-offset"]) if b"repl-offset" in fields else None
    except (IndexError, ValueError):
        return Head()
    return Head(fields.get(b"repl-id", b"").decode("ascii", "replace"), offset, empty=follows == _END)


def _text(start: bytes, at: int) -> tuple[bytes, int]:
    """A text, and where it ends. Raises ValueError for a form that no field has, IndexError where the bytes end."""
    first = start[at]
    form, low = first >> 6, first & 0x3F
    if form == 3:
        return _number(start, at, low)
    if form == 0:
        length, at = low, at + 1
    elif form == 1:
        length, at = low << 8 | start[at + 1], at + 2
    elif first == 0x80:
        length, at = int.from_bytes(start[at + 1 : at + 5], "big"), at + 5
    else:
        raise ValueError("a text of a form that isn't known")
    if at + length > len(start):
        raise IndexError("the text goes on beyond the head")
    return start[at : at + length], at + length


def _number(start: bytes, at: int, form: int) -> tuple[bytes, int]:
    """A number that is stored as such, in one, two or four bytes, as the text that it stands for."""
    if form > 2:
        raise ValueError("a number of a form that isn't known")
    end = at + 1 + (1 << form)
    if end > len(start):
        raise IndexError("the number goes on beyond the head")
    return str(int.from_bytes(start[at + 1 : end], "little", signed=True)).encode(), end
