"""Changed certificate files: loaded once, all or none, and tried again when they change again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from valkeyctl.agent.certificates import Certificates
from valkeyctl.agent.resp import Link
from valkeyctl.agent.settings_live import Refused


class StandIn:
    """Speaks the protocol, and loads files as a server with TLS does: all that one command names, or none."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files, self.loaded = files, {name: path.read_text() for name, path in files.items()}
        self.loads = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    def link(self) -> Link:
        return Link("127.0.0.1", self._listener.getsockname()[1], 5)

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rwb") as stream:
            while head := stream.readline():
                words: list[str] = []
                for _ in range(int(head[1:])):
                    length = int(stream.readline()[1:])
                    words.append(stream.read(length + 2)[:-2].decode())
                stream.write(self._answer(words))
                stream.flush()

    def _answer(self, words: list[str]) -> bytes:
        if words[1] == "GET":
            told = [
                *(part for name, path in self.files.items() for part in (name, str(path))),
                "tls-dh-params-file",
                "",
            ]
            return b"*%d\r\n" % len(told) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p.encode()) for p in told)
        self.loads += 1
        found = {name: Path(path).read_text() for name, path in zip(words[2::2], words[3::2], strict=True)}
        if len({text.split()[0] for text in found.values()}) > 1:
            return b"-ERR CONFIG SET failed - Unable to update TLS configuration. Check server logs.\r\n"
        self.loaded = found
        return b"+OK\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StandIn]:
    files = {"tls-cert-file": tmp_path / "tls.crt", "tls-key-file": tmp_path / "tls.key"}
    for path in files.values():
        path.write_text("first pair")
    made = StandIn(files)
    yield made
    made.close()


def test_files_that_stay_are_not_loaded_again(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        assert [certificates.look(link) for _ in range(3)] == [False, False, False]
    assert server.loads == 0


def test_renewed_files_are_loaded_once(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        certificates.look(link)
        for path in server.files.values():
            path.write_text("second pair")
        assert [certificates.look(link) for _ in range(3)] == [True, False, False]
    assert set(server.loaded.values()) == {"second pair"}


def test_a_pair_that_is_half_written_is_refused_once_and_tried_when_it_is_whole(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        certificates.look(link)
        server.files["tls-cert-file"].write_text("second pair")
        with pytest.raises(Refused, match="Unable to update TLS configuration"):
            certificates.look(link)
        assert certificates.look(link) is False
        assert set(server.loaded.values()) == {"first pair"}
        server.files["tls-key-file"].write_text("second pair")
        assert certificates.look(link) is True
    assert (server.loads, set(server.loaded.values())) == (2, {"second pair"})


def test_files_that_are_swapped_at_this_moment_are_no_change(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        certificates.look(link)
        server.files["tls-cert-file"].unlink()
        assert certificates.look(link) is False
        server.files["tls-cert-file"].write_text("first pair")
        assert certificates.look(link) is False
    assert server.loads == 0
