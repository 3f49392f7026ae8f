"""The engine that a provider works for, and what a user reads of an error: in processes as Pulumi starts them."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.dynamic import CreateResult
from pulumi.dynamic.dynamic import serialize_provider
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2, provider_pb2_grpc

from valkeyctl.dataplane.errors import Interrupted, ValkeyctlError
from valkeyctl.lifecycle.engine import Engine, engine, is_dynamic_provider
from valkeyctl.lifecycle.provider import Props, Provider
from valkeyctl.lifecycle.rendering import render_plainly

ROOT = Path(__file__).resolve().parents[3]
URN = "urn:pulumi:dev::valkey::pulumi-python:dynamic/valkey:Topology::sessions"


class FakeEngine(engine_pb2_grpc.EngineServicer):
    """Pulumi's end of the log."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, bool]] = []

    def Log(self, request: Any, context: object) -> empty_pb2.Empty:  # noqa: ARG002, N802 - the protocol's
        self.told.append((request.message, request.urn, request.ephemeral))
        return empty_pb2.Empty()


@contextmanager
def serving() -> Iterator[tuple[FakeEngine, str, Any]]:
    told = FakeEngine()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    engine_pb2_grpc.add_EngineServicer_to_server(told, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield told, f"127.0.0.1:{port}", server
    finally:
        server.stop(0)


class Misbehaving(Provider):
    """Fails, tells, or takes its time, as its props say. Pickled by reference to this module."""

    def create_it(self, props: Props) -> CreateResult:
        if props["do"] == "mistake":
            raise ValkeyctlError("the Secret is missing", where="sessions", remedy="Create it.")
        if props["do"] == "bug":
            raise KeyError("a bug")
        if props["do"] == "tell":
            engine().progress("half way")
            engine().info("s0-0: meet s1-0")
        for _ in range(int(props.get("steps") or 0)):
            engine().require()
            time.sleep(0.2)
        return CreateResult("id", {})


@contextmanager
def provider(address: str) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """The process in which Pulumi runs dynamic providers, and a client of it."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "pulumi.dynamic", address],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PULUMI_PROJECT": "valkey"},
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield process, provider_pb2_grpc.ResourceProviderStub(channel)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def create(stub: Any, **props: Any) -> Any:
    request = provider_pb2.CreateRequest(urn=URN)
    request.properties.update({"__provider": serialize_provider(Misbehaving()), **props})
    return stub.Create(request, timeout=20)


def test_a_users_mistake_shows_no_traceback_and_a_bug_keeps_its() -> None:
    with serving() as (_told, address, _server), provider(address) as (_process, stub):
        with pytest.raises(grpc.RpcError) as mistake:
            create(stub, do="mistake")
        assert mistake.value.details() == "sessions: the Secret is missing. Create it."
        with pytest.raises(grpc.RpcError) as bug:
            create(stub, do="bug")
        assert "Traceback (most recent call last)" in bug.value.details()
        assert "KeyError: 'a bug'" in bug.value.details()


def test_messages_go_to_the_resource_that_is_worked_on() -> None:
    with serving() as (told, address, _server), provider(address) as (_process, stub):
        create(stub, do="tell")
        assert told.told == [("half way", URN, True), ("s0-0: meet s1-0", URN, False)]


def test_an_idle_provider_ends_with_its_engine() -> None:
    with serving() as (_told, address, server), provider(address) as (process, stub):
        create(stub, do="nothing")
        server.stop(0).wait()
        assert process.wait(timeout=5) == 0


def test_work_stops_at_its_next_step_when_the_engine_is_gone_and_the_process_ends() -> None:
    with serving() as (_told, address, server), provider(address) as (process, stub):
        request = provider_pb2.CreateRequest(urn=URN)
        request.properties.update({"__provider": serialize_provider(Misbehaving()), "do": "work", "steps": 60})
        running = stub.Create.future(request, timeout=20)
        time.sleep(1)
        assert not running.done()
        began = time.monotonic()
        server.stop(0).wait()
        with pytest.raises(grpc.RpcError):
            running.result(timeout=5)
        process.wait(timeout=5)
        assert time.monotonic() - began < 3


def test_without_an_engine_messages_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    alone = Engine(None)
    alone.info("hello")
    alone.require()
    assert alone.alive()
    assert capsys.readouterr().err == "hello\n"


def test_an_engine_that_nobody_serves_any_more_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = Engine(f"127.0.0.1:{listener.getsockname()[1]}")
        assert found.alive()
    time.sleep(0.3)
    with pytest.raises(Interrupted, match="pulumi process that this works for has ended"):
        found.require()
    found.info("nobody hears this, and nothing breaks")


def test_elsewhere_nothing_is_touched() -> None:
    assert not is_dynamic_provider()
    assert not render_plainly()


def test_a_provider_starts_without_what_it_may_not_need() -> None:
    heavy = ("kubernetes", "valkey", "urllib3", "websocket", "yaml")
    code = f"import sys, json, valkeyctl.lifecycle; print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "kubernetes" not in json.loads(done.stdout)
