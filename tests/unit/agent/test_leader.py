"""The leading agent: it heals with real servers what was broken by hand, under the Lease, and tells of it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.dataplane.scenes import assert_ready, look, run
from tests.dataplane.servers import NODE_TIMEOUT_MS
from tests.unit.agent.leading import DECLARED, LEASE, OWNER, PASSWORD, STATUS, Agent, PodFleet, Scene, eventually
from tests.unit.kube.conftest import fake  # noqa: F401 - a fixture
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, pod
from valkeyctl.agent import heal
from valkeyctl.agent.rights import rules
from valkeyctl.agent.turns import End, Turn
from valkeyctl.dataplane import Done, Member, Spec, plan, planned_layout
from valkeyctl.kube.errors import ApiError, ApiNotFound
from valkeyctl.kube.holder import this_process
from valkeyctl.kube.labels import ROLE_LABEL
from valkeyctl.kube.lease import WISH_ANNOTATION, Claim, Timing, acquire
from valkeyctl.kube.status import mark_destroying

SPEC = Spec("sessions", 3, 1, planned_layout(3), node_timeout_ms=NODE_TIMEOUT_MS)
FORMED = replace(SPEC, formed=True)
ME, REPLICA = Member(0, 0), Member(1, 1)


@pytest.fixture
def scene(fake: FakeApi) -> Iterator[Scene]:  # noqa: F811
    with PodFleet(SPEC, "9.1", password=PASSWORD) as fleet:
        fleet.start()
        made = Scene(fake, fleet)
        made.publish()
        made.prepare()
        yield made
        made.close()


@pytest.fixture
def formed(scene: Scene) -> Scene:
    """As an `up` left it."""
    run(scene.fleet)
    scene.declare(FORMED)
    return scene


def turn(scene: Scene, agent: Agent) -> Turn:
    return agent.turns(scene.api).take(after_others=True, missing_since={})


def ready(scene: Scene, spec: Spec = FORMED) -> bool:
    return plan(spec, look(scene.fleet, spec)) == Done()


def assert_whole(scene: Scene) -> None:
    """As the servers say in their own words; on a busy machine one may answer late."""
    view = look(scene.fleet)
    while view.missing:
        time.sleep(0.2)
        view = look(scene.fleet)
    assert_ready(scene.fleet, view)


def writes(scene: Scene) -> list[tuple[str, str]]:
    return [(method, path) for method, path in scene.fake.seen if method != "GET"]


# --- at rest --------------------------------------------------------------------------------------------------------


def test_at_rest_it_asks_nobody_and_once_labels_its_own_pod(formed: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valkeyctl.agent.role_label.CALM_S", 0.3)
    agent = formed.agent()
    eventually(lambda: not agent.judgement().troubles)
    formed.fake.seen.clear()
    agent.start()
    time.sleep(2.5)
    pod = "/api/v1/namespaces/valkey/pods/sessions-s0-0"
    assert formed.fake.seen == [("PATCH", pod)]
    assert formed.fake.objects[pod]["metadata"]["labels"][ROLE_LABEL] == "primary"
    assert set(agent.beats) == {"leader"}


def test_the_label_follows_the_role_and_survives_an_api_server_that_fails(
    formed: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valkeyctl.agent.role_label.CALM_S", 0.1)
    monkeypatch.setattr("valkeyctl.agent.role_label.SHORTEST_S", 0.3)
    agent = formed.agent()
    agent.start()
    labels = formed.fake.objects["/api/v1/namespaces/valkey/pods/sessions-s0-0"]["metadata"]["labels"]

    def label() -> str | None:
        return formed.fake.objects["/api/v1/namespaces/valkey/pods/sessions-s0-0"]["metadata"]["labels"].get(ROLE_LABEL)

    assert ROLE_LABEL not in labels
    eventually(lambda: label() == "primary")
    formed.fake.fault = lambda _method, _path: 500
    formed.fleet.ask(Member(0, 1), "CLUSTER", "FAILOVER")
    eventually(lambda: "could not be written" in agent.log)
    formed.fake.fault = lambda _method, _path: None
    eventually(lambda: label() == "replica")


# --- healing --------------------------------------------------------------------------------------------------------


def test_what_is_right_is_left_alone_and_the_status_told_once(formed: Scene) -> None:
    agent = formed.agent()
    assert turn(formed, agent).end is End.RIGHT
    assert (formed.status["phase"], formed.status["observer"]) == ("Ready", "agent sessions-s0-0")
    formed.fake.seen.clear()
    assert turn(formed, agent).end is End.RIGHT
    assert {path for _, path in writes(formed)} == {LEASE}


def test_a_node_that_was_reset_by_hand_comes_back_by_itself_and_it_is_told(formed: Scene) -> None:
    agents = [formed.agent(member) for member in (ME, REPLICA)]
    turn(formed, agents[0])
    formed.fleet.ask(REPLICA, "CLUSTER", "RESET", "HARD")
    for agent in agents:
        agent.start()
    eventually(lambda: ready(formed))
    eventually(lambda: formed.status["phase"] == "Ready" and not formed.fake.objects[LEASE]["spec"]["holderIdentity"])
    assert_whole(formed)
    assert any("replicate" in line for line in json.loads(formed.status["done"]))
    kinds = {(kind, reason) for kind, reason, _ in formed.events()}
    assert {("Normal", "TopologyChanged"), ("Normal", "Ready"), ("Warning", "Degraded")} <= kinds
    assert PASSWORD not in json.dumps(list(formed.fake.objects.values())) + "".join(agent.log for agent in agents)


def test_a_replica_detached_by_hand_and_deleted_slots_are_put_back(formed: Scene) -> None:
    for member in formed.fleet.servers:
        formed.fleet.ask(member, "CLUSTER", "DELSLOTSRANGE", "100", "200")
    formed.fleet.ask(REPLICA, "CLUSTER", "RESET", "SOFT")
    formed.agent().start()
    eventually(lambda: ready(formed))
    assert_whole(formed)


def test_all_pods_that_come_back_empty_are_formed_anew_without_volumes(formed: Scene) -> None:
    formed.fleet.stop(*SPEC.members)
    formed.fleet.start()
    formed.publish()
    agents = [formed.agent(member) for member in SPEC.members]
    for agent in agents:
        agent.start()
    eventually(lambda: ready(formed), 30)
    assert_whole(formed)


def test_all_disks_that_come_back_empty_are_told_and_left_to_a_person(formed: Scene) -> None:
    persistent = replace(FORMED, persistent=True)
    formed.declare(persistent)
    formed.fleet.stop(*SPEC.members)
    formed.fleet.start()
    formed.publish()
    found = turn(formed, formed.agent())
    assert found.end is End.NOT_HEALED
    assert "every disk came back empty" in found.why
    assert "allowDataLoss" in formed.status["failure"]
    conditions = {c["type"]: c for c in json.loads(formed.status["conditions"])}
    assert conditions["Ready"]["status"] == "False"
    assert any(kind == "Warning" and "every disk came back empty" in text for kind, _, text in formed.events())
    assert all("cluster_slots_assigned:0" in str(formed.fleet.ask(m, "CLUSTER", "INFO")) for m in SPEC.members)


def test_all_pods_under_new_addresses_keep_ids_and_data(formed: Scene) -> None:
    ids = formed.fleet.ids()
    formed.fleet.restart(*SPEC.members)
    formed.publish()
    for member in SPEC.members:
        formed.agent(member).start()
    eventually(lambda: ready(formed), 30)
    assert formed.fleet.ids() == ids


def test_the_declared_takeover_counts_from_when_the_own_server_missed_them(
    formed: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heal, "TURN_S", 5.0)
    formed.declare(replace(FORMED, takeover_after_s=3.0))
    view = look(formed.fleet)
    lost = [member for member, node in view.nodes.items() if node.slots][:2]
    heirs = [Member(member.shard, 1 - member.ordinal) for member in lost]
    formed.fleet.stop(*lost)
    formed.publish()
    agent = formed.agent(heirs[0])
    long_ago = dict.fromkeys(lost, time.monotonic() - 60)
    found = agent.turns(formed.api).take(after_others=True, missing_since=long_ago)
    assert found.end is End.NOT_HEALED, "two Pods are still missing"
    assert sorted(m for m, node in look(formed.fleet).nodes.items() if node.slots)[:2] != sorted(lost)
    assert all(look(formed.fleet).nodes[heir].slots for heir in heirs), agent.log
    assert "WARNING leader" in agent.log
    assert "TAKE OVER WITHOUT AN ELECTION" in agent.log
    assert any("TAKE OVER" in text for _, _, text in formed.events())


def test_a_pod_that_stays_away_is_told_with_its_reason_and_tried_again_ever_less(
    formed: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heal, "TURN_S", 1.0)
    formed.fleet.stop(REPLICA)
    formed.publish()
    agent = formed.agent()
    agent.start()
    eventually(lambda: "s1-1" in formed.status.get("failure", ""))
    assert formed.status["phase"] == "Degraded"
    assert formed.status["failureOf"].startswith("agent sessions-s")
    conditions = {c["type"]: c["status"] for c in json.loads(formed.status["conditions"])}
    assert (conditions["Ready"], conditions["PodsScheduled"]) == ("False", "False")

    def asks_for_nothing() -> bool:
        formed.fake.seen.clear()
        time.sleep(4)
        return not formed.fake.seen

    # Once the view has stopped to change: that it doesn't answer becomes that it has failed.
    eventually(asks_for_nothing, 40)
    formed.fleet.resume(REPLICA)
    formed.publish()
    eventually(lambda: formed.status["phase"] == "Ready", 30)
    assert not {"failure", "failureOf"} & set(formed.status)


# --- who may, and when not ------------------------------------------------------------------------------------------


def test_nothing_is_touched_before_it_is_declared(scene: Scene) -> None:
    agent = scene.agent()
    assert turn(scene, agent).end is End.NOT_DECLARED
    assert [(m, p) for m, p in writes(scene) if "leases" in p and m == "PUT"] == []
    assert "cluster_known_nodes:1" in str(scene.fleet.ask(ME, "CLUSTER", "INFO"))


def test_what_is_being_destroyed_is_not_healed(formed: Scene) -> None:
    mark_destroying(formed.api, "valkey", "sessions", OWNER)
    formed.fleet.ask(REPLICA, "CLUSTER", "RESET", "SOFT")
    assert turn(formed, formed.agent()).end is End.NOT_DECLARED
    formed.declare(FORMED)
    found = turn(formed, formed.agent())
    assert (found.end, found.why) == (End.NOT_DECLARED, "the instance is being destroyed")
    assert formed.status["destroying"] == "true"
    assert not ready(formed)


def test_what_is_about_to_be_paused_is_left_alone(formed: Scene) -> None:
    formed.declare(FORMED, paused=True)
    formed.fleet.stop(REPLICA)
    assert turn(formed, formed.agent()).end is End.PAUSED
    assert End.PAUSED.settled, "nothing is owed"
    assert [(m, p) for m, p in writes(formed) if "leases" in p and m == "PUT"] == []


def test_where_healing_is_switched_off_only_up_heals(formed: Scene) -> None:
    formed.declare(FORMED, heals=False)
    formed.fleet.ask(REPLICA, "CLUSTER", "RESET", "SOFT")
    assert turn(formed, formed.agent()).end is End.SWITCHED_OFF
    assert [(m, p) for m, p in writes(formed) if "leases" in p and m == "PUT"] == []
    assert not ready(formed)


def test_one_whose_declaration_goes_in_the_middle_stops(formed: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heal, "LOOK_AGAIN_S", 0.2)
    formed.fleet.stop(REPLICA)
    formed.publish()
    found = _in_the_middle(formed, lambda: formed.fake.objects.pop(DECLARED))
    assert (found.end, found.why) == (End.STOPPED, "it is not declared like this any more")
    assert not formed.fake.objects[LEASE]["spec"]["holderIdentity"]


def test_an_up_gets_the_lease_within_moments_and_finishes(formed: Scene) -> None:
    formed.fleet.stop(REPLICA)
    formed.publish()
    took = list[float]()

    def up() -> None:
        began = time.monotonic()
        claim = Claim("valkey", "sessions", OWNER, this_process(f"up of {OWNER}"), Timing())
        lease = acquire(formed.api, claim)
        took.append(time.monotonic() - began)
        lease.check()
        lease.release()

    found = _in_the_middle(formed, up)
    assert found.end is End.STOPPED
    assert "gives way to" in found.why
    assert took[0] < 4
    assert WISH_ANNOTATION not in formed.fake.objects[LEASE]["metadata"]["annotations"]


def test_a_lease_that_others_hold_or_take_is_theirs(formed: Scene) -> None:
    formed.fleet.stop(REPLICA)
    formed.publish()
    theirs = {"holderIdentity": "bob@desk", "leaseDurationSeconds": 60}
    found = _in_the_middle(formed, lambda: formed.fake.put(LEASE, {"spec": theirs}))
    assert found.end is End.STOPPED
    assert "taken over by bob@desk" in found.why
    assert formed.fake.objects[LEASE]["spec"]["holderIdentity"] == "bob@desk"
    before = dict(formed.status)
    assert turn(formed, formed.agent()).end is End.HELD
    assert formed.status == before


def test_an_agent_that_is_asked_to_end_gives_the_lease_back(formed: Scene) -> None:
    formed.fleet.stop(REPLICA)
    formed.publish()
    agent = formed.agent()
    agent.start()
    eventually(lambda: formed.fake.objects[LEASE]["spec"].get("holderIdentity"))
    agent.stop()
    assert not formed.fake.objects[LEASE]["spec"]["holderIdentity"]


def _in_the_middle(scene: Scene, act: object) -> Turn:
    """A turn that waits for a Pod, in the middle of which something happens."""
    agent, found = scene.agent(), list[Turn]()
    thread = threading.Thread(target=lambda: found.append(turn(scene, agent)))
    thread.start()
    eventually(lambda: scene.status.get("observer") == "agent sessions-s0-0")
    act()  # type: ignore[operator]
    thread.join(timeout=20)
    assert found, "it has not stopped"
    return found[0]


# --- an API server with faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [500, 503, 429, 403])
def test_an_api_server_that_fails_stops_nothing_but_the_healing(formed: Scene, fault: int) -> None:
    formed.fake.fault = lambda _method, _path: fault
    formed.fleet.ask(REPLICA, "CLUSTER", "RESET", "SOFT")
    agent = formed.agent()
    agent.start()
    eventually(lambda: "nothing can be healed now" in agent.log)
    assert formed.fleet.ask(ME, "PING")
    formed.fake.fault = lambda _method, _path: None
    eventually(lambda: ready(formed), 30)


def test_one_that_goes_silent_in_the_middle_ends_the_turn(formed: Scene) -> None:
    formed.fleet.stop(REPLICA)
    formed.publish()

    def silent() -> None:
        formed.fake.fault = lambda _method, _path: 503

    found = _in_the_middle(formed, silent)
    assert found.end is End.STOPPED
    formed.fake.fault = lambda _method, _path: None


def test_a_status_that_can_not_be_written_stops_no_healing(formed: Scene) -> None:
    del formed.fake.objects[STATUS]
    formed.fake.fault = lambda method, path: 403 if "events" in path or method == "POST" else None
    formed.fleet.ask(REPLICA, "CLUSTER", "RESET", "SOFT")
    agent = formed.agent()
    assert turn(formed, agent).end is End.HEALED
    assert STATUS not in formed.fake.objects
    assert "the status could not be written" in agent.log


def test_without_a_lease_there_is_no_healing(formed: Scene) -> None:
    del formed.fake.objects[LEASE]
    with pytest.raises(ApiNotFound):
        turn(formed, formed.agent())


def test_a_declaration_that_is_not_understood_is_not_acted_on(formed: Scene) -> None:
    formed.fake.put(DECLARED, {"data": {"declared.json": "{}"}})
    formed.fleet.ask(REPLICA, "CLUSTER", "RESET", "SOFT")
    agent = formed.agent()
    agent.start()
    eventually(lambda: "sessions-declared is not understood" in agent.log)
    assert not ready(formed)


# --- what it asks for -----------------------------------------------------------------------------------------------


def test_it_asks_for_no_more_than_it_has_a_right_to(formed: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valkeyctl.agent.role_label.CALM_S", 0.1)
    names = {"config_map": "sessions-config", "secret": "sessions-auth"}
    granted = rules("sessions", shards=3, replicas=1, **names)
    verbs = {"GET": "get", "PUT": "update", "PATCH": "patch", "POST": "create", "DELETE": "delete"}

    def allowed(method: str, path: str) -> bool:
        _, _, rest = path.partition("/namespaces/valkey/")
        resource, _, name = rest.partition("?")[0].partition("/")
        fitting = [rule for rule in granted if resource in rule["resources"] and verbs[method] in rule["verbs"]]
        return any(name in rule.get("resourceNames", [name]) for rule in fitting)

    refused = list[tuple[str, str]]()

    def fault(method: str, path: str) -> int | None:
        if allowed(method, path):
            return None
        refused.append((method, path))
        return 403

    formed.fleet.stop(Member(2, 1))
    formed.publish()
    agent = formed.agent()
    agent.peers.missing = frozenset({Member(2, 1)})
    formed.fake.fault = fault
    formed.fleet.ask(REPLICA, "CLUSTER", "RESET", "SOFT")
    agent.start()
    eventually(lambda: "s1-1: replicate" in agent.log)
    formed.fake.fault = lambda _method, _path: None
    formed.fleet.start(Member(2, 1))
    formed.publish()
    formed.fake.fault = fault
    eventually(lambda: ready(formed), 30)
    eventually(lambda: "labelled primary" in agent.log)
    # Why a StatefulSet can't create a Pod stands in its events only, which an agent may not list.
    assert {path.partition("?")[0] for _, path in refused} <= {"/api/v1/namespaces/valkey/events"}
    assert {method for method, _ in refused} <= {"GET"}
    assert any("replicate" in text for _, _, text in formed.events())


def test_agents_that_do_not_answer_are_looked_for_by_name(formed: Scene) -> None:
    agent = formed.agent()
    formed.fleet.stop(REPLICA)
    agent.peers.missing = frozenset({REPLICA})
    formed.publish()
    formed.fake.put(f"{PODS}/sessions-s1-1", pod(1, 1, podIP="10.9.9.9"))
    agent.start()
    eventually(lambda: agent.peers.known.get(REPLICA) == "10.9.9.9")


def test_errors_of_a_turn_are_ours(formed: Scene) -> None:
    formed.fake.fault = lambda method, _path: 403 if method == "PUT" else None
    with pytest.raises(ApiError):
        turn(formed, formed.agent())


def test_while_an_up_is_at_it_nothing_heavy_is_imported() -> None:
    """Six agents that all see an instance being made must not take its processor time."""
    script = (
        "import sys; import valkeyctl.agent.leader, valkeyctl.agent.turns; "
        "print(sorted({'valkey', 'valkeyctl.dataplane.converge', 'valkeyctl.dataplane.report'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
