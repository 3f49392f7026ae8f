"""Who gets in: encryption, passwords, network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..model import UNKNOWN, Finding, Params, Resource, Surroundings
from ..pods import by_instance, command_of, configuration, containers, pod_labels, pod_spec, same_namespace, servers
from ..pods import server_of as server_container
from ..reading import arguments, at, directives, is_vague, items, selects, text, whole
from ..scope import selector_of

BUS_PORT = 16379
#: Settings of the server that hold a password. The last is the server's own former word for the one before it.
_PASSWORDS = ("requirepass", "primaryauth", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass")
_SECRET_NAME = re.compile(r"pass(word|wd|phrase)?$|secret$|token$|credential", re.IGNORECASE)
_NO_SECRET = re.compile(r"file$|path$|name$|dir$", re.IGNORECASE)


def tls(resources: Sequence[Resource], _params: Params, _: Surroundings) -> Iterator[Finding]:
    """Servers that talk in plaintext."""
    for workload in by_instance(servers(resources)):
        encrypted = _encrypted(workload, resources)
        if encrypted is False:
            yield Finding(workload, "its servers don't listen for TLS (tls-port is 0)")
        elif encrypted and _port(configuration(workload, resources) or {}, "port", 6379):
            yield Finding(workload, "its servers listen in plaintext beside TLS (port isn't 0)")


def default_user(resource: Resource, _params: Params, _: Surroundings) -> Iterator[Finding]:
    """Servers that let everybody in: no password from a Secret, or a default user that needs none."""
    for file, content in _texts(resource):
        for name, words in directives(content):
            if name == "user" and words[:1] == ["default"] and "nopass" in words and "off" not in words:
                yield Finding(resource, f"{file} opens the user default without a password (nopass)")
    server = server_container(resource)
    if server is not None and not _has_secret(resource):
        given = dict(arguments(command_of(server)))
        if not {"requirepass", "aclfile", "user"} & set(given):
            yield Finding(resource, "its Pods get no Secret, so the server can have no password: user default is open")


def plain_password(resource: Resource, _params: Params, surroundings: Surroundings) -> Iterator[Finding]:
    """Passwords where anybody reads them. None is ever repeated."""
    if resource.type == "pulumi:pulumi:Stack":
        for key in _plain_keys(surroundings.config):
            yield Finding(resource, f"the stack config holds {key} in plain text")
    yield from (Finding(resource, f"{place} holds a password in plain text{by}") for place, by in _kept_open(resource))
    for container in containers(resource):
        for name, words in arguments(command_of(container.spec)):
            if _tells_password(name, words) or (name in ("pass", "a") and words):
                yield Finding(resource, f"{container.where} has a password on its command line (--{name})")
        for variable in items(at(container.spec, "env")):
            name, value = text(at(variable, "name")), text(at(variable, "value"))
            if _sounds_secret(name) and value and value not in _secret_names(resource):
                yield Finding(resource, f"{container.where} has a password in its environment ({name})")


def network_policy(resources: Sequence[Resource], _params: Params, _: Surroundings) -> Iterator[Finding]:
    """Servers that every Pod of the cluster reaches on every port, and buses that strangers reach."""
    policies = [one for one in resources if one.kind == "NetworkPolicy" and one.is_kubernetes]
    for workload in by_instance(servers(resources)):
        over = [
            (policy, selects(at(policy.props, "spec", "podSelector"), pod_labels(workload)))
            for policy in policies
            if same_namespace(policy, workload) and _is_for_ingress(policy)
        ]
        if not any(takes is not False for _policy, takes in over):
            yield Finding(workload, "no NetworkPolicy for ingress takes its Pods")
        for policy in (policy for policy, takes in over if takes):
            for rule in items(at(policy.props, "spec", "ingress")):
                if _takes_everybody(rule) and _takes_port(rule, BUS_PORT):
                    yield Finding(policy, f"lets everybody reach the cluster bus (port {BUS_PORT})")


def exposed_service(resources: Sequence[Resource], _params: Params, _: Surroundings) -> Iterator[Finding]:
    """Services that let the world in, without encryption or without a password."""
    for service in (one for one in resources if one.kind == "Service" and one.is_kubernetes):
        how = text(at(service.props, "spec", "type"))
        if how not in ("NodePort", "LoadBalancer") and not items(at(service.props, "spec", "externalIPs")):
            continue
        selector = selector_of(service)
        behind = (
            workload
            for workload in servers(resources)
            if selector and same_namespace(service, workload) and selects(selector, pod_labels(workload))
        )
        for workload in behind:
            lacking = [
                word
                for word, missing in (
                    ("TLS", _encrypted(workload, resources) is False),
                    ("a password", not _has_secret(workload)),
                )
                if missing
            ]
            if lacking:
                what = how or "Service with external addresses"
                yield Finding(service, f"is a {what} without {' and without '.join(lacking)}")
                break


def _kept_open(resource: Resource) -> Iterator[tuple[str, str]]:
    """The entries of a ConfigMap that hold a password, and by which setting."""
    for file, content in _texts(resource):
        for name, words in directives(content):
            if _tells_password(name, words):
                yield file, f" ({name})"
    for key, value in _entries(resource):
        # Without a dot: an entry for an environment, and no file. Which Secret it is may be told.
        if value and "." not in key and _sounds_secret(key) and not key.lower().endswith("secret"):
            yield key, ""


def _texts(resource: Resource) -> Iterator[tuple[str, str]]:
    """The files of a ConfigMap that are the server's: its configuration and its users."""
    for file, content in _entries(resource):
        if file.endswith((".conf", ".acl")):
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
        return bool(words and words[0])
    if name == "sentinel":
        return len(words) >= 3 and words[0].lower() in ("auth-pass", "sentinel-pass")
    # `>` adds a password as it is; `#` adds its hash, which tells nothing.
    return name == "user" and any(word.startswith(">") for word in words)


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
        elif value and _sounds_secret(key):
            yield key


def _below(path: str, value: Any) -> Iterator[str]:
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in entries:
        here = f"{path}.{key}"
        if isinstance(part, dict | list):
            yield from _below(here, part)
        elif isinstance(part, str) and part and _sounds_secret(str(key)):
            yield here


def _encrypted(workload: Resource, resources: Sequence[Resource]) -> bool | None:
    settings = configuration(workload, resources)
    return None if settings is None else bool(_port(settings, "tls-port", 0))


def _port(settings: Mapping[str, Sequence[str]], name: str, default: int) -> int:
    stated = next(iter(settings.get(name, [])), str(default))
    return int(stated) if stated.isdigit() else default


def _has_secret(resource: Resource) -> bool:
    """Whether the Pods get something secret, or may get it."""
    spec = pod_spec(resource)
    if spec is UNKNOWN or is_vague(at(spec, "volumes")):
        return True
    volumes = items(at(spec, "volumes"))
    sources = [source for volume in volumes for source in (volume, *items(at(volume, "projected", "sources")))]
    by_volume = any(at(source, "secret") or at(source, "csi") for source in sources)
    return by_volume or any(_env_has_secret(container.spec) for container in containers(resource))


def _env_has_secret(container: Any) -> bool:
    variables, whole_sets = at(container, "env"), at(container, "envFrom")
    if is_vague(variables) or is_vague(whole_sets):
        return True
    by_key = any(at(variable, "valueFrom", "secretKeyRef") for variable in items(variables))
    return by_key or any(at(source, "secretRef") for source in items(whole_sets))


def _is_for_ingress(policy: Resource) -> bool:
    types = at(policy.props, "spec", "policyTypes")
    return types is None or is_vague(types) or "Ingress" in items(types)


def _takes_everybody(rule: Any) -> bool:
    """Whether an ingress rule is known to let in every Pod, or every address."""
    peers = at(rule, "from")
    if peers in (None, []):
        return True
    return any(
        (at(peer, "ipBlock", "cidr") in ("0.0.0.0/0", "::/0") and not at(peer, "ipBlock", "except"))
        or (_takes_all(at(peer, "namespaceSelector")) and at(peer, "podSelector") in (None, {}))
        for peer in items(peers)
    )


def _takes_all(selector: Any) -> bool:
    return isinstance(selector, Mapping) and not any(selector.values())


def _takes_port(rule: Any, port: int) -> bool:
    """Whether an ingress rule is known to let a port in; a rule without ports lets all in."""
    ports = at(rule, "ports")
    if ports is UNKNOWN:
        return False
    if not ports:
        return True
    for entry in items(ports):
        low, high = whole(at(entry, "port")), whole(at(entry, "endPort"))
        if at(entry, "port") in (None, "bus") or (low is not None and low <= port <= (high or low)):
            return True
    return False
