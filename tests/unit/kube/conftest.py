"""An API server in this process, and a client of it."""

from collections.abc import Iterator

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.kube.access import Api, connect


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    server = FakeApi()
    yield server
    server.close()


@pytest.fixture
def api(fake: FakeApi) -> Api:
    return connect(fake.kubeconfig, None)
