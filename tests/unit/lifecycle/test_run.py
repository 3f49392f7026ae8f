"""What one `up` knows when it begins, before anything is asked of a server."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.test_objects import owned
from valkeyctl.dataplane import planned_layout
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.lifecycle import run
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.props import Declaration, Place

STATUS = "/api/v1/namespaces/valkey/configmaps/sessions-status"


def test_what_was_there_is_read_under_the_lease(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it was waited for, an agent may have formed the instance: then its data isn't free to be given up."""
    told: list[bool] = []

    @contextmanager
    def held(*_: object) -> Generator[None]:
        fake.put(STATUS, owned("o", data={"phase": "Ready", "formed": "true"}))
        yield

    def opened(_: Declaration, *, formed: bool, patience_s: float) -> None:
        told.append(formed)
        raise ValkeyctlError("far enough")

    monkeypatch.setattr(run, "hold_for_up", held)
    monkeypatch.setattr(run, "open_session", opened)
    place = Place("valkey", "sessions", "o", kubeconfig=fake.kubeconfig)
    with pytest.raises(ValkeyctlError, match="far enough"):
        run.run(Declaration(place, 3, 1, planned_layout(3), explicit=False), Engine(None), lambda _: None)
    assert told == [True]
