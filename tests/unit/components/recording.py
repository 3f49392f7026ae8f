"""Runs a program against an engine that registers nothing and remembers everything it is asked to register."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pulumi
from google.protobuf.json_format import MessageToDict
from pulumi.runtime import mocks, rpc, settings

#: Under this key the engine marks a secret in what it is sent.
SECRET = rpc._special_sig_key


@dataclass(frozen=True)
class Registered:
    """A resource as the engine was asked for it. `inputs` are plain, secrets unwrapped; names stand for resources."""

    type: str
    name: str
    inputs: dict[str, Any]
    secret: frozenset[str]
    parent: str
    provider: str
    depends_on: frozenset[str]
    ignore_changes: tuple[str, ...]
    retain_on_delete: bool

    @property
    def kind(self) -> str:
        """StatefulSet, Topology, …; Provider for a provider."""
        return "Provider" if self.type.startswith("pulumi:providers:") else self.type.split(":")[-1]

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name}"


class Program:
    """What a program registered, in order, and what it exported."""

    def __init__(self, resources: list[Registered], outputs: dict[str, Any]) -> None:
        self.resources = resources
        self.outputs = outputs

    def __iter__(self) -> Iterator[Registered]:
        return iter(self.resources)

    def __getitem__(self, label: str) -> Registered:
        found = [resource for resource in self.resources if resource.label == label]
        assert len(found) == 1, f"{label}: {len(found)} of {[resource.label for resource in self.resources]}"
        return found[0]

    def of(self, kind: str) -> list[Registered]:
        return [resource for resource in self.resources if resource.kind == kind]

    def below(self, label: str) -> set[str]:
        """Everything that the resource waits for, directly or through another."""
        found: set[str] = set()
        left = [label]
        while left:
            more = self[left.pop()].depends_on - found
            found |= more
            left += more
        return found


class _Engine(mocks.Mocks):
    """Gives back what it was given; outputs of our dynamic resources are what a real one may tell."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        outputs = dict(args.inputs)
        if args.typ.endswith(":Topology"):
            outputs |= {"phase": "Ready", "layout": {"s0": "0-16383"}, "server_version": "9.1.2"}
        return f"{args.name}-id", outputs

    def call(self, args: mocks.MockCallArgs) -> dict[str, Any]:
        raise AssertionError(f"nothing here asks a provider a question: {args.token}")


def record(program: Callable[[], dict[str, pulumi.Output[Any]] | None], *, preview: bool = False) -> Program:
    """Run `program`; what it returns is waited for, and becomes the outputs."""
    requests: list[Any] = []
    # Outputs belong to the loop that they are made in: each program gets its own.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    mocks.set_mocks(_Engine(), project="valkey", stack="dev", preview=preview, organization="acme")
    monitor = settings.get_monitor()
    register = monitor.RegisterResource

    def remember(request: Any) -> Any:
        requests.append(request)
        return register(request)

    monitor.RegisterResource = remember
    outputs: dict[str, Any] = {}

    def run() -> Any:
        returned = program() or {}
        return pulumi.Output.all(**returned).apply(outputs.update)

    try:
        pulumi.runtime.test(run)()
    finally:
        loop.close()
        asyncio.set_event_loop(asyncio.new_event_loop())
    # The stack itself is registered once for all programs of a test run.
    return Program([_registered(request) for request in requests if request.type != "pulumi:pulumi:Stack"], outputs)


def _registered(request: Any) -> Registered:
    raw: dict[str, Any] = MessageToDict(request.object)
    return Registered(
        type=request.type,
        name=request.name,
        inputs={key: _plain(value) for key, value in raw.items()},
        secret=frozenset(key for key, value in raw.items() if isinstance(value, dict) and SECRET in value),
        parent=_label(request.parent),
        # The engine is told a provider as `<urn>::<id>`.
        provider=_label(request.provider.rsplit("::", 1)[0]) if request.provider else "",
        depends_on=frozenset(_label(urn) for urn in request.dependencies),
        ignore_changes=tuple(request.ignoreChanges),
        retain_on_delete=request.retainOnDelete,
    )


def _label(urn: str) -> str:
    if not urn:
        return ""
    *_, types, name = urn.split("::")
    last = types.split("$")[-1]
    return f"Provider {name}" if "pulumi:providers:" in types else f"{last.split(':')[-1]} {name}"


def _plain(value: Any) -> Any:
    """Secrets unwrapped; whole numbers as such (they travel as floats)."""
    if isinstance(value, dict):
        return _plain(value["value"]) if SECRET in value else {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
