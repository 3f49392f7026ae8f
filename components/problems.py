"""What is wrong with a configuration: collected in pydantic's errors, told in a person's words."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

Path = tuple[str | int, ...]

#: Whoever writes a password into the wrong place must not find it again in a log.
_HIDDEN = re.compile(r"pass|auth|secret|token|credential|kubeconfig|^user$", re.IGNORECASE)
_LONGEST_VALUE = 60
_DIGITS = re.compile(r"(\d+)")

_REASONS = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "missing": "is required",
}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, seen from the model that finds it, which value, and why."""

    path: Path
    value: object
    reason: str


def refuse(problems: Iterable[Problem]) -> None:
    """Raise all problems at once, if there are any. For validators: the paths get the validator's own before them."""
    found = list(problems)
    if found:
        raise ValidationError.from_exception_data(
            "problems", [InitErrorDetails(type=_rule(p.reason), loc=p.path, input=p.value) for p in found]
        )


def fail(reason: str) -> NoReturn:
    """Refuse the value that a validator is looking at."""
    raise _rule(reason)


def nearest(word: str, words: Iterable[str]) -> str:
    """ ", did you mean …?" with the word that is closest to `word`; "" when none is close."""
    by_fold = {_fold(candidate): candidate for candidate in words}
    close = get_close_matches(_fold(word), by_fold, n=1, cutoff=0.6)
    return f", did you mean {by_fold[close[0]]}?" if close else ""


def tell(
    error: ValidationError,
    model: type[BaseModel],
    root: str,
    *,
    hide: Collection[str] = (),
    written_at: Callable[[Path], Path] = lambda path: path,
) -> list[str]:
    """One line for each error: `<root>.<path> = <value>: <reason>`, sorted by path.

    `hide`: first keys of paths below which no value is shown. Those that may be passwords never are.
    `written_at`: where a person wrote what the model has at a path.
    """
    lines: set[tuple[str, str]] = set()
    for detail in error.errors(include_url=False):
        # pydantic marks an error of a mapping's key, as against its value, by one more part.
        path = tuple(part for part in detail["loc"] if part != "[key]")
        shown = (
            ""
            if detail["type"] == "missing"
            else _value(
                detail["input"],
                hide=any(part in hide for part in path[:1]) or _may_be_secret(model, path, detail["input"]),
            )
        )
        lines.add((render_path(root, written_at(path)), f"{shown}: {_reason(detail, model)}"))
    return in_order(path + rest for path, rest in lines)


def in_order(lines: Iterable[str]) -> list[str]:
    """Lines sorted by what stands in them, numbers by their value: `slots.2` comes before `slots.10`."""
    return sorted(
        lines, key=lambda line: [(not p.isdigit(), int(p) if p.isdigit() else p) for p in _DIGITS.split(line)]
    )


def render_path(root: str, path: Path) -> str:
    """A path as `pulumi config set --path` takes it: `root.key`, `root["odd key"]`, `root[0]`."""
    out = root
    for part in path:
        plain = isinstance(part, str) and re.fullmatch(r"[A-Za-z0-9_-]+", part)
        out += f".{part}" if plain else f"[{json.dumps(part)}]"
    return out.removeprefix(".")


def _rule(reason: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{reason}", {"reason": reason})


def _reason(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind = detail["type"]
    if kind == "rule":
        return detail["msg"]
    if kind == "extra_forbidden":
        *parents, key = detail["loc"]
        return f"unknown key{nearest(str(key), _keys(model, tuple(parents)))}"
    if kind == "literal_error":
        allowed = re.findall(r"'([^']+)'", str((detail.get("ctx") or {}).get("expected")))
        value = detail["input"]
        return f"must be {' or '.join(allowed)}{nearest(value, allowed) if isinstance(value, str) else ''}"
    return _REASONS.get(kind, detail["msg"])


def _keys(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that the model takes at `path`."""
    current: Any = model
    for part in path:
        current = _below(current, part)
    fields = getattr(current, "model_fields", {})
    return [field.alias or name for name, field in fields.items()]


def _below(annotation: Any, part: str | int) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return next((_model_in(f.annotation) for name, f in fields if part in (f.alias, name)), None)
    arguments = typing.get_args(annotation)
    return _model_in(arguments[-1]) if arguments else None


def _model_in(annotation: Any) -> Any:
    """The model of `Model | None`; anything else as it is."""
    if typing.get_origin(annotation) in (UnionType, typing.Union):
        return next((a for a in typing.get_args(annotation) if a is not type(None)), None)
    return annotation


def _may_be_secret(model: type[BaseModel], path: Path, value: object) -> bool:
    """Whether a key of the path sounds like a password. The name of an instance, which is anybody's choice, may."""
    current: Any = model
    for at, part in enumerate(path):
        named = typing.get_origin(current) is dict
        harmless = named and (at + 1 < len(path) or value == part)
        if not harmless and isinstance(part, str) and _HIDDEN.search(part):
            return True
        current = _below(current, part)
    return False


def _value(value: object, *, hide: bool) -> str:
    if hide:
        return " = (hidden)"
    if isinstance(value, Mapping):
        return " = {…}" if value else " = {}"
    if isinstance(value, list | tuple):
        return " = […]" if value else " = []"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f" = {text}" if len(text) <= _LONGEST_VALUE else f" = {text[: _LONGEST_VALUE - 1]}…"


def _fold(word: str) -> str:
    return re.sub(r"[-_\s]", "", word).lower()
