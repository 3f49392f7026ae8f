"""When a shard's guard lets it go."""

import pytest

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS, pod, workload
from tests.unit.kube.test_objects import owned
from valkeyctl.dataplane import Endpoint, Member, NodeView, Role, SlotSet
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.kube.errors import ApiUnreachable
from valkeyctl.kube.status import InstanceStatus
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.release import ShardFacts, ShardStillNeeded, decides_status, objection, require_release

S2_0, S2_1 = Member(2, 0), Member(2, 1)


def node(member: Member, slots: str) -> NodeView:
    return NodeView(
        endpoint=Endpoint(member, f"i-{member}", "host", "10.0.0.1"),
        node_id=str(member),
        role=Role.PRIMARY if slots else Role.REPLICA,
        primary_id="",
        slots=SlotSet.parse(slots) if slots else SlotSet(),
        config_epoch=1,
        current_epoch=1,
        state_ok=True,
        version="9.1.2",
        keys=0,
        offset=0,
        replication_id="x",
    )


@pytest.mark.parametrize(
    ("status", "decides"),
    [
        (None, True),
        (InstanceStatus("Failed"), True),
        (InstanceStatus("Ready", formed=True, finished=True, destroying=True), True),
        (InstanceStatus("Ready", formed=True, finished=True), False),
        (InstanceStatus("Ready", formed=True), True),
        (InstanceStatus("Unreachable", formed=True, finished=True), False),
    ],
    ids=["never heard of", "never Ready", "being destroyed", "Ready", "formed by agents alone", "once Ready"],
)
def test_what_the_status_alone_decides(status: InstanceStatus | None, decides: bool) -> None:  # noqa: FBT001
    assert decides_status(status) is decides


def test_a_shard_that_owns_slots_stays_whichever_member_has_them() -> None:
    told = objection(2, ShardFacts({S2_0: node(S2_0, ""), S2_1: node(S2_1, "0-99")}))
    assert told == "shard s2 still holds data: s2-1 owns 100 slots"


def test_a_shard_that_does_not_answer_stays() -> None:
    assert "s2-1 did not answer" in objection(2, ShardFacts({S2_0: node(S2_0, "")}, silent=(S2_1,)))


def test_an_empty_shard_goes() -> None:
    assert objection(2, ShardFacts({S2_0: node(S2_0, ""), S2_1: node(S2_1, "")})) == ""
    assert objection(2, ShardFacts({})) == ""


def test_a_shard_that_is_gone_already_goes() -> None:
    assert objection(2, ShardFacts({S2_0: node(S2_0, "0-99")}, exists=False)) == ""


STATUS = "/api/v1/namespaces/valkey/configmaps/sessions-status"


def place(fake: FakeApi) -> Place:
    return Place("valkey", "sessions", "o", kubeconfig=fake.kubeconfig)


def formed(fake: FakeApi, **data: str) -> None:
    fake.put(STATUS, owned("o", data={"phase": "Ready", "formed": "true", "finished": "true", **data}))


def test_a_silent_shard_of_a_formed_instance_is_kept_with_the_way_out(fake: FakeApi) -> None:
    formed(fake)
    fake.put(f"{SETS}/sessions-s2", workload(2))
    fake.put(f"{PODS}/sessions-s2-0", pod(2, podIP=None))
    with pytest.raises(ShardStillNeeded) as raised:
        require_release(place(fake), 2, None)
    told = str(raised.value)
    assert "valkey/sessions-s2: shard s2 may still hold data: s2-0 did not answer" in told
    assert "kubectl -n valkey patch configmap sessions-status" in told
    assert isinstance(raised.value, ValkeyctlError)


def test_a_shard_of_a_paused_instance_is_kept_though_nobody_is_silent(fake: FakeApi) -> None:
    formed(fake, declared='{"shards": 3, "replicas": 1, "paused": true}')
    fake.put(f"{SETS}/sessions-s2", workload(2, replicas=0))
    with pytest.raises(ShardStillNeeded, match="shard s2 may still hold data: the instance is paused"):
        require_release(place(fake), 2, None)
    formed(fake, declared='{"shards": 3, "replicas": 1, "paused": true}', destroying="true")
    require_release(place(fake), 2, None)


def test_it_goes_when_the_instance_is_being_destroyed(fake: FakeApi) -> None:
    formed(fake, destroying="true")
    fake.put(f"{SETS}/sessions-s2", workload(2))
    fake.put(f"{PODS}/sessions-s2-0", pod(2))
    require_release(place(fake), 2, None)
    assert [method for method, path in fake.seen if "pods" in path] == []


def test_it_goes_when_its_statefulset_is_gone(fake: FakeApi) -> None:
    formed(fake)
    require_release(place(fake), 2, {"secretName": "gone", "key": "password"})
    assert all(method == "GET" for method, _ in fake.seen)


def test_an_api_that_does_not_answer_lets_nothing_go(fake: FakeApi) -> None:
    unreachable = place(fake)
    fake.close()
    with pytest.raises(ApiUnreachable):
        require_release(unreachable, 2, None)
