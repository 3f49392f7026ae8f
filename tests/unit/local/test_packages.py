"""What comes from the distribution is known by its programs."""

from pathlib import Path

import pytest

from local import packages
from local.errors import PackagesMissingError
from local.packages import Requirement
from local.progress import Progress


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder where programs are looked for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages, "SYSTEM_PATH", str(tmp_path))
    return tmp_path


def _install(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch(mode=0o755)


def test_a_package_is_missing_as_long_as_one_of_its_programs_is(programs: Path) -> None:
    socat = Requirement("socat", ("socat",))
    tables = Requirement("iptables", ("iptables", "iptables-save"))
    assert packages.missing((socat, tables)) == [socat, tables]
    _install(programs, "socat", "iptables")
    assert packages.missing((socat, tables)) == [tables]
    _install(programs, "iptables-save")
    assert packages.missing((socat, tables)) == []


def test_plugins_for_networks_are_found_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr(packages, "_CNI_FOLDERS", (tmp_path / "none", other))
    _install(other, "host-local", "loopback", "ptp")
    assert packages.cni_folder() is None
    _install(other, "portmap")
    assert packages.cni_folder() == other


def test_whoever_may_not_install_is_told_what_to_do(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "REQUIREMENTS", (Requirement("socat", ("socat",)),))
    monkeypatch.setattr(packages, "missing", lambda: [Requirement("socat", ("socat",))])
    with pytest.raises(PackagesMissingError, match="under Debian's names for them: socat"):
        packages.ensure(Progress())
    _install(programs, "apt-get")
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    with pytest.raises(PackagesMissingError, match="sudo apt-get install --no-install-recommends socat"):
        packages.ensure(Progress())
