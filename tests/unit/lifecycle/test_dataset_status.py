"""What `valkeyctl status` tells of a dataset: with a kubeconfig alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.kube.fake_api import FakeApi
from tests.unit.lifecycle.dataset_stage import FIRST, PASSWORD, SECOND, SLICES, THIRD, Stage, staged
from tests.unit.lifecycle.test_dataset_watched import Sentinels, watched
from valkeyctl.cli import app
from valkeyctl.kube.access import connect
from valkeyctl.kube.overview import Overview, find_instances, overview


@pytest.fixture
def stage(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(fake, monkeypatch, 2) as made:
        yield made


@pytest.fixture
def sentinels(fake: FakeApi, stage: Stage, tmp_path: Path) -> Iterator[Sentinels]:
    with watched(fake, stage, tmp_path) as made:
        yield made


def seen(stage: Stage) -> Overview:
    api = connect(stage.fake.kubeconfig, None)
    (found,) = find_instances(api, "valkey", "sessions")
    return overview(api, found, "direct")


def shown(stage: Stage, tmp_path: Path) -> str:
    file = tmp_path / "kubeconfig"
    file.write_text(stage.fake.kubeconfig)
    return (
        CliRunner().invoke(app, ["status", "-n", "valkey", "--kubeconfig", str(file), "--transport", "direct"]).output
    )


def test_a_dataset_is_asked_and_shown(stage: Stage, tmp_path: Path) -> None:
    stage.create()
    told = seen(stage)
    assert (told.phase, told.architecture, told.problem, told.failure) == ("Ready", "replica", "", "")
    assert [(one.pod, one.role) for one in told.members] == [
        ("sessions-s0-0", "primary"),
        ("sessions-s0-1", "replica"),
        ("sessions-s0-2", "replica"),
    ]
    assert told.members[1].lag is not None
    assert told.sentinels == ()
    assert told.todo == ()
    printed = shown(stage, tmp_path)
    assert "valkey/sessions  Ready  replica" in printed
    assert "slots" not in printed
    assert PASSWORD not in printed


def test_what_is_wrong_is_told_with_what_to_do(stage: Stage) -> None:
    stage.create()
    stage.dataset.ask(THIRD, "REPLICAOF", "NO", "ONE")
    stage.dataset.kill(SECOND)
    stage.fake.objects[f"{SLICES}/sessions-rw"]["endpoints"] = []
    told = seen(stage)
    assert told.phase == "Degraded"
    by_pod = {one.pod: one for one in told.members}
    assert "a second primary beside s0-0" in by_pod["sessions-s0-2"].problem
    assert by_pod["sessions-s0-1"].role == "unreachable"
    assert any("s0-2: stop being a second primary" in line for line in told.todo)
    assert next(one.reason for one in told.conditions if one.type == "EndpointsRight") == "NotAsSeen"


def test_sentinels_are_shown_with_whom_they_watch(stage: Stage, sentinels: Sentinels, tmp_path: Path) -> None:
    stage.create()
    sentinels.servers[2].kill()
    told = seen(stage)
    assert told.architecture == "failover"
    assert told.phase == "Degraded"
    assert [(one.pod, one.watches) for one in told.sentinels] == [
        ("sessions-sentinel-0", str(FIRST)),
        ("sessions-sentinel-1", str(FIRST)),
        ("sessions-sentinel-2", ""),
    ]
    assert told.sentinels[2].problem
    printed = shown(stage, tmp_path)
    assert "sessions-sentinel-0" in printed
    assert "SentinelsPresent is False" in printed
