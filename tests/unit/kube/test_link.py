"""What connections of several threads share."""

import ssl

import pytest

from valkeyctl.kube.link import SteadyContext


def test_application_protocols_are_set_once_however_many_connections_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    # The base class's method frees what another thread's new connection may just be copying.
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(ssl.SSLContext, "set_alpn_protocols", lambda _self, protocols: calls.append(tuple(protocols)))
    context = SteadyContext(ssl.PROTOCOL_TLS_CLIENT)
    for _ in range(3):
        context.set_alpn_protocols(["http/1.1"])
    assert calls == [("http/1.1",)]
    context.set_alpn_protocols(["h2", "http/1.1"])
    assert calls == [("http/1.1",), ("h2", "http/1.1")]
