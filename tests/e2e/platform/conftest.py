"""Each test has a namespace of its own; a test that plays faults leaves a cluster in order behind."""

import re
from collections.abc import Iterator

import pytest

from tests.e2e.harness.kube import Kube
from tests.e2e.platform.platform import Namespace, local


@pytest.fixture
def namespace(request: pytest.FixtureRequest, kube: Kube) -> Iterator[Namespace]:
    name = "platform-" + re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    kube.create_namespace(name)
    try:
        yield Namespace(kube, name)
    finally:
        kube.delete_namespace(name)


@pytest.fixture
def repaired() -> Iterator[None]:
    """For a test that plays faults: afterwards `up` brings everything back, and must be able to."""
    yield
    done = local("up")
    assert done.code == 0, done.err
