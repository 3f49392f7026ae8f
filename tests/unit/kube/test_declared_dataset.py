"""What `up` declares of a dataset for its agents, and how they read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.dataplane.model import Address, Member
from valkeyctl.kube.access import Api
from valkeyctl.kube.declared import declared_architecture
from valkeyctl.kube.declared_dataset import (
    DeclaredDataset,
    DeclaredSentinels,
    parse_declared_dataset,
    read_declared_dataset,
    render_declared_dataset,
    write_declared_dataset,
)
from valkeyctl.kube.declared_text import KEY, DeclaredUnreadable

SENTINELS = DeclaredSentinels("valkey.sessions", (Address("one", 26379), Address("two", 26380)), 2, 2000, 10000, 1)
PLAIN = DeclaredDataset("acme/valkey/prod/sessions", "sessions", "replica", 2)
STATES = {
    "plain": PLAIN,
    "by a Lease": replace(PLAIN, automatic_failover_s=10, formed=True, persistent=True, port=7000),
    "wished": replace(PLAIN, primary=2, heal=False),
    "paused": replace(PLAIN, paused=True),
    "watched": replace(PLAIN, architecture="failover", sentinels=SENTINELS),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_what_is_written_is_read_again(fake: FakeApi, api: Api, state: DeclaredDataset) -> None:
    assert read_declared_dataset(api, "valkey", "sessions") is None
    write_declared_dataset(api, "valkey", state)
    write_declared_dataset(api, "valkey", state)
    assert read_declared_dataset(api, "valkey", "sessions") == state
    known = fake.objects["/api/v1/namespaces/valkey/configmaps/sessions-declared"]
    assert declared_architecture(known) == state.architecture
    assert known["metadata"]["labels"]["app.kubernetes.io/component"] == state.architecture


def test_what_isn_t_understood_is_no_declaration() -> None:
    text = render_declared_dataset(PLAIN)
    for wrong in ('{"format": 2}', "nonsense", text.replace('"replica"', '"cluster"'), text.replace("2", "17")):
        with pytest.raises(DeclaredUnreadable, match="sessions-declared is not understood"):
            parse_declared_dataset({"metadata": {}, "data": {KEY: wrong}}, "sessions")
    assert parse_declared_dataset({"metadata": {}, "data": {}}, "sessions") is None


def test_keys_of_a_later_version_are_passed_over() -> None:
    text = render_declared_dataset(PLAIN).replace('"format"', '"later": {"a": 1}, "format"')
    known = {"metadata": {"annotations": {"valkeyctl/owner": PLAIN.owner}}, "data": {KEY: text}}
    assert parse_declared_dataset(known, "sessions") == PLAIN


def test_members_and_what_can_t_be() -> None:
    assert PLAIN.members == (Member(0, 0), Member(0, 1), Member(0, 2))
    assert not STATES["paused"].may_heal
    assert not STATES["wished"].may_heal
    with pytest.raises(ValueError, match="no member s0-3"):
        replace(PLAIN, primary=3)
    with pytest.raises(ValueError, match="replica or failover"):
        replace(PLAIN, architecture="cluster")


@pytest.mark.parametrize(
    ("known", "architecture"), [(None, ""), ({"data": {}}, ""), ({"data": {KEY: "{}"}}, "cluster")]
)
def test_the_architecture_of_what_is_there(known: dict[str, object] | None, architecture: str) -> None:
    assert declared_architecture(known) == architecture
