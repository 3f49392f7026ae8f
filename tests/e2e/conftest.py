"""Fixtures of the end-to-end tests: a sandbox for each, and one formed cluster for those that only look at it."""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.harness import inside
from tests.e2e.harness.client import Client
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.probe import Node, ask, assert_ready, faults
from tests.e2e.harness.program import Result, Stack
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small

_FAILED = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def kube() -> Kube:
    """The API server of the local cluster."""
    return Kube()


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
    """A healthy cluster that one module's tests share: 3 shards with a replica each. No test may leave it otherwise.

    `first`: the `up` that made it. `nodes`: what they said at the moment when it returned.
    """

    sandbox: Sandbox
    stack: Stack
    first: Result
    nodes: dict[str, Node]
    client: Client

    @property
    def namespace(self) -> str:
        return self.stack.namespace

    def sound(self) -> dict[str, Node]:
        """What the nodes say, all being well. What a failed test left behind is mended first: it has failed itself."""
        kube = self.sandbox.kube
        if faults(ask(kube, self.namespace, INSTANCE), INSTANCE, shards=3, replicas=1):
            self.stack.up()
        return assert_ready(kube, self.namespace, INSTANCE)


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
    stack = module_sandbox.stack(config=getattr(request.module, "FORMED", None))
    first = stack.up()
    nodes = ask(kube, stack.namespace, INSTANCE)
    return Formed(module_sandbox, stack, first, nodes, module_sandbox.client(stack))


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
