"""Writes the tables of docs/reference/stack-config.md from the models that read the stack config.

`python docs/reference/generate.py` writes them anew, each between its marks; a test says whether they are in step. What
stands around them is written by hand.
"""

from __future__ import annotations

import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "stack-config.md"
sys.path.insert(0, str(Path(__file__).parents[2]))

from pydantic import BaseModel  # noqa: E402
from pydantic.fields import FieldInfo  # noqa: E402
from pydantic_core import PydanticUndefined  # noqa: E402

from components.args import (  # noqa: E402
    Agent,
    Amounts,
    Auth,
    ClusterArgs,
    ClusterSettings,
    Persistence,
    Resources,
    Rollout,
    SecretKey,
    Takeover,
)
from components.config_files import NODE_TIMEOUT_MS, base_file, live_file  # noqa: E402
from components.memory import SHARE_IN_MEMORY, SHARE_PERSISTENT  # noqa: E402
from components.owned import owned_reason, owned_table  # noqa: E402
from components.rules import NODE_TIMEOUT_MS as NODE_TIMEOUT_RANGE  # noqa: E402
from components.server_config import WIRE_WORDS  # noqa: E402
from components.server_settings import SETTINGS, START_ONLY  # noqa: E402
from components.versions import RELEASES, image_of  # noqa: E402
from settings import Instance, Kubernetes  # noqa: E402

_MARKED = re.compile(r"(<!-- begin ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def page(text: str) -> str:
    """The page with what stands between its marks written anew. Raises KeyError for a mark that stands for nothing."""
    return _MARKED.sub(lambda found: "".join([found[1], *(f"{line}\n" for line in PARTS[found[2]]()), found[3]]), text)


def table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """A table whose first row is its head."""
    for number, row in enumerate(rows):
        yield f"| {' | '.join(row)} |"
        if number == 0:
            yield "|---" * len(row) + "|"


def keys(model: type[BaseModel]) -> Iterator[str]:
    """The keys of a model, as a stack config has them."""
    # What an instance is comes before how it is made.
    fields = sorted(model.model_fields.items(), key=lambda item: item[0] != "architecture")
    rows = [(f"`{f.alias}`", type_of(f.annotation), default_of(f), str(f.description)) for _, f in fields]
    return table([("key", "type", "default", ""), *rows])


def arguments() -> Iterator[str]:
    """What the component's arguments have beside those of an instance."""
    own = {name: f for name, f in ClusterArgs.model_fields.items() if name not in ClusterSettings.model_fields}
    rows = [(f"`{name}`", default_of(field), str(field.description)) for name, field in own.items()]
    return table([("argument", "default", ""), *rows])


def type_of(annotation: Any) -> str:
    """The type in a reader's words."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return type_of(arguments[0])
    if origin in (types.UnionType, typing.Union):
        return type_of(next(argument for argument in arguments if argument is not type(None)))
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    return {str: "text", int: "number", bool: "true or false"}.get(annotation, "mapping")


def default_of(field: FieldInfo) -> str:
    """The default in a reader's words; "" where without the key there is nothing."""
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "*required*"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    shown = written(value) if isinstance(value, BaseModel) else str(value)
    return "" if value is None or shown == "{}" else f"`{shown}`"


def written(model: BaseModel) -> str:
    """A model as it would stand in a stack config, on one line."""
    given = ((field.alias, getattr(model, name)) for name, field in type(model).model_fields.items())
    texts = [(key, written(value) if isinstance(value, BaseModel) else value) for key, value in given]
    return "{" + ", ".join(f"{key}: {text}" for key, text in texts if text not in (None, "{}")) + "}"


def defaults() -> Iterator[str]:
    """Where a setting's default isn't the server's."""
    lowest, highest = NODE_TIMEOUT_RANGE
    share = f"{SHARE_IN_MEMORY} % of the memory limit, {SHARE_PERSISTENT} % with persistence"
    return table(
        [
            ("setting", "default here", "why"),
            (
                "`cluster-node-timeout`",
                str(NODE_TIMEOUT_MS),
                f"a shard gets its new primary in seconds; {lowest} to {highest} ms are accepted",
            ),
            (
                "`cluster-require-full-coverage`",
                "no",
                "a shard that is lost takes its own slots away from clients, not all others too",
            ),
            (
                "`maxmemory`",
                share,
                "the rest is for copies of pages while a child writes the dataset, and for buffers",
            ),
            ("`appendonly`", "yes with persistence, else no", "with a volume at most the last second is lost"),
            ("`save`", '""', "snapshots beside the append-only file would only cost memory and time"),
        ]
    )


def owned() -> Iterator[str]:
    """The settings that a stack config may not set."""
    return table([("setting", "because"), *((f"`{pattern}`", why) for pattern, why in owned_table())])


def needs_start() -> Iterator[str]:
    """The settings that a stack config may set and no running server takes, with the lines where that is so."""
    names = sorted(frozenset[str]().union(*START_ONLY.values()))
    offered = [name for name in names if not owned_reason(name) and "_" not in name and name not in WIRE_WORDS]
    lines = {name: [line for line in sorted(START_ONLY) if name in START_ONLY[line]] for name in offered}
    return table([("setting", "in"), *((f"`{name}`", ", ".join(found)) for name, found in lines.items())])


def started_with() -> Iterator[str]:
    """What a server reads when the stack config says nothing."""
    texts = {"valkey.conf": base_file(ClusterArgs()), "live.conf": live_file(ClusterArgs())}
    for name, text in texts.items():
        yield from (f"`{name}`:", "", "```", *text.splitlines(), "```", "")


def versions() -> Iterator[str]:
    """The versions that are known."""
    rows = [(f'`"{line}"`', f"`{image_of(line)}`", str(len(SETTINGS[line]))) for line in sorted(RELEASES, reverse=True)]
    return table([("`version`", "image", "settings that it has"), *rows])


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "kubernetes": partial(keys, Kubernetes),
    "instance": partial(keys, Instance),
    "persistence": partial(keys, Persistence),
    "resources": partial(keys, Resources),
    "amounts": partial(keys, Amounts),
    "auth": partial(keys, Auth),
    "secret": partial(keys, SecretKey),
    "agent": partial(keys, Agent),
    "rollout": partial(keys, Rollout),
    "takeover": partial(keys, Takeover),
    "defaults": defaults,
    "owned": owned,
    "needs-start": needs_start,
    "started-with": started_with,
    "versions": versions,
    "arguments": arguments,
}


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
