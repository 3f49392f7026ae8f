"""`python -m valkeyctl status`: what it finds and shows, on an API server in this process."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS, pod, unschedulable, waiting, workload
from valkeyctl.cli import app, code_of
from valkeyctl.dataplane import Condition, Member, Status
from valkeyctl.kube.access import Api
from valkeyctl.kube.overview import Overview, find_instances, wrong
from valkeyctl.kube.status import Declared, InstanceStatus, write_status

OWNER = "acme/valkey/prod/sessions"


def run(fake: FakeApi, tmp_path: Path, *arguments: str) -> Result:
    path = tmp_path / "kubeconfig"
    path.write_text(fake.kubeconfig)
    return CliRunner().invoke(app, ["status", "--kubeconfig", str(path), *arguments], env={"COLUMNS": "200"})


def known(api: Api, fake: FakeApi) -> None:
    """Two shards that nobody can dial, one Pod of which fits nowhere."""
    status = InstanceStatus(
        "Failed", formed=True, failure="it did not work", failure_of="up of x", declared=Declared(2, 1, 1)
    )
    write_status(api, "valkey", "sessions", OWNER, status)
    for shard in range(2):
        fake.put(f"{SETS}/sessions-s{shard}", workload(shard))
        fake.put(f"{PODS}/sessions-s{shard}-0", pod(shard, podIP="127.0.0.1"))
    fake.put(f"{PODS}/sessions-s0-1", unschedulable(0, 1, "Insufficient cpu"))
    zone = {"metadata": {"labels": {"topology.kubernetes.io/zone": "north"}}}
    fake.put("/api/v1/nodes/node1", zone)


def test_instances_are_found_by_status_and_by_statefulsets(api: Api, fake: FakeApi) -> None:
    known(api, fake)
    other = workload(0)
    other["metadata"] = {"name": "cache-s0", "labels": {**other["metadata"]["labels"]}}
    other["metadata"]["labels"]["app.kubernetes.io/instance"] = "cache"
    fake.put(f"{SETS}/cache-s0", other)
    found = find_instances(api, "valkey", None)
    assert [(one.instance, one.declared.shards, one.declared.replicas) for one in found] == [
        ("cache", 1, 1),
        ("sessions", 2, 1),
    ]
    assert found[0].status is None
    assert [one.instance for one in find_instances(api, "valkey", "cache")] == ["cache"]


def test_it_shows_members_what_is_wrong_and_what_to_do(api: Api, fake: FakeApi, tmp_path: Path) -> None:
    known(api, fake)
    done = run(fake, tmp_path, "-n", "valkey", "--transport", "direct")
    assert done.exit_code == 0, done.output
    assert "valkey/sessions  Unreachable" in done.output
    for text in (
        "sessions-s0-0",
        "north",
        "sessions-s0-1: PodUnschedulable (Insufficient cpu)",
        "absent",
        "the last `up` failed: it did not work",
    ):
        assert text in done.output, done.output


def test_the_failure_is_the_one_whose_it_was(api: Api, fake: FakeApi, tmp_path: Path) -> None:
    for whose, said in (
        ("up of acme/valkey/prod/sessions", "the last `up` failed: no"),
        ("agent sessions-s0-0", "agent sessions-s0-0 could not heal it: no"),
        ("", "the last work on it failed: no"),
    ):
        status = InstanceStatus("Failed", failure="no", failure_of=whose, declared=Declared(1, 0, 1))
        write_status(api, "valkey", "sessions", OWNER, status)
        assert said in run(fake, tmp_path, "-n", "valkey", "--transport", "direct").output


def test_a_bad_image_is_told_once_with_its_remedy(api: Api, fake: FakeApi, tmp_path: Path) -> None:
    text = "failed to resolve reference docker.io/valkey/valkey:9.9.9: not found"
    why = f"Pods can't start. Pods: sessions-s0-0, sessions-s0-1, sessions-s1-0, sessions-s1-1: ErrImagePull ({text})"
    status = InstanceStatus("Failed", failure=f"{why}. Do it.", failure_of="up of x", declared=Declared(2, 1, 1))
    write_status(api, "valkey", "sessions", OWNER, status)
    for shard in range(2):
        fake.put(f"{SETS}/sessions-s{shard}", workload(shard))
        for ordinal in range(2):
            made = pod(shard, ordinal, podIP=None, containerStatuses=waiting("ErrImagePull", text))
            made["spec"]["containers"] = [{"name": "server", "image": "valkey/valkey:9.9.9"}]
            fake.put(f"{PODS}/sessions-s{shard}-{ordinal}", made)
    done = run(fake, tmp_path, "-n", "valkey", "--transport", "direct")
    assert done.output.count(text) == 1, done.output
    assert "sessions-s0-0, sessions-s0-1, sessions-s1-0, sessions-s1-1: ErrImagePull" in done.output
    assert "what to do:" in done.output
    assert "check `image`: valkey/valkey:9.9.9" in done.output
    # Nothing comes of waiting: that is no advice.
    assert "`pulumi up` would:" not in done.output


def test_a_lost_node_is_named(api: Api, fake: FakeApi, tmp_path: Path) -> None:
    known(api, fake)
    condition = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    fake.put("/api/v1/nodes/node2", {"status": {"conditions": [condition]}})
    done = run(fake, tmp_path, "-n", "valkey", "--transport", "direct")
    assert "sessions-s1-0: NodeNotReady (node node2 is NotReady: Kubelet stopped posting node status)" in done.output
    assert "PodsStarted is False (NodeNotReady)" in done.output
    assert "bring node node2 back" in done.output


def test_exit_codes_are_for_scripts(api: Api, fake: FakeApi, tmp_path: Path) -> None:
    where = ("-n", "valkey", "--transport", "direct", "--exit-code")
    assert run(fake, tmp_path, *where).exit_code == 2
    known(api, fake)
    assert run(fake, tmp_path, *where).exit_code == 1
    assert run(fake, tmp_path, *where, "--json").exit_code == 1
    assert run(fake, tmp_path, *where, "--stack", "prdo").exit_code == 2
    assert run(fake, tmp_path, *where, "--instance", "sesions").exit_code == 2
    assert run(fake, tmp_path, *where[2:], "-n", "valkye").exit_code == 2
    assert run(fake, tmp_path, *where, "--context", "nope").exit_code == 2
    ready = Overview("valkey", "sessions", "Ready")
    assert [code_of(seen) for seen in ([], [ready], [ready, replace(ready, phase="Degraded")])] == [2, 0, 1]


def test_a_paused_one_misses_nobody(api: Api, fake: FakeApi, tmp_path: Path) -> None:
    status = InstanceStatus("Paused", formed=True, server_version="9.1.2", declared=Declared(2, 1, 1, paused=True))
    write_status(api, "valkey", "sessions", OWNER, status)
    for shard in range(2):
        fake.put(f"{SETS}/sessions-s{shard}", workload(shard, replicas=0))
    done = run(fake, tmp_path, "-n", "valkey", "--exit-code")
    assert done.exit_code == 0, done.output
    assert "valkey/sessions  Paused  cluster  Valkey 9.1.2" in done.output
    assert "in order: Paused" in done.output
    for word in ("absent", "ScaledDown", "pulumi up", "sessions-s0"):
        assert word not in done.output
    (seen,) = json.loads(run(fake, tmp_path, "-n", "valkey", "--json").output)
    assert (seen["phase"], seen["members"]) == ("Paused", [])
    assert seen["conditions"][0]["message"] == "all Pods are stopped; their volumes stay"


@pytest.mark.parametrize("left", ["a Pod", "a StatefulSet that was scaled up"])
def test_a_pause_that_is_not_whole_is_said(api: Api, fake: FakeApi, tmp_path: Path, left: str) -> None:
    write_status(api, "valkey", "sessions", OWNER, InstanceStatus("Paused", declared=Declared(1, 0, 1, paused=True)))
    fake.put(f"{SETS}/sessions-s0", workload(0, replicas=0 if left == "a Pod" else 1))
    if left == "a Pod":
        fake.put(f"{PODS}/sessions-s0-0", pod(0))
    done = run(fake, tmp_path, "-n", "valkey", "--exit-code")
    assert done.exit_code == 1, done.output
    assert "valkey/sessions  Degraded" in done.output
    assert "Paused is False (PodsRun): declared, but not done: sessions-s0-0" in done.output
    assert "stop 1 Pod, as `paused` declares" in done.output


def test_a_name_that_is_mistyped_is_told_with_those_there_are(api: Api, fake: FakeApi, tmp_path: Path) -> None:
    write_status(api, "valkey", "sessions", OWNER, InstanceStatus("Ready", declared=Declared(1, 0)))
    done = run(fake, tmp_path, "-n", "valkey", "--stack", "prdo")
    assert "No instance of stack prdo in namespace valkey" in done.output
    assert "Instances there are of acme/valkey/prod." in done.output
    assert "There is no such namespace." in run(fake, tmp_path, "-n", "valkye").output


def test_json_is_for_programs(api: Api, fake: FakeApi, tmp_path: Path) -> None:
    known(api, fake)
    done = run(fake, tmp_path, "--json", "-n", "valkey", "--transport", "direct")
    seen = json.loads(done.output)
    assert [(one["namespace"], one["instance"], one["phase"]) for one in seen] == [
        ("valkey", "sessions", "Unreachable")
    ]
    assert [member["pod"] for member in seen[0]["members"]] == [f"sessions-{m}" for m in _members()]
    assert seen[0]["members"][0]["zone"] == "north"
    # The keys are written as those of a stack's outputs.
    assert set(seen[0]) == {
        *("namespace", "instance", "phase", "conditions", "members", "advice", "todo", "failure", "failureOf", "busy"),
        *("problem", "serverVersion", "architecture", "owner"),
    }
    keys = {"pod", "role", "slots", "lag", "keys", "node", "zone", "version", "problem"}
    assert set(seen[0]["members"][0]) == keys
    assert set(seen[0]["conditions"][0]) == {"type", "status", "reason", "message"}


def _members() -> list[Member]:
    return [Member(shard, ordinal) for shard in range(2) for ordinal in range(2)]


def test_a_missing_secret_is_said(api: Api, fake: FakeApi, tmp_path: Path) -> None:
    declared = Declared(1, 0, credentials={"user": None, "secretName": "gone", "key": "password"})
    write_status(api, "valkey", "sessions", OWNER, InstanceStatus("Ready", declared=declared))
    done = run(fake, tmp_path, "-n", "valkey")
    assert done.exit_code == 0
    assert "namespace valkey has no Secret 'gone'" in done.output


def test_nothing_found_is_said(fake: FakeApi, tmp_path: Path) -> None:
    done = run(fake, tmp_path, "-n", "valkey", "--instance", "cache")
    assert done.exit_code == 0
    assert "No instance cache in namespace valkey (context 'fake' of" in done.output


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--context", "nope")])
def test_what_cannot_be_reached_is_an_error_and_no_traceback(
    fake: FakeApi, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    fake.close()
    done = run(fake, tmp_path, *arguments)
    assert done.exit_code == 1
    assert "error: " in done.output
    assert "Traceback" not in done.output
    assert "not-so-secret-token" not in done.output


def test_who_may_not_list_everywhere_sees_the_contexts_namespace(api: Api, fake: FakeApi) -> None:
    fake.put(
        "/api/v1/namespaces/default/configmaps/cache-status",
        {"metadata": {"labels": workload(0)["metadata"]["labels"]}},
    )
    fake.objects["/api/v1/namespaces/default/configmaps/cache-status"]["metadata"]["labels"][
        "app.kubernetes.io/instance"
    ] = "cache"
    fake.fault = lambda _method, path: None if "/namespaces/default/" in path else 403
    assert [(one.namespace, one.instance) for one in find_instances(api, None, None)] == [("default", "cache")]


def test_what_counts_as_wrong() -> None:
    conditions = [
        Condition("SlotsCovered", Status.TRUE, "AllSlots"),
        Condition("ReplicasInSync", Status.FALSE, "LinkDown"),
        Condition("Agreed", Status.UNKNOWN, "NobodyAnswers"),
        Condition("PodsOutdated", Status.FALSE, "AllCurrent"),
        Condition("PodsOutdated", Status.TRUE, "RevisionBehind"),
    ]
    assert [c.reason for c in wrong(conditions)] == ["LinkDown", "NobodyAnswers", "RevisionBehind"]


def test_it_shows_the_architecture_and_what_is_in_order(api: Api, fake: FakeApi, tmp_path: Path) -> None:
    conditions = [
        Condition("QuorumReachable", Status.TRUE, "Majority"),
        Condition("PodsOutdated", Status.FALSE, "AllCurrent"),
        Condition("Ready", Status.FALSE, "NoPrimary"),
    ]
    write_status(api, "valkey", "cache", "acme/valkey/prod/cache", InstanceStatus("Degraded", conditions))
    fake.objects["/api/v1/namespaces/valkey/configmaps/cache-status"]["metadata"]["labels"][
        "app.kubernetes.io/component"
    ] = "failover"
    fake.objects["/api/v1/namespaces/valkey/configmaps/cache-status"]["metadata"]["labels"][
        "app.kubernetes.io/instance"
    ] = "cache"
    done = run(fake, tmp_path, "-n", "valkey", "--transport", "direct")
    assert "valkey/cache  Degraded  failover" in done.output
    assert "in order: QuorumReachable, not PodsOutdated" in done.output
    assert "Ready is False (NoPrimary)" in done.output
    # What it can't ask it doesn't make up.
    assert "can't look at the architecture failover" in done.output
    seen = json.loads(run(fake, tmp_path, "-n", "valkey", "--json").output)
    assert (seen[0]["architecture"], seen[0]["owner"]) == ("failover", "acme/valkey/prod/cache")


@pytest.mark.parametrize(
    ("stack", "shown"),
    [("prod", True), ("valkey/prod", True), ("acme/valkey/prod", True), ("dev", False), ("other/prod", False)],
)
def test_the_instances_of_one_stack(api: Api, fake: FakeApi, tmp_path: Path, stack: str, shown: bool) -> None:  # noqa: FBT001
    write_status(api, "valkey", "sessions", OWNER, InstanceStatus("Ready", declared=Declared(1, 0)))
    done = run(fake, tmp_path, "-n", "valkey", "--stack", stack, "--transport", "direct")
    assert ("valkey/sessions" in done.output) == shown
    assert (f"No instance of stack {stack} in namespace valkey" in done.output) != shown
