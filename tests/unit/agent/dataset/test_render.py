"""The file that a dataset's server starts with, and its users."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.unit.agent.places import place
from valkeyctl.agent import render
from valkeyctl.agent.environment import Environment
from valkeyctl.dataplane.model import Address


@pytest.fixture
def here(tmp_path: Path) -> Environment:
    (tmp_path / "sentinel").write_bytes(b"between us")
    return replace(place(tmp_path), architecture="replica", sentinel_secret=tmp_path / "sentinel")


def text(here: Environment) -> str:
    render.write(here)
    return (here.run / render.SERVER_FILE).read_text()


def test_before_anything_was_judged_it_takes_no_writes(here: Environment) -> None:
    assert 'replicaof "127.0.0.1" 1' in text(here)


def test_it_follows_who_was_judged_to_be_the_primary(here: Environment) -> None:
    render.follow(here, Address("t-s0-1.t-headless.n.svc", 6379))
    written = text(here)
    assert 'replicaof "t-s0-1.t-headless.n.svc" 6379' in written
    assert f'replica-announce-ip "{here.host}"' in written
    assert "replica-announce-port 6379" in written
    assert "cluster-announce" not in written
    render.follow(here, None)
    assert 'replicaof "127.0.0.1" 1' in text(here)


def test_only_who_is_judged_to_be_it_starts_writable(here: Environment) -> None:
    render.follow(here, None, writable=True)
    assert "replicaof" not in text(here)


def test_a_cluster_s_file_says_nothing_of_it(here: Environment) -> None:
    render.follow(here, None)
    written = text(replace(here, architecture="cluster"))
    assert "replicaof" not in written
    assert "replica-announce" not in written
    assert "cluster-announce-hostname" in written


@pytest.mark.parametrize(("architecture", "known"), [("failover", True), ("replica", False), ("cluster", False)])
def test_sentinels_have_a_user_where_they_watch(here: Environment, architecture: str, *, known: bool) -> None:
    text(replace(here, architecture=architecture))
    users = (here.run / "users.acl").read_text()
    assert ("user _sentinel on" in users) is known
    assert (sha256(b"between us").hexdigest() in users) is known
    assert "between us" not in users
