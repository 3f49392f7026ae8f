"""Values of the server's settings in the words in which the server itself tells them, so that the two can be compared.

`CONFIG GET` tells bytes where a file may say `100mb`, and lower case where it may say `YES`. What a grammar of its own
leaves open (the order of letters, say) is compared by `valkeyctl.dataplane.settings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .quantity import memory_bytes

_BUFFERS = "client-output-buffer-limit"


def canonical(name: str, value: str, *, kind: str, defaults: Mapping[str, str]) -> str:
    """A value that `server_config.check` accepts, as the server would tell it.

    `defaults` are the server's: a setting of several entries that names only some of them has the others from there.
    """
    word, *words = kind.split(" ")
    if name == _BUFFERS:
        return _buffers({**_classes(defaults.get(name, "")), **_classes(value)})
    if word == "enum":
        return next((known for known in words if known.lower() == value.lower()), value)
    return _SPELLINGS[word](value)


def _bytes_or_percent(value: str) -> str:
    return f"{int(value[:-1])}%" if value.endswith("%") else str(memory_bytes(value))


#: Kind → how the server tells a value of it.
_SPELLINGS: dict[str, Callable[[str], str]] = {
    "bool": str.lower,
    "int": lambda value: str(int(value)),
    "memory": lambda value: str(memory_bytes(value)),
    "memory-or-percent": _bytes_or_percent,
    "special": lambda value: " ".join(value.split()),
    "text": str,
}


def _classes(value: str) -> dict[str, tuple[str, ...]]:
    """Client class → hard limit, soft limit, seconds."""
    words = value.replace("slave", "replica").split()
    return {words[at]: tuple(words[at + 1 : at + 4]) for at in range(0, len(words), 4)}


def _buffers(classes: Mapping[str, tuple[str, ...]]) -> str:
    return " ".join(
        f"{name} {memory_bytes(hard)} {memory_bytes(soft)} {int(seconds)}"
        for name, (hard, soft, seconds) in classes.items()
    )
