"""What `Prepare` does of a dataset before its Pods go: real servers, an API server in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import valkey

from tests.dataplane.datasets import Writer
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.test_objects import owned
from tests.unit.lifecycle.dataset_stage import DECLARED, FIRST, SECOND, STATUS, THIRD, Stage, staged
from valkeyctl.dataplane import Member
from valkeyctl.dataplane.errors import Blocked
from valkeyctl.lifecycle.datasets import preparing
from valkeyctl.lifecycle.prepare import PrepareProvider

NAMESPACE = "/api/v1/namespaces/valkey"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/valkey/leases"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/valkey/endpointslices"


@pytest.fixture
def stage(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(fake, monkeypatch, 2) as made:
        yield made


def declared(stage: Stage, **more: Any) -> dict[str, Any]:
    keys = ("kubeconfig", "transport", "owner", "namespace", "instance", "architecture", "replicas", "port")
    known = stage.inputs()
    told = {key: known[key] for key in (*keys, "credentials")}
    return {**told, "objects": [], "settings": None, "storage": None, "paused": False, **more}


def prepare(stage: Stage, **more: Any) -> bool:
    """What an `up` does before the StatefulSet; whether there was anything to do."""
    inputs = declared(stage, **more)
    checked = PrepareProvider().check({}, inputs)
    assert checked.failures == []
    # The state says that all was done: so it is after an `up` that was killed.
    if not PrepareProvider().diff("valkey/sessions", checked.inputs, checked.inputs).changes:
        return False
    PrepareProvider().update("valkey/sessions", checked.inputs, checked.inputs)
    return True


def takes_writes(stage: Stage, member: Member) -> bool:
    """Whether a write comes through; one that waits gets no answer."""
    with stage.dataset.client(member) as client:
        client.connection_pool.connection_kwargs["socket_timeout"] = 0.5
        with suppress(valkey.TimeoutError):
            client.publish("channel", "x")
            return True
    return False


# --- what it makes and refuses ----------------------------------------------------------------------------------------


def test_it_makes_what_agents_write_into_and_removes_it(stage: Stage, fake: FakeApi) -> None:
    PrepareProvider().create(declared(stage))
    component = "app.kubernetes.io/component"
    for path in (STATUS, DECLARED, f"{LEASES}/sessions"):
        assert fake.objects[path]["metadata"]["labels"][component] == "replica"
    stage.create()
    assert f"{SLICES}/sessions-rw" in fake.objects
    PrepareProvider().delete("id", declared(stage))
    assert [path for path in fake.objects if "sessions" in path and "/leases/" in path] == []
    assert [path for path in fake.objects if path.startswith(SLICES) or path in (STATUS, DECLARED)] == []


@pytest.mark.parametrize("path", [f"{LEASES}/sessions-primary", f"{SLICES}/sessions-rw", f"{SLICES}/sessions-ro"])
def test_somebody_elses_objects_are_refused(stage: Stage, fake: FakeApi, path: str) -> None:
    fake.put(path, owned("acme/valkey/dev/sessions"))
    assert (
        "already holds what this instance would write"
        in PrepareProvider().check({}, declared(stage)).failures[0].reason
    )


@pytest.mark.parametrize(("architecture", "before"), [(None, "replica"), ("failover", "cluster")])
def test_another_kind_is_refused_at_preview(stage: Stage, fake: FakeApi, architecture: str | None, before: str) -> None:
    stage.create()
    if before == "cluster":
        told = json.loads(fake.objects[DECLARED]["data"]["declared.json"])
        del told["architecture"]
        fake.objects[DECLARED]["data"]["declared.json"] = json.dumps(told)
    (failure,) = PrepareProvider().check({}, declared(stage, architecture=architecture)).failures
    assert f"sessions is a {before} instance, and {architecture or 'cluster'} is declared" in failure.reason
    assert "declare a new instance" in failure.reason
    assert "copy the data" in failure.reason


def test_replica_and_failover_become_each_other(stage: Stage) -> None:
    stage.create()
    assert PrepareProvider().check({}, declared(stage, architecture="failover")).failures == []


def test_a_set_of_sentinels_has_objects_and_nothing_else(stage: Stage, fake: FakeApi) -> None:
    objects = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "watchers-sentinel"}]
    inputs = declared(stage, architecture="sentinel", instance="watchers-sentinel", objects=objects)
    assert PrepareProvider().check({}, inputs).failures == []
    PrepareProvider().create(inputs)
    assert not [path for path in fake.objects if "watchers" in path]
    fake.put(f"{NAMESPACE}/configmaps/watchers-sentinel", owned("acme/valkey/dev/sessions"))
    assert "already holds what this instance would write" in PrepareProvider().check({}, inputs).failures[0].reason


# --- before members go ------------------------------------------------------------------------------------------------


def test_the_role_moves_off_a_member_that_goes(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.create(primary_ordinal=2.0)
    with Writer(stage.dataset) as writer:
        writer.await_more()
        assert prepare(stage, replicas=1.0)
        writer.await_more()
    assert "to do: primary: s0-2 → s0-0" in capsys.readouterr().err
    assert stage.roles()[FIRST] == "master"
    assert writer.lost(FIRST) == []
    assert stage.behind("rw") == ("sessions-s0-0",)


def test_nothing_moves_where_the_primary_stays(stage: Stage) -> None:
    stage.create()
    assert prepare(stage, replicas=1.0)
    assert stage.roles() == {FIRST: "master", SECOND: "slave", THIRD: "slave"}


def test_no_member_goes_while_none_that_stays_is_in_sync(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "WITHIN_S", 1.0)
    stage.create(primary_ordinal=2.0)
    stage.dataset.kill(FIRST)
    with pytest.raises(Blocked, match="replicas can't be taken out now, and none was") as raised:
        prepare(stage, replicas=0.0)
    assert "then declare 0" in str(raised.value)
    assert stage.dataset.told(THIRD)["role"] == "master"


def test_members_come_and_go(stage: Stage) -> None:
    stage.create()
    prepare(stage, replicas=1.0)
    stage.sets.scale(2)
    outs = stage.update(replicas=1.0)
    assert outs["phase"] == "Ready"
    assert stage.behind("ro") == ("sessions-s0-1",)
    assert stage.changes(replicas=1.0) is False
    stage.sets.scale(3)
    outs = stage.update(replicas=2.0)
    assert outs["phase"] == "Ready"
    assert stage.behind("ro") == ("sessions-s0-1", "sessions-s0-2")


# --- before all go ----------------------------------------------------------------------------------------------------


def test_everything_is_brought_to_rest_before_the_pods_go(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.create(persistent=True)
    stage.dataset.write(FIRST, "kept")
    assert prepare(stage, paused=True)
    told = capsys.readouterr().err
    assert "to do: stop all 3 Pods; the data stays on their 3 volumes" in told
    assert "all copies are equal: all 3 Pods may stop" in told
    assert not takes_writes(stage, FIRST)
    assert json.loads(stage.fake.objects[DECLARED]["data"]["declared.json"])["paused"] is True
    # Taken back before a Pod went, all goes on.
    assert prepare(stage)
    assert "start all 3 Pods, with the data that is on their 3 volumes" in capsys.readouterr().err
    assert takes_writes(stage, FIRST)
    assert json.loads(stage.fake.objects[DECLARED]["data"]["declared.json"])["paused"] is False
    assert not prepare(stage), "and then there is nothing to do"


def test_the_resource_waits_for_the_last_pod_and_says_paused(stage: Stage) -> None:
    stage.create(persistent=True)
    prepare(stage, paused=True)
    stage.sets.scale(0)
    outs = stage.update(persistent=True, paused=True)
    assert (outs["phase"], outs["primary"]) == ("Paused", "sessions-s0-0")
    assert stage.fake.objects[STATUS]["data"]["phase"] == "Paused"
    assert stage.changes(persistent=True, paused=True) is False
