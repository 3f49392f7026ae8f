"""Container images: names that tell the truth, a layer of the same bytes each time, an archive that tools can read."""

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from local.errors import BuildError
from local.images import PAUSE_REF, archive, build, layer, recipes, registry, rootfs
from local.images.recipes import Config, File


def _recipe(name: str) -> recipes.Recipe:
    return next(recipe for recipe in recipes.ALL if recipe.name == name)


def test_tags_follow_the_version_inside() -> None:
    assert _recipe("valkey-9.1").refs_of("9.1.3") == (
        "docker.io/valkey/valkey:9.1.3",
        "docker.io/valkey/valkey:9.1",
        # What the product's default configuration pins finds an image also when Debian has gone on.
        "docker.io/valkey/valkey:9.1.2",
    )
    assert _recipe("valkey-9.1").refs_of("9.1.2") == ("docker.io/valkey/valkey:9.1.2", "docker.io/valkey/valkey:9.1")
    assert _recipe("python-3.13").refs_of("3.13.5") == (
        "docker.io/library/python:3.13-slim",
        "docker.io/library/python:3.13.5-slim",
    )
    assert _recipe("redis-exporter").refs_of("1.86.0") == ("docker.io/oliver006/redis_exporter:v1.86.0",)


def test_the_first_process_of_pods_is_the_image_that_nodes_are_told() -> None:
    pause = _recipe("pause")
    assert pause.refs_of(pause.tag) == (PAUSE_REF,)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Valkey server v=9.1.2 sha=00000000:0 malloc=jemalloc-5.3.1", "9.1.2"),
        ("Python 3.13.5", "3.13.5"),
        ('time="2026-11-29" msg="Redis Metrics Exporter 1.86.0-1    build date: 20260609"', "1.86.0"),
        ("v1.86.0", "1.86.0"),
    ],
)
def test_versions_are_found_in_what_programs_say(text: str, version: str) -> None:
    assert recipes.version_in(text) == version


def test_a_text_without_a_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="no version"):
        recipes.version_in("3.13-slim")


def test_the_archive_of_a_release_itself_is_the_mirror() -> None:
    targets = (
        "http://mirror.example/debian-security/ bookworm-security\n"
        "http://mirror.example/debian/ bookworm-updates\n"
        "http://mirror.example/debian/ bookworm\n"
    )
    assert rootfs.main_archive(targets) == "http://mirror.example/debian/"
    with pytest.raises(BuildError, match="knows no archive"):
        rootfs.main_archive("http://mirror.example/debian-security/ bookworm-security\n")


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("usr/bin/valkey-server", True),
        ("usr/share/doc/valkey-server", True),
        ("usr/share/doc/valkey-server/copyright", True),
        ("usr/share/doc/valkey-server/changelog.gz", False),
        ("usr/share/man/man1/sh.1.gz", False),
        ("usr/share/manifest", True),
        ("usr/lib/x86_64-linux-gnu/gconv", False),
        ("usr/lib/x86_64-linux-gnu/gconv/UTF-16.so", False),
        ("usr/lib/x86_64-linux-gnu/libc.so.6", True),
        ("var/cache/apt", False),
        ("var/lib", True),
        ("etc/passwd", True),
    ],
)
def test_what_belongs_into_a_layer(path: str, kept: bool) -> None:  # noqa: FBT001
    assert layer.wanted(path) is kept


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "tool").write_text("program")
    (root / "usr" / "bin" / "tool").chmod(0o4755)
    os.link(root / "usr" / "bin" / "tool", root / "usr" / "bin" / "also-tool")
    (root / "bin").symlink_to("usr/bin")
    (root / "usr" / "share" / "man").mkdir(parents=True)
    (root / "usr" / "share" / "man" / "page").write_text("manual")
    os.mkfifo(root / "pipe")
    return root


def test_a_layer_is_the_same_for_the_same_content(root: Path, tmp_path: Path) -> None:
    first = layer.write(root, tmp_path / "first.tar")
    os.utime(root / "usr" / "bin" / "tool", (1, 1))
    second = layer.write(root, tmp_path / "second.tar")
    content = (tmp_path / "first.tar").read_bytes()
    assert first == second == hashlib.sha256(content).hexdigest()
    assert content == (tmp_path / "second.tar").read_bytes()


def test_a_layer_has_links_as_links_and_no_program_that_gains_rights(root: Path, tmp_path: Path) -> None:
    layer.write(root, tmp_path / "layer.tar")
    with tarfile.open(tmp_path / "layer.tar") as tar:
        members = {member.name: member for member in tar}
        stored = tar.extractfile("usr/bin/also-tool")
        assert stored is not None
        assert stored.read() == b"program"
    assert sorted(members) == ["bin", "usr", "usr/bin", "usr/bin/also-tool", "usr/bin/tool", "usr/share"]
    assert members["bin"].linkname == "usr/bin"
    assert members["usr/bin/tool"].islnk()
    assert members["usr/bin/also-tool"].mode == 0o755
    assert {member.mtime for member in members.values()} == {layer.epoch()}


def test_source_date_epoch_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1234567890")
    assert layer.epoch() == 1234567890
    assert archive.image_config(Config(), "00")["created"] == "2009-02-13T23:31:30Z"


def test_files_beside_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owners: dict[str, int] = {}
    monkeypatch.setattr(os, "chown", lambda path, user, _: owners.update({path.name: user}))
    before = os.umask(0o077)
    try:
        rootfs.add(
            (
                File("data", mode=0o755, owner=999, folder=True),
                File("usr/local/bin/start", "#!/bin/sh\n", mode=0o755),
                File("usr/local/bin/link", target="/usr/bin/python3"),
            ),
            tmp_path,
        )
    finally:
        os.umask(before)
    assert (tmp_path / "usr" / "local").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "usr" / "local" / "bin" / "start").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "usr" / "local" / "bin" / "link").readlink() == Path("/usr/bin/python3")
    assert owners == {"data": 999, "start": 0}


def test_an_image_runs_as_its_recipe_says() -> None:
    config = archive.image_config(_recipe("valkey-9.1").config, "ab")
    assert config["config"] == {
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Entrypoint": ["docker-entrypoint.sh"],
        "Cmd": ["valkey-server"],
        "ExposedPorts": {"6379/tcp": {}},
        "Volumes": {"/data": {}},
        "WorkingDir": "/data",
    }
    assert config["rootfs"] == {"type": "layers", "diff_ids": ["sha256:ab"]}
    assert config["os"] == "linux"
    assert "User" in archive.image_config(_recipe("pause").config, "ab")["config"]


def test_an_archive_carries_its_names_and_what_they_refer_to(root: Path, tmp_path: Path) -> None:
    digest = layer.write(root, tmp_path / "layer.tar")
    names = ("docker.io/valkey/valkey:9.1.2", "docker.io/valkey/valkey:9.1")
    written = tmp_path / "image.tar"
    archive.write(written, names, Config(command=("sh",)), tmp_path / "layer.tar", digest)
    assert archive.refs(written) == names
    with tarfile.open(written) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    (image,) = json.loads(contents["manifest.json"])
    assert image["Config"] == f"{hashlib.sha256(contents[image['Config']]).hexdigest()}.json"
    assert json.loads(contents[image["Config"]])["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
    assert hashlib.sha256(contents[image["Layers"][0]]).hexdigest() == digest


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    with pytest.raises(ValueError, match="no docker archive"):
        archive.refs(tmp_path / "empty.tar")


def test_each_image_has_a_place_of_its_own_that_follows_its_recipe() -> None:
    places = {build.entry_of(recipe) for recipe in recipes.ALL}
    assert len(places) == len(recipes.ALL)
    assert all(place.suffix == ".tar" for place in places)


def test_where_nobody_answers_there_is_no_registry() -> None:
    assert registry.answers("localhost:1") is False
    assert registry.host_of("registry.k8s.io/pause:3.10") == "registry.k8s.io"
