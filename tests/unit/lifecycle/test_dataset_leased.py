"""The resource `Dataset` where agents fail over by a Lease: what `up` leaves to them, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dataplane.background import Background
from tests.dataplane.datasets import NOBODY, Writer
from tests.dataplane.servers import PORT
from tests.unit.kube.fake_api import FakeApi
from tests.unit.lifecycle.dataset_stage import FIRST, SECOND, THIRD, Stage, staged
from valkeyctl.dataplane import Member
from valkeyctl.kube.access import connect
from valkeyctl.kube.primary_lease import Seat, handed_to, path_of_primacy, read_primacy
from valkeyctl.lifecycle.account import ConvergeFailed
from valkeyctl.lifecycle.datasets import authority

LEASE = "/apis/coordination.k8s.io/v1/namespaces/valkey/leases/sessions-primary"


class Agents(Background):
    """What agents do by the Lease, as far as `up` goes by it: they promote who is appointed, and do as wished."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage
        self._api = connect(stage.fake.kubeconfig, None)
        self.promoted: list[Member] = []

    def _run(self) -> None:
        while not self._ending.wait(0.05):
            lease = read_primacy(self._api, "valkey", "sessions")
            if lease is None or lease.holder is None:
                continue
            holder, dataset = lease.holder.member, self._stage.dataset
            if dataset.told(holder)["role"] == "slave" and dataset.told(holder)["master_host"] == NOBODY:
                dataset.ask(holder, "REPLICAOF", "NO", "ONE")
                self.promoted.append(holder)
            if lease.wish is not None and lease.wish != holder:
                dataset.await_listing(holder, lease.wish)
                dataset.ask(holder, "FAILOVER", "TO", dataset.servers[lease.wish].host, PORT)
                dataset.await_link(holder, to=lease.wish)
                now = read_primacy(self._api, "valkey", "sessions")
                assert now is not None
                taken = handed_to(now, Seat(lease.wish, "token"), candidates=dataset.spec.members)
                self._api.replace(path_of_primacy("valkey", "sessions"), taken)


@pytest.fixture
def stage(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(fake, monkeypatch, 2) as made:
        made.more |= {"automatic_failover_s": 10.0}
        yield made


def test_the_first_holder_is_appointed_and_promoted_by_its_agent(stage: Stage) -> None:
    with Agents(stage) as agents:
        outs = stage.create()
    assert outs["phase"] == "Ready"
    assert agents.promoted == [FIRST]
    assert stage.fake.objects[LEASE]["spec"]["holderIdentity"] == "sessions-s0-0"
    assert stage.behind("rw") == ("sessions-s0-0",)
    assert not any("become the primary" in line for line in stage.done())
    assert stage.changes() is False


def test_a_roll_has_the_holder_hand_over(stage: Stage) -> None:
    with Agents(stage):
        stage.create()
        stage.sets.declare("r2")
        with Writer(stage.dataset) as writer:
            writer.await_more()
            outs = stage.update(workload_revision="r2")
            writer.await_more()
        assert outs["primary"] == "sessions-s0-1"
        assert writer.lost(SECOND) == []
        assert stage.update(workload_revision="r2", primary_ordinal=2.0)["primary"] == "sessions-s0-2"
    assert set(stage.sets.revisions().values()) == {"r2"}
    assert stage.fake.objects[LEASE]["spec"]["holderIdentity"].startswith("sessions-s0-2/")
    assert stage.behind("rw") == ("sessions-s0-2",)


def test_nobody_is_promoted_past_the_holder(stage: Stage) -> None:
    with Agents(stage):
        stage.create()
    stage.dataset.kill(FIRST)
    with pytest.raises(ConvergeFailed, match="it is decided who the primary is"):
        stage.update(timeout_s=2.0)
    assert {stage.dataset.told(member)["role"] for member in (SECOND, THIRD)} == {"slave"}


def test_a_wish_that_nobody_fulfils_is_taken_back_and_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority, "HANDOVER_S", 1.0)
    with Agents(stage):
        stage.create()
    with pytest.raises(ConvergeFailed, match="the role didn't move from s0-0 to s0-1"):
        stage.update(primary_ordinal=1.0)
    assert "valkeyctl/primary-wish" not in stage.fake.objects[LEASE]["metadata"]["annotations"]


def test_without_it_the_lease_goes(stage: Stage) -> None:
    with Agents(stage):
        stage.create()
    assert LEASE in stage.fake.objects
    assert stage.update(automatic_failover_s=None)["phase"] == "Ready"
    assert LEASE not in stage.fake.objects
