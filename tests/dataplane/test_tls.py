"""TLS is verified against the Pod's name, whatever address the stream goes to."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.dataplane.servers import new_address
from valkeyctl.dataplane import Credentials, DirectDialer, Endpoint, Member, errors

PORT = 7579
NAME = "t-s0-0.t-headless.test.svc"


def certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


@contextmanager
def listening(pem: Path) -> Iterator[Endpoint]:
    """Something that speaks TLS with this certificate and answers each command with +OK."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    address = new_address()
    with socket.create_server((address, PORT)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                    with context.wrap_socket(connection, server_side=True) as stream:
                        while stream.recv(65536):
                            stream.sendall(b"+OK\r\n")
                except ssl.SSLError:
                    continue
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield Endpoint(Member(0, 0), "t-s0-0", NAME, address, PORT, PORT + 10000)
        listener.shutdown(socket.SHUT_RDWR)


def trusting(pem: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(pem)
    return context


def test_talks_where_the_certificate_bears_the_pods_name(tmp_path: Path) -> None:
    pem = certificate(tmp_path, NAME)
    with listening(pem) as endpoint:
        client = DirectDialer(Credentials("op", "secret"), trusting(pem)).dial(endpoint, 5)
        assert client.execute_command("PING") == b"OK"
        client.close()


@pytest.mark.parametrize("name", ["t-s0-1.t-headless.test.svc", "somebody.else"])
def test_refuses_a_certificate_with_another_name(tmp_path: Path, name: str) -> None:
    pem = certificate(tmp_path, name)
    with (
        listening(pem) as endpoint,
        pytest.raises(errors.ConnectFailed, match=r"TLS failed: .*CERTIFICATE_VERIFY_FAILED"),
    ):
        DirectDialer(Credentials(), trusting(pem)).dial(endpoint, 5)


def test_refuses_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    with (
        listening(certificate(tmp_path, NAME)) as endpoint,
        pytest.raises(errors.ConnectFailed, match="See whether the server speaks TLS and who signed it"),
    ):
        DirectDialer(Credentials(), trusting(certificate(tmp_path, "other.ca"))).dial(endpoint, 5)
