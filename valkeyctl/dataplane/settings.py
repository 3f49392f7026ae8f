"""Settings of a running server: whether it has what is declared. Pure, and light to import."""

from __future__ import annotations

from collections.abc import Callable, Mapping

#: What the letter A stands for in `notify-keyspace-events`.
_ALL_EVENTS = "g$lshzxetd"


def same_value(name: str, declared: str, found: str) -> bool:
    """Whether a server that tells `found` has the declared value, which is written as it would tell it.

    For the settings with a grammar of their own: whatever order and spelling the server prefers.
    """
    reading = _READINGS.get(name)
    return declared == found if reading is None else reading(declared) == reading(found)


def differing(declared: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """The declared settings, with their declared values, that a server which tells `found` doesn't have.

    One that it doesn't tell at all differs.
    """
    return {
        name: value for name, value in declared.items() if name not in found or not same_value(name, value, found[name])
    }


def pairs_of(reply: list[object]) -> dict[str, str]:
    """The answer to CONFIG GET: name → value."""
    texts = [part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in reply]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _events(value: str) -> object:
    return frozenset(value.replace("A", _ALL_EVENTS))


def _buffers(value: str) -> object:
    words = value.replace("slave", "replica").split()
    return {words[at]: words[at + 1 : at + 4] for at in range(0, len(words), 4)}


def _numbers(value: str) -> object:
    return [float(word) for word in value.split()]


_READINGS: dict[str, Callable[[str], object]] = {
    "notify-keyspace-events": _events,
    "client-output-buffer-limit": _buffers,
    "latency-tracking-info-percentiles": _numbers,
    "save": str.split,
}
