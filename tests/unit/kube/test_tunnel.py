"""The tunnel through the API server: bytes in order, errors where they are read, never a hang."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import valkey

from tests.unit.kube.certificates import Authority
from tests.unit.kube.websocket_server import CLOSE, PING, ForwardServer, Session
from valkeyctl.dataplane import Credentials, Endpoint, Member, errors
from valkeyctl.kube.access import Api, connect
from valkeyctl.kube.errors import KubeconfigError
from valkeyctl.kube.forward import ForwardDialer, dialer_for
from valkeyctl.kube.tunnel import TlsStream, TunnelClosed, TunnelError, open_tunnel

PONG_SERVER = Endpoint(Member(0, 0), "sessions-s0-0", "sessions-s0-0.sessions-headless.valkey.svc", "10.0.0.1")

RIGHT, WRONG = Credentials(password="right"), Credentials(password="wr0ng-secret")  # noqa: S106 - made up


def api_of(server: ForwardServer, *, ca: str | None = None) -> Api:
    cluster: dict[str, str] = {"server": server.url, **({"certificate-authority": ca} if ca else {})}
    return connect(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": "T"}}],
            }
        ),
        None,
    )


def echo(session: Session) -> None:
    session.greet(6379)
    while True:
        opcode, payload = session.receive()
        if opcode == CLOSE:
            return
        session.send(payload)


@contextmanager
def serving(*args: object, **kwargs: object) -> Iterator[ForwardServer]:
    server = ForwardServer(*args, **kwargs)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        server.close()


def exactly(stream: object, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += stream.recv(1000)  # type: ignore[attr-defined]
    return data


def test_bytes_arrive_in_order_whatever_their_size() -> None:
    with serving(echo) as server:
        tunnel = open_tunnel(api_of(server), "valkey", "sessions-s0-0", 6379, 2)
        for size in (1, 125, 126, 70_000, 400_000):
            data = bytes(index % 251 for index in range(size))
            threading.Thread(target=tunnel.sendall, args=(data,)).start()
            assert exactly(tunnel, size) == data
        tunnel.close()
        session = server.sessions[0]
        assert session.path == "/api/v1/namespaces/valkey/pods/sessions-s0-0/portforward?ports=6379"
        assert session.headers["authorization"] == "Bearer T"


def test_a_ping_in_between_is_answered_and_not_seen() -> None:
    def behave(session: Session) -> None:
        session.greet(6379)
        session.send(b"hello?", PING)
        assert session.receive() == (10, b"hello?")
        session.send(b"\x00data")

    with serving(behave) as server:
        tunnel = open_tunnel(api_of(server), "valkey", "p", 6379, 2)
        assert tunnel.recv(10) == b"data"
        tunnel.close()


def test_data_of_two_bytes_is_not_taken_for_the_greeting() -> None:
    def behave(session: Session) -> None:
        session.greet(6379)
        session.send(b"\x00ab")
        session.send(b"\x00cd")

    with serving(behave) as server:
        tunnel = open_tunnel(api_of(server), "valkey", "p", 6379, 2)
        assert exactly(tunnel, 4) == b"abcd"


def test_what_the_kubelet_says_is_raised_where_it_is_read() -> None:
    def behave(session: Session) -> None:
        session.greet(6379)
        session.send(b"\x01failed to connect to localhost:6379: connection refused")

    with serving(behave) as server:
        tunnel = open_tunnel(api_of(server), "valkey", "sessions-s0-0", 6379, 2)
        with pytest.raises(TunnelError, match=r"valkey/sessions-s0-0:6379: failed to connect .* refused"):
            tunnel.recv(10)


def test_a_pod_that_dies_ends_the_stream_at_once() -> None:
    def behave(session: Session) -> None:
        session.greet(6379)
        session.receive()

    with serving(behave) as server:
        tunnel = open_tunnel(api_of(server), "valkey", "p", 6379, 5)
        tunnel.sendall(b"PING\r\n")
        began = time.monotonic()
        assert tunnel.recv(10) == b""
        assert time.monotonic() - began < 1
        with pytest.raises(TunnelClosed):
            tunnel.sendall(b"PING\r\n")
        tunnel.close()


def test_a_close_frame_ends_the_stream() -> None:
    def behave(session: Session) -> None:
        session.greet(6379)
        session.send(b"\x00last")
        session.send(b"\x03\xe8", CLOSE)
        session.receive()

    with serving(behave) as server:
        tunnel = open_tunnel(api_of(server), "valkey", "p", 6379, 5)
        assert tunnel.recv(10) == b"last"
        assert tunnel.recv(10) == b""
        with pytest.raises(TunnelClosed):
            tunnel.sendall(b"x")


def test_silence_is_a_timeout_and_the_stream_goes_on_after_it() -> None:
    def behave(session: Session) -> None:
        session.greet(6379)
        time.sleep(0.5)
        session.send(b"\x00late")
        session.receive()

    with serving(behave) as server:
        tunnel = open_tunnel(api_of(server), "valkey", "p", 6379, 5)
        tunnel.settimeout(0.1)
        with pytest.raises(TimeoutError, match="no answer in time"):
            tunnel.recv(10)
        tunnel.settimeout(5)
        assert tunnel.recv(10) == b"late"


def test_a_handshake_that_never_comes_is_bounded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k"}}],
            "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}],
        }
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            open_tunnel(connect(json.dumps(config), None), "valkey", "p", 6379, 0.3)
        assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("404 Not Found", "the Pod is gone"),
        ("403 Forbidden", r"not allowed \(needs create on pods/portforward\): .*no, you may not"),
        ("500 Internal Server Error", "the API server answered 500: .*no, you may not"),
    ],
)
def test_a_refused_forward_says_why(status: str, told: str) -> None:
    with serving(None, status=status) as server, pytest.raises(TunnelError, match=told):
        open_tunnel(api_of(server), "valkey", "p", 6379, 2)


def test_the_server_is_trusted_only_by_the_kubeconfigs_authority(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    with serving(echo, tls=ours.server("127.0.0.1")) as server:
        tunnel = open_tunnel(api_of(server, ca=str(ours.ca)), "valkey", "p", 6379, 2)
        tunnel.sendall(b"over TLS")
        assert exactly(tunnel, 8) == b"over TLS"
        with pytest.raises(ssl.SSLError):
            open_tunnel(api_of(server, ca=str(theirs.ca)), "valkey", "p", 6379, 2)


def _tls_behind(context: ssl.SSLContext) -> tuple[socket.socket, int]:
    """A TLS server that answers each line in capitals."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
                with context.wrap_socket(plain, server_side=True) as secured:
                    while data := secured.recv(65536):
                        secured.sendall(data.upper())
            except OSError:
                if listener.fileno() < 0:
                    return

    threading.Thread(target=serve, daemon=True).start()
    return listener, listener.getsockname()[1]


def test_tls_within_the_tunnel_is_verified_against_the_pods_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    listener, port = _tls_behind(authority.server(PONG_SERVER.host))

    def behave(session: Session) -> None:
        session.greet(6379)
        with socket.create_connection(("127.0.0.1", port)) as target:
            session.pump(target)

    with listener, serving(behave) as server:
        api = api_of(server)
        trusting = ssl.create_default_context(cafile=str(authority.ca))
        stream = TlsStream(open_tunnel(api, "valkey", "p", 6379, 5), trusting, PONG_SERVER.host)
        data = b"hello " * 2_500
        for _ in range(20):  # more than one frame and one record each, and far more in sum than any buffer holds
            stream.sendall(data)
            assert exactly(stream, len(data)) == data.upper()
        stream.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            TlsStream(open_tunnel(api, "valkey", "p", 6379, 5), trusting, "another.pod.svc")


def _valkey_like(session: Session) -> None:
    """Answers AUTH and PING as a server does, then dies on GET."""
    session.greet(6379)
    while True:
        opcode, payload = session.receive()
        if opcode == CLOSE:
            return
        if b"AUTH" in payload:
            session.send(b"\x00+OK\r\n" if b"right" in payload else b"\x00-WRONGPASS no\r\n")
        elif b"PING" in payload:
            session.send(b"\x00+PONG\r\n")
        elif b"GET" in payload:
            return


def test_a_client_speaks_through_it_and_its_end_is_a_typed_error() -> None:
    with serving(_valkey_like) as server:
        dialer = ForwardDialer(api_of(server), "valkey", RIGHT)
        client = dialer.dial(PONG_SERVER, 2)
        assert client.ping()
        began = time.monotonic()
        with pytest.raises(valkey.exceptions.ConnectionError):
            client.get("key")
        assert time.monotonic() - began < 1


def test_a_wrong_password_is_refused_without_being_shown() -> None:
    with serving(_valkey_like) as server:
        dialer = ForwardDialer(api_of(server), "valkey", WRONG)
        with pytest.raises(errors.AuthFailed) as raised:
            dialer.dial(PONG_SERVER, 2)
        assert "wr0ng-secret" not in f"{raised.value}{dialer!r}"


def test_many_at_once() -> None:
    with serving(_valkey_like) as server:
        dialer = ForwardDialer(api_of(server), "valkey", RIGHT)
        answers: list[object] = []

        def one() -> None:
            answers.append(dialer.dial(PONG_SERVER, 10).ping())

        threads = [threading.Thread(target=one) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=20)
        assert len(answers) == 40
        assert all(answers)


def test_an_unknown_transport_is_refused() -> None:
    with serving(echo) as server, pytest.raises(KubeconfigError, match="use portForward or direct"):
        dialer_for("carrierPigeon", api_of(server), "valkey", Credentials())
