"""Changed certificate files: loaded once, all or none, and tried again when they change again."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from valkeyctl.agent.certificates import Certificates
from valkeyctl.agent.mounts import Swapped, read_together
from valkeyctl.agent.resp import Link
from valkeyctl.agent.settings_live import Refused


class StandIn:
    """Speaks the protocol, and loads files as a server with TLS does: all that one command names, or none."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files, self.loaded = files, {name: path.read_text() for name, path in files.items()}
        self.loads = 0
        self.at_load: Callable[[], object] = lambda: None
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
        self.at_load()
        self.at_load = lambda: None
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


def looks(certificates: Certificates, link: Link, count: int) -> list[bool]:
    """What so many looks say."""
    return [certificates.look(link) for _ in range(count)]


def test_files_that_stay_are_loaded_once_since_nobody_knows_what_the_server_has_read(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        assert looks(certificates, link, 4) == [False] * 4, "it is no news"
    assert server.loads == 1


def test_files_that_changed_before_the_first_look_are_loaded(server: StandIn) -> None:
    """While no agent ran, or between the server's start and the first look."""
    for path in server.files.values():
        path.write_text("second pair")
    with server.link() as link:
        looks(Certificates(), link, 2)
    assert set(server.loaded.values()) == {"second pair"}


def test_renewed_files_are_loaded_once_when_they_stand_still(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        looks(certificates, link, 2)
        for path in server.files.values():
            path.write_text("second pair")
        assert looks(certificates, link, 4) == [False, True, False, False]
    assert (server.loads, set(server.loaded.values())) == (2, {"second pair"})


def test_a_pair_that_is_half_written_at_one_look_is_waited_for(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        looks(certificates, link, 2)
        server.files["tls-cert-file"].write_text("second pair")
        assert certificates.look(link) is False
        server.files["tls-key-file"].write_text("second pair")
        assert looks(certificates, link, 2) == [False, True]
    assert (server.loads, set(server.loaded.values())) == (2, {"second pair"})


def test_a_pair_that_stays_half_written_is_refused_once_and_tried_when_it_is_whole(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        looks(certificates, link, 2)
        server.files["tls-cert-file"].write_text("second pair")
        certificates.look(link)
        with pytest.raises(Refused, match="Unable to update TLS configuration"):
            certificates.look(link)
        assert looks(certificates, link, 2) == [False, False]
        assert set(server.loaded.values()) == {"first pair"}
        server.files["tls-key-file"].write_text("second pair")
        assert looks(certificates, link, 2) == [False, True]
    assert (server.loads, set(server.loaded.values())) == (3, {"second pair"})


def test_a_file_that_is_missing_at_one_look_is_no_change(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        looks(certificates, link, 2)
        server.files["tls-cert-file"].unlink()
        assert looks(certificates, link, 3) == [False, False, False]
        server.files["tls-cert-file"].write_text("first pair")
        assert looks(certificates, link, 3) == [False, False, False]
    assert server.loads == 1


def test_what_comes_after_a_file_was_missing_is_loaded(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        looks(certificates, link, 2)
        server.files["tls-cert-file"].unlink()
        looks(certificates, link, 2)
        for path in server.files.values():
            path.write_text("second pair")
        assert looks(certificates, link, 2) == [False, True]
    assert set(server.loaded.values()) == {"second pair"}


def test_files_that_are_swapped_while_the_server_loads_them_are_loaded_again(server: StandIn) -> None:
    certificates = Certificates()
    with server.link() as link:
        looks(certificates, link, 2)
        for path in server.files.values():
            path.write_text("second pair")
        certificates.look(link)
        # The server finds the new certificate and the old key, and refuses them: that isn't worth a word.
        server.at_load = lambda: server.files["tls-cert-file"].write_text("third pair")
        assert certificates.look(link) is False
        server.files["tls-key-file"].write_text("third pair")
        assert looks(certificates, link, 2) == [False, True]
    assert set(server.loaded.values()) == {"third pair"}


def test_a_file_that_can_not_be_read_from_here_does_not_keep_others_from_being_renewed(
    server: StandIn, tmp_path: Path
) -> None:
    """An authority out of the server's own image, as an example."""
    elsewhere = tmp_path / "elsewhere.crt"
    server.files["tls-ca-cert-file"] = elsewhere
    certificates = Certificates()
    with server.link() as link:
        looks(certificates, link, 2)
        for name in ("tls-cert-file", "tls-key-file"):
            server.files[name].write_text("second pair")
        assert looks(certificates, link, 2) == [False, True]
    assert set(server.loaded.values()) == {"second pair"}


class Volume:
    """A mounted Secret: `write` swaps all files at once by a symbolic link, as the kubelet does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.writes = folder, 0

    def write(self, text: str) -> None:
        self.writes += 1
        new = self.folder / f"..{self.writes}"
        new.mkdir()
        for name in ("tls.crt", "tls.key"):
            (new / name).write_text(f"{text} {self.writes}")
        former = (self.folder / "..data").resolve()
        (self.folder / "..data_tmp").symlink_to(new.name)
        (self.folder / "..data_tmp").rename(self.folder / "..data")
        if self.writes > 1:
            shutil.rmtree(former)


def test_files_read_together_are_never_of_two_contents(tmp_path: Path) -> None:
    """Read all the time while the volume is swapped all the time."""
    volume = Volume(tmp_path)
    volume.write("pair")
    files = [tmp_path / "..data" / name for name in ("tls.crt", "tls.key")]
    stopping = threading.Event()

    def swap() -> None:
        while not stopping.is_set() and volume.writes < 3000:
            volume.write("pair")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(200):
            found = read_together(files, patience_s=10.0)
            assert len(set(found.values())) == 1, found
    finally:
        stopping.set()
        swapping.join()


def test_a_swap_between_two_files_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    volume = Volume(tmp_path)
    volume.write("pair")
    files = [tmp_path / "..data" / name for name in ("tls.crt", "tls.key")]
    read, swaps = Path.read_bytes, [1]

    def read_and_swap(path: Path) -> bytes:
        found = read(path)
        if swaps:
            swaps.pop()
            volume.write("pair")
        return found

    monkeypatch.setattr(Path, "read_bytes", read_and_swap)
    assert set(read_together(files).values()) == {b"pair 2"}
    swaps.append(1)
    with pytest.raises(Swapped):
        read_together(files, patience_s=0.0)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        read_together([tmp_path / "tls.key"])
    assert raised.value.filename == str(tmp_path / "tls.key")
