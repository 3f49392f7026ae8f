"""What `check` decides: the planned layout, and which changes are refused before anything is written."""

from typing import Any

import pytest
from pulumi.runtime import rpc

from valkeyctl.dataplane.errors import InvalidSlots
from valkeyctl.kube.status import InstanceStatus
from valkeyctl.lifecycle.changes import ChangeRefused, owners, planned_inputs, refuse_move, refuse_storage_change

THREE = {"s0": "0-5460", "s1": "5461-10921", "s2": "10922-16383"}
FORMED = InstanceStatus("Ready", layout=THREE, formed=True)


def inputs(shards: float = 3.0, replicas: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"shards": shards, "replicas": replicas, "owner": "o", "namespace": "n", "instance": "i", **more}


def test_a_new_cluster_gets_equal_ranges_and_nothing_else_changes() -> None:
    checked = planned_inputs({}, inputs(), None)
    assert checked == {**inputs(), "layout": THREE}


def test_the_same_declaration_gives_the_same_layout() -> None:
    first = planned_inputs({}, inputs(), None)
    assert planned_inputs(first, inputs(), None) == first


def test_an_explicit_layout_is_kept_whatever_names_its_shards_have() -> None:
    slots = {"0": "0-99", "1": "100-16382", "2": "16383"}
    assert planned_inputs({}, inputs(slots=slots), None)["layout"] == {"s0": "0-99", "s1": "100-16382", "s2": "16383"}


def test_a_layout_once_declared_stays_when_it_is_left_out_again_within_one_of_equal() -> None:
    turned = {"0": "10923-16383", "1": "0-5461", "2": "5462-10922"}
    first = planned_inputs({}, inputs(slots=turned), None)
    assert planned_inputs(first, inputs(), None)["layout"] == first["layout"]


def test_without_old_inputs_the_status_tells_what_there_is() -> None:
    turned = {"s0": "10923-16383", "s1": "0-5461", "s2": "5462-10922"}
    live = InstanceStatus("Ready", layout=turned, formed=True)
    assert planned_inputs({}, inputs(), live)["layout"] == turned


@pytest.mark.parametrize(
    "live",
    [
        InstanceStatus("Initializing", layout={}),
        InstanceStatus("Failed", layout={"s0": "0-16383"}),
        InstanceStatus("Ready", layout=THREE, formed=True, destroying=True),
        InstanceStatus("Degraded", layout={**THREE, "s2": "10922-16000"}, formed=True),
    ],
    ids=["never formed", "half made", "being destroyed", "slots missing"],
)
def test_a_status_that_cannot_be_relied_on_binds_nobody(live: InstanceStatus) -> None:
    assert len(planned_inputs({}, inputs(shards=4.0), live)["layout"]) == 4


@pytest.mark.parametrize("replicas", [0.0, 2.0])
def test_more_and_fewer_replicas_are_fine(replicas: float) -> None:
    before = planned_inputs({}, inputs(), None)
    assert planned_inputs(before, inputs(replicas=replicas), None)["layout"] == THREE


def test_replacing_the_only_copies_in_memory_takes_consent() -> None:
    alone = inputs(replicas=0.0, workload_revision="a")
    before = planned_inputs({}, alone, None)
    assert planned_inputs(before, alone, None)["layout"] == THREE
    with pytest.raises(ChangeRefused, match="all of it would be gone") as raised:
        planned_inputs(before, {**alone, "workload_revision": "b"}, None)
    assert "allowDataLoss: true" in str(raised.value)


@pytest.mark.parametrize("more", [{"replicas": 1.0}, {"persistent": True}, {"allow_data_loss": True}])
def test_replacing_pods_whose_data_stays_is_fine(more: dict[str, Any]) -> None:
    before = planned_inputs({}, inputs(replicas=0.0, workload_revision="a"), None)
    planned_inputs(before, {**inputs(replicas=0.0, workload_revision="b"), **more}, None)


def test_the_layout_that_it_has_may_be_declared() -> None:
    before = planned_inputs({}, inputs(), None)
    slots = {str(shard): slots for shard, slots in enumerate(THREE.values())}
    assert planned_inputs(before, inputs(slots=slots), None)["layout"] == THREE


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ({"0": "0-16383"}, "1 shards have slots where 3 are declared"),
        ({"0": "0-1", "1": "2-3", "2": "5-16383"}, "no shard has the slots 4"),
        ({"a": "0-16383"}, "names shards by number"),
    ],
)
def test_impossible_slots_are_refused(slots: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidSlots, match=told):
        planned_inputs({}, inputs(slots=slots), None)


PAUSED = {"paused": True, "persistent": True, "version": "8.1.8"}
SHAPES: dict[str, tuple[dict[str, Any], str, str]] = {
    "more shards": ({"shards": 4.0}, "shards", "`shards` changes from 3 to 4"),
    "fewer replicas": ({"replicas": 0.0}, "replicas", "`replicas` changes from 1 to 0"),
    "other slots": (
        {"slots": {"0": "0-5461", "1": "5462-10921", "2": "10922-16383"}},
        "slots",
        "slots change their shards",
    ),
    "another version": ({"version": "9.1.2"}, "version", "the version changes from 8.1.8 to 9.1.2"),
}


@pytest.mark.parametrize("change", SHAPES)
@pytest.mark.parametrize(
    ("before", "after", "when", "way"),
    [
        (
            False,
            True,
            "with the `up` that pauses the instance",
            "Change it first, and pause with the `pulumi up` after",
        ),
        (True, True, "while the instance is paused", "Unpause it first"),
        (True, False, "with the `up` that ends the pause", "Unpause it first"),
    ],
    ids=["pausing", "paused", "resuming"],
)
def test_what_takes_running_servers_is_refused_beside_a_pause(
    change: str,
    before: bool,  # noqa: FBT001
    after: bool,  # noqa: FBT001
    when: str,
    way: str,
) -> None:
    more, where, told = SHAPES[change]
    olds = planned_inputs({}, inputs(**{**PAUSED, "paused": before}), None)
    with pytest.raises(ChangeRefused) as raised:
        planned_inputs(olds, inputs(**{**PAUSED, "paused": after, **more}), None)
    assert raised.value.where == where
    assert f"{told} {when}" in raised.value.what
    assert way in raised.value.remedy


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_what_can_wait_for_the_pods_is_let_through_beside_a_pause(before: bool, after: bool) -> None:  # noqa: FBT001
    olds = planned_inputs({}, inputs(**{**PAUSED, "paused": before}), None)
    slots = {str(shard): text for shard, text in enumerate(THREE.values())}
    harmless = {"version": "8.1.9", "workload_revision": "b", "heal": False, "slots": slots, "timeout_s": 60.0}
    news = inputs(**{**PAUSED, "paused": after, **harmless})
    assert planned_inputs(olds, news, None)["layout"] == THREE


@pytest.mark.parametrize("unknown", ["shards", "replicas", "version"])
def test_what_is_unknown_at_preview_is_not_refused_beside_a_pause(unknown: str) -> None:
    olds = planned_inputs({}, inputs(**PAUSED), None)
    planned_inputs(olds, inputs(**{**PAUSED, unknown: rpc.UNKNOWN}), None)


def test_one_that_is_made_paused_has_nothing_to_be_compared_with() -> None:
    assert planned_inputs({}, inputs(**PAUSED), None)["layout"] == THREE


def test_what_is_unknown_at_preview_leaves_the_layout_unknown() -> None:
    assert "layout" not in planned_inputs({}, inputs(shards=rpc.UNKNOWN), None)  # type: ignore[arg-type]


def test_another_number_of_shards_moves_the_fewest_slots() -> None:
    before = planned_inputs({}, inputs(), None)
    more = planned_inputs(before, inputs(shards=4.0), None)
    assert more["layout"] == {
        "s0": "0-4095",
        "s1": "5461-9556",
        "s2": "10922-15017",
        "s3": "4096-5460,9557-10921,15018-16383",
    }
    fewer = planned_inputs(more, inputs(shards=3.0), None)
    assert sorted(fewer["layout"]) == ["s0", "s1", "s2"]
    # What is taken back before an `up` has come to its end is planned from what stood before.
    assert planned_inputs(before, inputs(), None)["layout"] == before["layout"]


def test_an_explicit_layout_is_planned_whatever_it_moves() -> None:
    before = planned_inputs({}, inputs(), None)
    slots = {"0": "0-5461", "1": "5462-10921", "2": "10922-16383"}
    after = planned_inputs(before, inputs(slots=slots), None)
    assert after["layout"] == {f"s{shard}": text for shard, text in slots.items()}


def test_a_new_start_with_the_status_of_a_running_instance_is_planned_from_it() -> None:
    planned = planned_inputs({}, inputs(shards=2.0), FORMED)
    assert planned["layout"] == {"s0": "0-5460,10922-13652", "s1": "5461-10921,13653-16383"}


def test_owners_remember_what_a_renamed_stack_was_called() -> None:
    first = {"owner": "a"}
    assert owners({}, first) == ["a"]
    renamed = {"owner": "b", "former_owners": owners(first, {"owner": "b"})[1:]}
    assert owners({}, renamed) == ["b", "a"]
    again = owners(renamed, {"owner": "c"})
    assert again == ["c", "b", "a"]
    # Renamed back, the former name is no longer former.
    assert owners({"owner": "c", "former_owners": ["b", "a"]}, {"owner": "a"}) == ["a", "c", "b"]


def storage(size: str, size_bytes: float, storage_class: str | None = None) -> dict[str, Any]:
    return {"storage": {"size": size, "bytes": size_bytes, "storageClassName": storage_class}}


NONE: dict[str, Any] = {"storage": None}
ONE, TWO = storage("1Gi", 2.0**30), storage("2Gi", 2.0**31)


@pytest.mark.parametrize(
    ("olds", "news", "told"),
    [
        (ONE, NONE, "an instance with storage is declared without"),
        (NONE, ONE, "an instance without storage is declared with it"),
        (TWO, ONE, "1Gi is declared where the volumes have 2Gi: volumes can only grow"),
        (
            ONE,
            storage("1Gi", 2.0**30, "fast"),
            "the class fast is declared where the volumes are of the class by default",
        ),
        (
            storage("1Gi", 2.0**30, "slow"),
            TWO,
            "the class by default is declared where the volumes are of the class slow",
        ),
    ],
    ids=["removed", "added", "shrunk", "other class", "class left out"],
)
def test_storage_that_a_stateful_set_cannot_follow_is_refused(
    olds: dict[str, Any], news: dict[str, Any], told: str
) -> None:
    with pytest.raises(ChangeRefused, match=told) as raised:
        refuse_storage_change(olds, news)
    assert "persistence" in str(raised.value)


@pytest.mark.parametrize(
    ("olds", "news"), [({}, ONE), ({}, NONE), (NONE, NONE), (ONE, ONE), (ONE, TWO), ({"storage": rpc.UNKNOWN}, ONE)]
)
def test_new_unchanged_and_growing_storage_is_let_through(olds: dict[str, Any], news: dict[str, Any]) -> None:
    refuse_storage_change(olds, news)
    assert news in (NONE, ONE, TWO)


def test_an_instance_is_not_replaced_by_an_empty_one_elsewhere() -> None:
    with pytest.raises(ChangeRefused, match="the namespace valkey, and other is declared") as raised:
        refuse_move({"namespace": "valkey"}, {"namespace": "other"})
    assert "pulumi destroy" in str(raised.value)
    for olds, news in (({}, {"namespace": "other"}), ({"namespace": "other"}, {"namespace": "other"})):
        refuse_move(olds, news)
    refuse_move({"namespace": "valkey"}, {"namespace": rpc.UNKNOWN})
