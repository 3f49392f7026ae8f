"""What a stack config may say under `config`: names and values of the server's settings, checked and written safely."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from .owned import DIRECTIVES, owned_reason
from .problems import Problem, nearest
from .quantity import memory_bytes

#: As a program or a stack config gives it. A list is for the settings that have several entries (`save`).
ConfigValue = str | int | bool | tuple[str | int, ...] | list[str | int]

_CLASSES = ("normal", "replica", "pubsub")
_EVENTS = "Ag$lshzxeKEtmdn"
#: Settings whose value is several words in the server's file, so that it can't be put in quotes as a whole.
SEVERAL_WORDS = frozenset({"bind", "save", "client-output-buffer-limit", "latency-tracking-info-percentiles"})

#: The server's old names of settings that it has under new ones too. One name for one thing, here.
WIRE_WORDS = {
    "masterauth": "primaryauth",
    "masteruser": "primaryuser",
    "slaveof": "replicaof",
    "cluster-slave-no-failover": "cluster-replica-no-failover",
    "cluster-slave-validity-factor": "cluster-replica-validity-factor",
    "min-slaves-max-lag": "min-replicas-max-lag",
    "min-slaves-to-write": "min-replicas-to-write",
    "repl-ping-slave-period": "repl-ping-replica-period",
    "slave-announce-ip": "replica-announce-ip",
    "slave-announce-port": "replica-announce-port",
    "slave-ignore-maxmemory": "replica-ignore-maxmemory",
    "slave-lazy-flush": "replica-lazy-flush",
    "slave-priority": "replica-priority",
    "slave-read-only": "replica-read-only",
    "slave-serve-stale-data": "replica-serve-stale-data",
}


def plain(config: object) -> tuple[dict[str, str], list[Problem]]:
    """The settings as text (true is "yes", a list is its entries with a blank between them), and what can't be that."""
    if not isinstance(config, Mapping):
        return {}, [Problem((), config, "must be a mapping of the server's settings")]
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for name, value in config.items():
        text = _text(value)
        if text is None:
            what = "must be text, a whole number, true or false, or a list of texts"
            problems.append(Problem((str(name),), value, what))
        elif re.search(r"[\x00-\x1f\x7f\u0085\u2028\u2029]", text):
            problems.append(Problem((str(name),), value, "has a line break or another control character"))
        else:
            texts[str(name)] = text
    return texts, problems


def check(config: Mapping[str, str], settings: Mapping[str, str], server: str) -> Iterator[Problem]:
    """What is wrong with the settings, one problem for each.

    `settings` is what the server has (name → kind), `server` how to call it ("Valkey 9.1").
    """
    for name, value in config.items():
        reason = owned_reason(WIRE_WORDS.get(name, name))
        if reason:
            yield Problem((name,), value, f"is set by the component: {reason}")
        elif name not in settings:
            yield Problem((name,), value, _unknown(name, settings, server))
        elif name in WIRE_WORDS:
            yield Problem((name,), value, f"call it {WIRE_WORDS[name]}")
        elif problem := value_problem(name, settings[name], value):
            yield Problem((name,), value, problem)


def value_problem(name: str, kind: str, value: str) -> str:
    """Why the server would refuse a value; "" when nothing is known against it."""
    word, *rest = kind.split(" ")
    checks: dict[str, Callable[[str, list[str]], str]] = {
        "bool": lambda v, _: "" if v.lower() in ("yes", "no") else "must be true or false",
        "enum": _enum_problem,
        "int": _int_problem,
        "memory": _memory_problem,
        "memory-or-percent": lambda v, _: "" if re.fullmatch(r"\d{1,3}%", v) else _memory_problem(v, []),
        "special": lambda v, _: _GRAMMARS[name](v) if name in _GRAMMARS else "",
    }
    return checks[word](value, rest) if word in checks else ""


def directive(name: str, value: str) -> str:
    """The line of valkey.conf. Whatever the value is, the line is one directive with one value and nothing else."""
    if name in SEVERAL_WORDS and value:
        return f"{name} {value}"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name} "{escaped}"'


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        parts = [str(part) for part in value if isinstance(part, str | int) and not isinstance(part, bool)]
        return " ".join(parts) if len(parts) == len(value) else None
    return None


def _unknown(name: str, settings: Mapping[str, str], server: str) -> str:
    # Owned ones too: whoever misspelt one is led to the reason why it can't be set.
    offered = [name for name in (*settings, *DIRECTIVES) if name not in WIRE_WORDS]
    return f"{server} has no such setting{nearest(name, offered)}"


def _enum_problem(value: str, words: list[str]) -> str:
    if value.lower() in (word.lower() for word in words):
        return ""
    return f"must be one of {', '.join(words)}{nearest(value, words)}"


def _int_problem(value: str, limits: list[str]) -> str:
    if not re.fullmatch(r"-?\d{1,19}", value):
        return "must be a whole number"
    return _limits_problem(int(value), limits)


def _memory_problem(value: str, limits: list[str]) -> str:
    try:
        return _limits_problem(memory_bytes(value), limits)
    except ValueError as error:
        return str(error)


def _limits_problem(value: int, limits: list[str]) -> str:
    if not limits or int(limits[0]) <= value <= int(limits[1]):
        return ""
    # An upper end that is the end of the server's number type tells a person nothing.
    if int(limits[1]) >= 2**31 - 1 and value < int(limits[0]):
        return f"must be at least {limits[0]}"
    return f"must be {limits[0]} to {limits[1]}"


def _save_problem(value: str) -> str:
    words = value.split()
    if len(words) % 2 == 0 and all(re.fullmatch(r"\d{1,9}", word) for word in words) and "0" not in words[::2]:
        return ""
    return 'must be pairs of seconds and changes, like "900 1 300 10", or "" for no snapshots'


def _buffer_limit_problem(value: str) -> str:
    words = value.split()
    how = 'must be "<class> <hard limit> <soft limit> <soft seconds>", like "replica 256mb 64mb 60"'
    if not words or len(words) % 4:
        return how
    for at in range(0, len(words), 4):
        name, hard, soft, seconds = words[at : at + 4]
        if name not in _CLASSES:
            return f"has no client class {name}: {', '.join(_CLASSES)}{nearest(name, _CLASSES)}"
        if _memory_problem(hard, []) or _memory_problem(soft, []) or not seconds.isdigit():
            return how
    return ""


def _percentiles_problem(value: str) -> str:
    words = value.split()
    good = all(re.fullmatch(r"\d{1,3}(\.\d+)?", word) and float(word) <= 100 for word in words)
    return "" if good else 'must be percentiles from 0 to 100, like "50 99 99.9"'


def _events_problem(value: str) -> str:
    return "" if set(value) <= set(_EVENTS) else f"must be letters out of {_EVENTS}"


_GRAMMARS: dict[str, Callable[[str], str]] = {
    "save": _save_problem,
    "client-output-buffer-limit": _buffer_limit_problem,
    "latency-tracking-info-percentiles": _percentiles_problem,
    "notify-keyspace-events": _events_problem,
}
