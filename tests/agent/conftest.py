"""Fixtures of the tests with real agents."""

from __future__ import annotations

import pytest

from tests.dataplane.servers import LINES


@pytest.fixture(params=LINES)
def line(request: pytest.FixtureRequest) -> str:
    """The release line of the servers: each test that asks for it runs on every supported one."""
    return str(request.param)
