"""An API server in this process, as the providers reach it."""

from collections.abc import Iterator

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.lifecycle import session


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    server = FakeApi()
    yield server
    server.close()
    session._connected.cache_clear()
