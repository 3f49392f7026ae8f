"""Passwords where anybody reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..model import Finding, Params, Resource, Surroundings
from ..pods import command_of, containers, pod_spec
from ..reading import arguments, at, directives, is_reference, items, text

#: Settings of the server that hold a password. The last is the server's own former word for the one before it.
_PASSWORDS = ("requirepass", "primaryauth", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass")
_SECRET_NAME = re.compile(r"(?<!by)(?<!com)pass(word|wd|phrase)?$|secret$|token$|credential|cli_?auth$", re.IGNORECASE)
_URL_WITH_PASSWORD = re.compile(r"\w://[^\s/:@]*:(?P<password>[^\s/@]+)@")
#: The tools' short option; not that of another command of the same script.
_TOOL_WITH_PASSWORD = re.compile(r"\b(?:valkey|redis)-(?:cli|benchmark)\b[^;&|\n]*?\s-a\s+(\S*)")
_KEY_OF_KUBECONFIG = re.compile(r"\b(token|password|client-key-data):\s*\S")
_NO_SECRET = re.compile(r"file$|path$|name$|dir$", re.IGNORECASE)


def plain_password(resource: Resource, _params: Params, surroundings: Surroundings) -> Iterator[Finding]:
    """Passwords where anybody reads them. None is ever repeated."""
    if resource.type == "pulumi:pulumi:Stack":
        for key in _plain_keys(surroundings.config):
            yield Finding(resource, f"the stack config holds {key} in plain text")
    yield from (Finding(resource, f"{place} holds a password in plain text{by}") for place, by in _kept_open(resource))
    for container in containers(resource):
        for option in dict.fromkeys(option for words in _commands(container.spec) for option in _open_options(words)):
            yield Finding(resource, f"{container.where} has a password on its command line ({option})")
        for variable in items(at(container.spec, "env")):
            name, value = text(at(variable, "name")), text(at(variable, "value"))
            if _holds_secret(name, value) and value not in _secret_names(resource):
                yield Finding(resource, f"{container.where} has a password in its environment ({name})")


def _commands(container: Any) -> Iterator[list[str]]:
    """All that is run in a container: its own command, and those of its probes and hooks."""
    yield command_of(container)
    hooks = [at(container, "lifecycle", hook) for hook in ("postStart", "preStop")]
    probes = [at(container, f"{probe}Probe") for probe in ("liveness", "readiness", "startup")]
    for one in (*hooks, *probes):
        yield [str(word) for word in items(at(one, "exec", "command"))]


def _open_options(words: Sequence[str]) -> Iterator[str]:
    """The options of a command that hold a password: those of the server, and those of its tools."""
    for name, values in arguments(words):
        if _tells_password(name, values) or (name == "pass" and _is_plain(values)):
            yield f"--{name}"
    if any(found[1] and _is_plain([found[1]]) for found in _TOOL_WITH_PASSWORD.finditer(" ".join(words))):
        yield "-a"


def _is_plain(words: Sequence[str]) -> bool:
    """Whether the first of the words is a password itself, and not the name of a variable that holds it."""
    return bool(words and words[0].strip("\"'")) and not is_reference(words[0])


def _holds_secret(name: str, value: str) -> bool:
    """Whether a value is a password, or a text in which one stands: a URL, or settings of the server."""
    if not value or is_reference(value):
        return False
    url = _URL_WITH_PASSWORD.search(value)
    in_url = bool(url) and not is_reference(url["password"])
    return _sounds_secret(name) or in_url or any(_open_options([value]))


def _kept_open(resource: Resource) -> Iterator[tuple[str, str]]:
    """The entries of a ConfigMap that hold a password, and by which setting."""
    for file, content in server_texts(resource):
        for name, words in directives(content):
            if _tells_password(name, words):
                yield file, f" ({name})"
    for key, value in _entries(resource):
        # Without a dot: an entry for an environment, and no file. Which Secret it is may be told.
        named = key.lower().endswith("secret")
        if "." not in key and "\n" not in value and _holds_secret("" if named else key, value):
            yield key, ""


def server_texts(resource: Resource) -> Iterator[tuple[str, str]]:
    """The files of a ConfigMap that may be the server's: its configuration and its users, whatever they are called."""
    for file, content in _entries(resource):
        if file.endswith((".conf", ".acl")) or "\n" in content:
            yield file, content


def _entries(resource: Resource) -> Iterator[tuple[str, str]]:
    """The known entries of a ConfigMap."""
    data = at(resource.props, "data") if resource.kind == "ConfigMap" and resource.is_kubernetes else None
    for key, content in data.items() if isinstance(data, Mapping) else ():
        yield str(key), text(content)


def _secret_names(resource: Resource) -> set[str]:
    """The names of the Secrets that the Pods mount: an agent may be told which one it is."""
    volumes = items(at(pod_spec(resource), "volumes"))
    return {text(at(volume, "secret", "secretName")) for volume in volumes}


def _tells_password(name: str, words: Sequence[str]) -> bool:
    if name in _PASSWORDS:
        return _is_plain(words)
    if name == "sentinel":
        last = {"auth-pass": 2, "sentinel-pass": 1}.get(words[0].lower() if words else "")
        return last is not None and _is_plain(words[last:])
    # `>` adds a password as it is; `#` adds its hash, which tells nothing.
    return name == "user" and any(word.startswith(">") and _is_plain([word[1:]]) for word in " ".join(words).split())


def _sounds_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _NO_SECRET.search(name)


def _plain_keys(config: Mapping[str, str]) -> Iterator[str]:
    """The paths in a stack config whose name says password and whose value is text."""
    for key, value in sorted(config.items()):
        try:
            loaded: Any = json.loads(value)
        except ValueError:
            loaded = value
        if isinstance(loaded, dict | list):
            yield from _below(key, loaded)
        elif _is_open(key, value):
            yield key


def _below(path: str, value: Any) -> Iterator[str]:
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in entries:
        here = f"{path}.{key}"
        if isinstance(part, dict | list):
            yield from _below(here, part)
        elif not isinstance(part, bool) and part is not None and _is_open(str(key), str(part)):
            yield here


def _is_open(key: str, value: str) -> bool:
    """Whether a value of the stack config is a secret: a password, a URL with one, the contents of a kubeconfig."""
    return _holds_secret(key, value) or (key.endswith("kubeconfig") and bool(_KEY_OF_KUBECONFIG.search(value)))
