"""Images, and what their tags tell."""

import pytest

from components.server_settings import SETTINGS
from components.versions import (
    DEFAULT_LINE,
    RELEASES,
    image_of,
    image_problem,
    settings_of,
    version_label,
    version_of,
    version_problem,
)


def test_the_default() -> None:
    assert image_of(DEFAULT_LINE) == "valkey/valkey:9.1.2"


@pytest.mark.parametrize("version", [*RELEASES, *RELEASES.values()])
def test_known_versions(version: str) -> None:
    assert version_problem(version) == ""
    assert image_problem(image_of(version)) == ""
    assert settings_of(image_of(version)) == SETTINGS[".".join(version.split(".")[:2])]


@pytest.mark.parametrize("version", ["9", "9.1.3", "latest", "", "v9.1"])
def test_unknown_versions(version: str) -> None:
    assert "not a version that is known here" in version_problem(version)


@pytest.mark.parametrize(
    ("image", "version", "label"),
    [
        ("valkey/valkey:9.1.2", (9, 1), "9.1.2"),
        ("valkey/valkey:8.1", (8, 1), "8.1"),
        ("registry.example:5000/a/b-c/valkey:v9.1.2-alpine3.22", (9, 1), "9.1.2"),
        ("valkey/valkey:9.1.2@sha256:" + "a" * 64, (9, 1), "9.1.2"),
        ("valkey/valkey@sha256:" + "a" * 64, None, None),
        ("valkey/valkey:unstable", None, None),
        ("valkey/valkey:10", None, None),
    ],
)
def test_what_a_reference_tells(image: str, version: tuple[int, int] | None, label: str | None) -> None:
    assert image_problem(image) == ""
    assert version_of(image) == version
    assert version_label(image) == label


@pytest.mark.parametrize("image", ["", "Valkey:9", "valkey:9 1", "valkey:", "a//b:1", "valkey@sha256:abc", "-a:1"])
def test_no_reference(image: str) -> None:
    assert "not an image reference" in image_problem(image)


def test_without_tag_or_too_old() -> None:
    assert "names no tag" in image_problem("valkey/valkey")
    assert "before 8.0 isn't supported" in image_problem("valkey/valkey:7.2.5")


@pytest.mark.parametrize("image", ["valkey/valkey:unstable", "valkey/valkey:9.0.1"])
def test_an_unknown_server_may_have_every_known_setting(image: str) -> None:
    assert set(settings_of(image)) == set(SETTINGS["8.1"]) | set(SETTINGS["9.1"])
