"""Which Pods are the instance's, and what Kubernetes says is wrong with them."""

from typing import Any

import pytest

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS, pod, unschedulable, waiting, workload
from valkeyctl.dataplane import Member, Status
from valkeyctl.kube.access import Api
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.errors import ApiBusy
from valkeyctl.kube.pods import PodFacts, facts_of, on_lost_nodes, pod_facts
from valkeyctl.kube.trouble import advice, pod_conditions, trouble

MEMBERS = [Member(shard, ordinal) for shard in range(2) for ordinal in range(2)]


@pytest.fixture
def directory(api: Api) -> Directory:
    return Directory(api, "valkey", "sessions")


def put(fake: FakeApi, *made: dict[str, Any]) -> None:
    for one in made:
        fake.put(f"{PODS}/{one['metadata']['name']}", one)


def test_running_pods_are_found_with_address_and_announced_name(directory: Directory, fake: FakeApi) -> None:
    put(fake, pod(0), pod(1, 1))
    found = directory()
    assert {str(member): endpoint.address for member, endpoint in found.items()} == {
        "s0-0": "10.0.0.1",
        "s1-1": "10.0.1.2",
    }
    first = found[Member(0, 0)]
    assert (first.pod, first.host) == ("sessions-s0-0", "sessions-s0-0.sessions-headless.valkey.svc")
    assert (first.port, first.bus_port) == (6379, 16379)


def test_each_call_asks_again(directory: Directory, fake: FakeApi) -> None:
    put(fake, pod(0))
    assert len(directory()) == 1
    put(fake, pod(0, podIP="10.9.9.9"), pod(0, 1))
    found = directory()
    assert found[Member(0, 0)].address == "10.9.9.9"
    assert len(found) == 2


def _terminating() -> dict[str, Any]:
    made = pod(0)
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def _orphan() -> dict[str, Any]:
    made = pod(0)
    made["metadata"]["ownerReferences"] = []
    return made


def _of_another_set() -> dict[str, Any]:
    made = pod(0)
    made["metadata"]["ownerReferences"][0]["name"] = "other-s0"
    return made


def _another_name() -> dict[str, Any]:
    made = pod(0)
    made["metadata"]["name"] = "sessions-s0-0-debug"
    return made


NOT_THERE: dict[str, dict[str, Any]] = {
    "terminating": _terminating(),
    "without address": pod(0, podIP=None),
    "not started": pod(0, containerStatuses=waiting("ContainerCreating")),
    "sidecar only": pod(0, containerStatuses=[{"name": "exporter", "state": {"running": {}}}]),
    "an orphan with our labels": _orphan(),
    "of another's StatefulSet with our labels": _of_another_set(),
    "of another name": _another_name(),
}


@pytest.mark.parametrize("case", NOT_THERE)
def test_what_is_no_endpoint(directory: Directory, fake: FakeApi, case: str) -> None:
    put(fake, NOT_THERE[case])
    assert directory() == {}


def test_an_api_that_does_not_answer_is_never_an_empty_directory(directory: Directory, fake: FakeApi) -> None:
    put(fake, pod(0))
    fake.fault = lambda _method, _path: 503
    with pytest.raises(ApiBusy):
        directory()


KILLED = {"exitCode": 137, "reason": "OOMKilled"}
FACTS: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    "healthy": (pod(0), "", "", False),
    "unschedulable": (
        unschedulable(0, 0, "0/3 nodes are available: 3 Insufficient cpu."),
        "PodUnschedulable",
        "0/3 nodes are available: 3 Insufficient cpu.",
        False,
    ),
    "image missing": (
        pod(0, containerStatuses=waiting("ImagePullBackOff", "Back-off pulling image\n  x")),
        "ImagePullBackOff",
        "Back-off pulling image x",
        True,
    ),
    "crashing": (
        pod(
            0,
            containerStatuses=waiting(
                "CrashLoopBackOff",
                "back-off 10s",
                lastState={"terminated": {"exitCode": 1, "reason": "Error", "message": "Bad directive"}},
            ),
        ),
        "CrashLoopBackOff",
        "back-off 10s; exited with 1 Error: Bad directive",
        True,
    ),
    "killed for memory": (
        pod(
            0, containerStatuses=[{"name": "server", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]
        ),
        "OOMKilled",
        "exited with 137 OOMKilled",
        False,
    ),
    "being created": (pod(0, containerStatuses=waiting("ContainerCreating")), "", "", False),
    "secret missing": (
        pod(0, containerStatuses=waiting("CreateContainerConfigError", 'secret "x" not found')),
        "CreateContainerConfigError",
        'secret "x" not found',
        True,
    ),
    "evicted": (
        pod(0, phase="Failed", reason="Evicted", message="low on memory", containerStatuses=[]),
        "Evicted",
        "low on memory",
        False,
    ),
    "terminating": (_terminating(), "Terminating", "", False),
}


@pytest.mark.parametrize("case", FACTS)
def test_what_is_wrong_with_a_pod(case: str) -> None:
    made, reason, message, stuck = FACTS[case]
    facts = facts_of(Member(0, 0), made, workload(0))
    assert (facts.reason, facts.message, facts.stuck) == (reason, message, stuck)


def test_an_outdated_pod_is_one_of_another_revision() -> None:
    assert facts_of(Member(0, 0), pod(0, revision="r0"), workload(0, revision="r1")).outdated
    assert not facts_of(Member(0, 0), pod(0, revision="r1"), workload(0, revision="r1")).outdated
    assert not facts_of(Member(0, 0), pod(0, revision="r0"), None).outdated


def test_pods_that_cannot_be_created_tell_why(directory: Directory, fake: FakeApi) -> None:
    fake.put(f"{SETS}/sessions-s0", workload(0))
    put(fake, pod(0))
    fake.put(
        "/api/v1/namespaces/valkey/events/e1",
        {
            "involvedObject": {"kind": "StatefulSet", "name": "sessions-s0"},
            "reason": "FailedCreate",
            "message": "exceeded quota: few",
            "lastTimestamp": "2026-01-01T00:00:00Z",
        },
    )
    facts = {str(fact.member): fact for fact in pod_facts(directory, MEMBERS)}
    assert facts["s0-0"].reason == ""
    assert (facts["s0-1"].reason, facts["s0-1"].message) == ("FailedCreate", "exceeded quota: few")
    assert facts["s0-1"].stuck
    assert facts["s1-0"].reason == "NoStatefulSet"
    assert trouble(list(facts.values())) == [
        "sessions-s0-1: FailedCreate (exceeded quota: few)",
        "sessions-s1-0, sessions-s1-1: NoStatefulSet (StatefulSet sessions-s1 does not exist)",
    ]


def fact(ordinal: int, **kwargs: Any) -> PodFacts:
    return PodFacts(Member(0, ordinal), f"sessions-s0-{ordinal}", "Running", **kwargs)


def test_conditions_of_healthy_pods() -> None:
    conditions = {c.type: c for c in pod_conditions([fact(0, scheduled=True, started=True, ready=True)])}
    assert conditions["PodsScheduled"].status is Status.TRUE
    assert conditions["PodsStarted"].status is Status.TRUE
    assert conditions["PodsOutdated"].status is Status.FALSE


def test_conditions_name_the_pods_and_the_reason() -> None:
    facts = [
        fact(0, reason="PodUnschedulable", message="Insufficient cpu"),
        fact(1, scheduled=True, reason="ImagePullBackOff", message="no such image"),
        fact(2, scheduled=True, started=True, outdated=True),
    ]
    conditions = {c.type: c for c in pod_conditions(facts)}
    scheduled, started, outdated = (conditions[t] for t in ("PodsScheduled", "PodsStarted", "PodsOutdated"))
    assert (scheduled.status, scheduled.reason) == (Status.FALSE, "PodUnschedulable")
    assert scheduled.message == "sessions-s0-0: PodUnschedulable (Insufficient cpu)"
    assert (started.status, started.reason) == (Status.FALSE, "ImagePullBackOff")
    assert "sessions-s0-1" in started.message
    assert (outdated.status, outdated.reason) == (Status.TRUE, "RevisionBehind")
    assert "sessions-s0-2" in outdated.message


# --- equal causes, and what to do about them -------------------------------------------------------------------------

REGISTRY = (
    'rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/valkey/valkey:9.9.9": failed to '
    'resolve reference "docker.io/valkey/valkey:9.9.9": docker.io/valkey/valkey:9.9.9: not found'
)


def bad_image(shard: int, ordinal: int, reason: str, message: str, container: str = "server") -> PodFacts:
    made = pod(shard, ordinal, containerStatuses=[{**waiting(reason, message)[0], "name": container}])
    made["spec"] |= {"containers": [{"name": container, "image": "valkey/valkey:9.9.9"}]}
    return facts_of(Member(shard, ordinal), made, workload(shard))


def test_pods_that_share_a_cause_share_a_line_and_a_remedy() -> None:
    facts = [bad_image(shard, 0, "ErrImagePull", REGISTRY) for shard in range(3)]
    facts += [bad_image(n, 1, "ImagePullBackOff", 'Back-off pulling image "valkey/valkey:9.9.9"') for n in range(6)]
    (line,) = trouble(facts)
    assert line == (
        "sessions-s0-0, sessions-s1-0, sessions-s2-0, sessions-s0-1, sessions-s1-1, sessions-s2-1 and 3 more: "
        f"ErrImagePull ({REGISTRY})"
    )
    (todo,) = advice(facts)
    assert todo.startswith("check `image`: valkey/valkey:9.9.9 ")
    started = {c.type: c for c in pod_conditions(facts)}["PodsStarted"]
    assert (started.reason, started.message) == ("ErrImagePull", line)


def test_the_agents_image_is_another_setting() -> None:
    assert advice([bad_image(0, 0, "ErrImagePull", "x", container="agent")])[0].startswith("check `agent.image`: ")


def test_crashes_are_one_cause_whatever_the_pods_are_called() -> None:
    facts = [
        facts_of(
            Member(shard, 0),
            pod(
                shard,
                containerStatuses=waiting(
                    "CrashLoopBackOff",
                    f"back-off {delay} restarting failed container=server pod=sessions-s{shard}-0_valkey({uid})",
                    lastState={"terminated": {"exitCode": 1, "reason": "Error", "message": "Bad directive"}},
                ),
            ),
            workload(shard),
        )
        for shard, delay, uid in ((0, "10s", "a1"), (1, "1m20s", "b2"))
    ]
    (line,) = trouble(facts)
    assert line.startswith("sessions-s0-0, sessions-s1-0: CrashLoopBackOff (back-off 10s ")
    assert advice(facts) == ["see why: `kubectl logs sessions-s0-0 -c server --previous`"]


def test_different_causes_are_told_apart() -> None:
    facts = [bad_image(0, 0, "ErrImagePull", "x"), bad_image(0, 1, "CreateContainerConfigError", 'no secret "y"')]
    assert len(trouble(facts)) == len(advice(facts)) == 2


def test_a_long_text_ends_with_a_whole_word() -> None:
    (line,) = trouble([bad_image(0, 0, "ErrImagePull", " ".join(["registry"] * 60))])
    assert line.endswith("registry registry …)")
    assert len(line) < 360


def test_a_shard_that_was_scaled_down_by_hand_says_so(directory: Directory, fake: FakeApi) -> None:
    fake.put(f"{SETS}/sessions-s0", workload(0, replicas=1))
    fake.put(f"{SETS}/sessions-s1", workload(1))
    for shard, ordinal in ((0, 0), (1, 0), (1, 1)):
        put(fake, pod(shard, ordinal))
    facts = pod_facts(directory, MEMBERS)
    assert trouble(facts) == ["sessions-s0-1: ScaledDown (StatefulSet sessions-s0 asks for 1 Pod instead of 2)"]
    assert advice(facts) == ["run `pulumi up`: it puts back what is declared"]
    scheduled = {c.type: c for c in pod_conditions(facts)}["PodsScheduled"]
    assert scheduled.reason == "ScaledDown"
    # None of it is anything that waiting, or giving up, would be about.
    assert not any(one.stuck for one in facts)


def test_a_pod_that_is_not_there_was_refused_by_no_scheduler(directory: Directory, fake: FakeApi) -> None:
    fake.put(f"{SETS}/sessions-s0", workload(0))
    put(fake, pod(0))
    scheduled = {c.type: c for c in pod_conditions(pod_facts(directory, MEMBERS[:2]))}["PodsScheduled"]
    assert (scheduled.reason, scheduled.message) == ("PodAbsent", "sessions-s0-1")


def node(name: str, ready: str, message: str = "") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"metadata": {"name": name}, "status": {"conditions": [condition]}}


def test_a_lost_node_is_the_cause_whatever_its_pods_still_say() -> None:
    healthy, gone = pod(0), pod(1)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:05:00Z"
    facts = [facts_of(Member(0, 0), healthy, workload(0)), facts_of(Member(1, 0), gone, workload(1))]
    told = on_lost_nodes(facts, [node("node1", "True"), node("node2", "Unknown", "Kubelet stopped posting status.")])
    why = "node node2 is NotReady since 2026-01-01T00:00:00Z: Kubelet stopped posting status"
    assert trouble(told) == [f"sessions-s1-0: NodeNotReady ({why})"]
    assert "node node2" in advice(told)[0]
    started = {c.type: c for c in pod_conditions(told)}["PodsStarted"]
    assert (started.status, started.reason) == (Status.FALSE, "NodeNotReady")


def test_a_lost_node_shows_in_its_pods_too_for_those_who_may_not_read_nodes() -> None:
    # The kubelet is silent: Kubernetes takes `Ready` from the Pod and leaves all else as it was.
    conditions = [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}]
    made = pod(1, conditions=conditions)
    facts = facts_of(Member(1, 0), made, workload(1))
    assert (facts.reason, facts.message) == ("NodeNotReady", "node node2 doesn't answer")
    made["spec"]["readinessGates"] = [{"conditionType": "a/gate"}]
    assert facts_of(Member(1, 0), made, workload(1)).reason == ""
    loading = [{"type": "ContainersReady", "status": "False"}, {"type": "Ready", "status": "False"}]
    assert facts_of(Member(1, 0), pod(1, conditions=loading), workload(1)).reason == ""
