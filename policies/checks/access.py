"""Who gets in: encryption, the default user, network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..model import UNKNOWN, Finding, Params, Resource, Surroundings
from ..pods import command_of, configuration, containers, once, pod_spec, same_namespace, servers, takes
from ..pods import server_of as server_container
from ..reading import arguments, at, directives, is_vague, items, text, whole
from ..scope import selector_of
from .passwords import server_texts

BUS_PORT = 16379


def tls(resources: Sequence[Resource], _params: Params, _: Surroundings) -> Iterator[Finding]:
    """Servers that talk in plaintext."""
    yield from once(_plaintext(resources))


def _plaintext(resources: Sequence[Resource]) -> Iterator[Finding]:
    for workload in servers(resources):
        encrypted = _encrypted(workload, resources)
        if encrypted is False:
            yield Finding(workload, "its servers don't listen for TLS (tls-port is 0)")
        elif encrypted and _port(configuration(workload, resources) or {}, "port", 6379):
            yield Finding(workload, "its servers listen in plaintext beside TLS (port isn't 0)")


def default_user(resource: Resource, _params: Params, _: Surroundings) -> Iterator[Finding]:
    """Servers that let everybody in: no password from a Secret, or a default user that needs none."""
    for file, content in server_texts(resource):
        for name, words in directives(content):
            if name == "user" and words[:1] == ["default"] and "nopass" in words and "off" not in words:
                yield Finding(resource, f"{file} opens the user default without a password (nopass)")
    server = server_container(resource)
    if server is not None and not _has_secret(resource):
        given = dict(arguments(command_of(server)))
        if not any(given.get(name, [""])[:1] != [""] for name in ("requirepass", "aclfile", "user")):
            yield Finding(resource, "its Pods get no Secret, so the server can have no password: user default is open")


def network_policy(resources: Sequence[Resource], _params: Params, _: Surroundings) -> Iterator[Finding]:
    """Servers that every Pod of the cluster reaches on every port, and buses that strangers reach."""
    policies = [one for one in resources if one.kind == "NetworkPolicy" and one.is_kubernetes]
    yield from once(_reached(resources, policies))


def _reached(resources: Sequence[Resource], policies: Sequence[Resource]) -> Iterator[Finding]:
    for workload in servers(resources):
        over = [
            (policy, takes(at(policy.props, "spec", "podSelector"), workload))
            for policy in policies
            if same_namespace(policy, workload) and _is_for_ingress(policy)
        ]
        if not any(taking is not False for _policy, taking in over):
            yield Finding(workload, "no NetworkPolicy for ingress takes its Pods")
        for policy in (policy for policy, taking in over if taking):
            for rule in items(at(policy.props, "spec", "ingress")):
                if _takes_everybody(rule) and _takes_port(rule, BUS_PORT, workload):
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
            for workload in resources
            if server_container(workload) is not None
            and selector
            and same_namespace(service, workload)
            and takes(selector, workload)
        )
        for workload in behind:
            lacking = [
                word
                for word, missing in (
                    ("TLS", _encrypted(workload, resources) is False or _opens_plaintext(service, workload, resources)),
                    ("a password", not _has_secret(workload)),
                )
                if missing
            ]
            if lacking:
                what = how or "Service with external addresses"
                yield Finding(service, f"is a {what} without {' and without '.join(lacking)}")
                break


def _encrypted(workload: Resource, resources: Sequence[Resource]) -> bool | None:
    settings = configuration(workload, resources)
    return None if settings is None else bool(_port(settings, "tls-port", 0))


def _port(settings: Mapping[str, Sequence[str]], name: str, default: int) -> int:
    stated = next(iter(settings.get(name, [])), str(default))
    return int(stated) if stated.isdigit() else default


def _opens_plaintext(service: Resource, workload: Resource, resources: Sequence[Resource]) -> bool:
    """Whether a Service is known to lead to the port on which its servers talk plaintext beside TLS."""
    settings = configuration(workload, resources)
    plain = _port(settings, "port", 6379) if settings is not None else 0
    aims = [at(port, "targetPort") or at(port, "port") for port in items(at(service.props, "spec", "ports"))]
    return bool(plain) and any(_number(aim, workload) == plain for aim in aims)


def _number(port: Any, workload: Resource) -> int | None:
    """A port by its number, or by the name that a container has for it."""
    named = (
        at(one, "containerPort")
        for container in containers(workload)
        for one in items(at(container.spec, "ports"))
        if text(port) and at(one, "name") == port
    )
    return whole(next(named, port))


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
        text(at(peer, "ipBlock", "cidr")).endswith("/0")
        or (_takes_all(at(peer, "namespaceSelector")) and at(peer, "podSelector") in (None, {}))
        for peer in items(peers)
    )


def _takes_all(selector: Any) -> bool:
    return isinstance(selector, Mapping) and not any(selector.values())


def _takes_port(rule: Any, port: int, workload: Resource) -> bool:
    """Whether an ingress rule is known to let a port in; a rule without ports lets all in."""
    ports = at(rule, "ports")
    if ports is UNKNOWN:
        return False
    if not ports:
        return True
    for entry in items(ports):
        low, high = _number(at(entry, "port"), workload), whole(at(entry, "endPort"))
        if at(entry, "protocol") in ("UDP", "SCTP"):
            continue
        if at(entry, "port") in (None, "bus") or (low is not None and low <= port <= (high or low)):
            return True
    return False
