"""Fixtures of the end-to-end tests: a sandbox for each, and one formed cluster for those that only look at it."""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import inside
from tests.e2e.harness.client import Client
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.probe import Node, ask, ask_those_that_answer, assert_ready, command, faults
from tests.e2e.harness.program import Result, Stack
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small

_FAILED = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def kube() -> Kube:
    """The API server of the local cluster."""
    return Kube()


#: What takes minutes comes first, so that no worker is left with it when the others have nothing more to do.
LONG = ("test_roll", "test_scale", "test_pause")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        # For the sandbox's fixture, and that of the module, which end later and then keep what tells why.
        for node in item.listchain():
            node.stash[_FAILED] = f"{node.stash.get(_FAILED, '')}{item.nodeid} ({report.when})\n{report.longreprtext}\n"
    return report


@contextmanager
def _sandbox(node: pytest.Item | pytest.Collector, kube: Kube, folder: Path, label: str) -> Generator[Sandbox]:
    sandbox = Sandbox(kube, folder, label)
    try:
        yield sandbox
    finally:
        try:
            if why := node.stash.get(_FAILED, ""):
                sandbox.keep(why)
        finally:
            sandbox.close()


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, kube: Kube, tmp_path: Path) -> Iterator[Sandbox]:
    """A namespace, a project and backends for one test."""
    label = re.sub(r"^test_", "", request.node.name)
    with _sandbox(request.node, kube, tmp_path, label) as made:
        yield made


@dataclass(frozen=True)
class Formed:
    """A healthy cluster with a replica for each shard, which tests share. What one leaves otherwise, the next mends.

    `config`: what it was declared as. `first`: the `up` that made it. `nodes`: what they said when it returned.
    """

    sandbox: Sandbox
    stack: Stack
    config: dict[str, Any]
    first: Result
    nodes: dict[str, Node]
    client: Client

    @property
    def namespace(self) -> str:
        return self.stack.namespace

    def sound(self) -> dict[str, Node]:
        """What the nodes say, all being well. What a failed test left behind is mended first: it has failed itself."""
        kube = self.sandbox.kube
        shards = self.config["shards"]
        if faults(ask_those_that_answer(kube, self.namespace, INSTANCE), INSTANCE, shards, replicas=1):
            self.stack.up()
        return assert_ready(kube, self.namespace, INSTANCE, shards)

    def emptied(self) -> dict[str, Node]:
        """As `sound`, as declared at first and without a key: what another test wrote can't stand in for a loss."""
        self.stack.configure({INSTANCE: self.config})
        nodes = self.sound()
        for node in nodes.values():
            if node.is_primary:
                command(self.sandbox.kube, self.namespace, node.pod, "FLUSHALL")
        return nodes


@pytest.fixture(scope="module")
def module_sandbox(
    request: pytest.FixtureRequest, kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    """A sandbox that a module's tests share."""
    label = Path(request.node.name).stem.removeprefix("test_")
    with _sandbox(request.node, kube, tmp_path_factory.mktemp(label), label) as made:
        yield made


@pytest.fixture(scope="module")
def formed(request: pytest.FixtureRequest, module_sandbox: Sandbox, kube: Kube) -> Formed:
    """Made once for a module. The module puts itself into an xdist_group, so that one worker runs all of it.

    A module's `FORMED` is its config instead of the usual one.
    """
    return _formed(module_sandbox, kube, getattr(request.module, "FORMED", small()))


def _formed(sandbox: Sandbox, kube: Kube, config: dict[str, Any]) -> Formed:
    stack = sandbox.stack(config=config)
    first = stack.up()
    nodes = ask(kube, stack.namespace, INSTANCE)
    return Formed(sandbox, stack, config, first, nodes, sandbox.client(stack))


@pytest.fixture(scope="module")
def shared(
    request: pytest.FixtureRequest, kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Formed]]:
    """`shared(**changes)`: the cluster with these changes of its config as in `small`, made for the first who asks.

    Tests that ask for the same one belong into the same xdist_group. It comes sound, as declared, and without keys.
    """
    made: dict[str, Formed] = {}
    with ExitStack() as sandboxes:

        def get(**changes: object) -> Formed:
            key = repr(sorted(changes.items()))
            if key in made:
                made[key].emptied()
                return made[key]
            label = Path(request.node.name).stem.removeprefix("test_")
            sandbox = sandboxes.enter_context(_sandbox(request.node, kube, tmp_path_factory.mktemp(label), label))
            made[key] = _formed(sandbox, kube, small(**changes))
            return made[key]

        yield get


@pytest.fixture
def form(sandbox: Sandbox) -> Callable[..., Stack]:
    """`form(**changes)`: a cluster of the test's own, brought up; `changes` of its config as in `small`."""

    def make(**changes: object) -> Stack:
        stack = sandbox.stack(config=small(**changes))
        stack.up()
        return stack

    return make


@pytest.fixture
def thaw() -> Iterator[list[inside.Process]]:
    """Processes that a test freezes; they go on when it has ended, however it did."""
    frozen: list[inside.Process] = []
    yield frozen
    for process in frozen:
        process.thaw()
