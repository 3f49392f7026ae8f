"""What a ValkeyReplica and a ValkeyFailover register, and how their Sentinels come with them or are shared."""

import re
from typing import Any

import pulumi
import pytest

from components import (
    AutomaticFailover,
    FailoverArgs,
    Handover,
    Persistence,
    ReplicaArgs,
    Sentinel,
    SentinelArgs,
    SentinelReference,
    ValkeyFailover,
    ValkeyReplica,
    ValkeySentinel,
)
from components.config_files import start_hash
from tests.unit.components.recording import Program, record

OBJECTS = {
    "ConfigMap sessions-config",
    "Service sessions",
    "Service sessions-headless",
    "Service sessions-rw",
    "Service sessions-ro",
    "PodDisruptionBudget sessions",
    "NetworkPolicy sessions",
    "ServiceAccount sessions-agent",
    "Role sessions-agent",
    "RoleBinding sessions-agent",
    "StatefulSet sessions-s0",
}
OURS = {"Prepare sessions", "Password sessions-auth", "AgentCode sessions-agent", "Dataset sessions"}
SENTINELS = {
    f"{kind} sessions-sentinel"
    for kind in ("ConfigMap", "Service", "PodDisruptionBudget", "NetworkPolicy", "StatefulSet")
}
OURS_OF_SENTINELS = {
    "Password sessions-sentinel",
    "Password sessions-sentinel-operator",
    "Sentinels sessions-sentinel",
}


def replica(**args: Any) -> Program:
    return record(lambda: dict(ValkeyReplica("sessions", ReplicaArgs(**args)).summary))


def failover(**args: Any) -> Program:
    return record(lambda: dict(ValkeyFailover("sessions", FailoverArgs(**args)).summary))


def environment(seen: Program, container: str, kind: str = "initContainers") -> dict[str, str]:
    pod = seen["StatefulSet sessions-s0"].inputs["spec"]["template"]["spec"]
    found = next(one for one in pod[kind] if one["name"] == container)
    return {one["name"]: one.get("value", "") for one in found["env"]}


def test_what_a_replica_is_made_of() -> None:
    seen = replica()
    assert {one.label for one in seen} == OBJECTS | OURS | {"Replica sessions", "Provider sessions-kubernetes"}
    assert {one.parent for one in seen if one.label != "Replica sessions"} == {"Replica sessions"}


def test_what_a_failover_is_made_of() -> None:
    seen = failover()
    own = {"Failover sessions", "Sentinel sessions", "Provider sessions-kubernetes"}
    assert {one.label for one in seen} == OBJECTS | OURS | SENTINELS | OURS_OF_SENTINELS | own
    below = {one.label for one in seen if one.parent == "Sentinel sessions"}
    assert below == SENTINELS | OURS_OF_SENTINELS
    assert seen["Sentinel sessions"].parent == "Failover sessions"


@pytest.mark.parametrize("program", [replica, failover])
def test_prepare_looks_at_everything_that_is_written(program: Any) -> None:
    seen = program(persistence=Persistence(size="1Gi"))
    told = {f"{entry['kind']} {entry['name']}" for entry in seen["Prepare sessions"].inputs["objects"]}
    written = {one.label for one in seen if one.type.startswith("kubernetes:")}
    secrets = {"Secret sessions-auth"} | ({"Secret sessions-sentinel"} if program is failover else set())
    assert told == written | secrets | {"ConfigMap sessions-agent"}
    for one in seen:
        if one.type.startswith("kubernetes:"):
            assert "Prepare sessions" in seen.below(one.label), one.label
            assert one.inputs["metadata"]["annotations"]["valkeyctl/owner"] == "acme/valkey/dev/sessions"
            assert one.inputs["metadata"]["annotations"]["pulumi.com/patchForce"] == "true"


@pytest.mark.parametrize("role", ["rw", "ro"])
def test_services_of_roles_select_nobody(role: str) -> None:
    spec = replica()[f"Service sessions-{role}"].inputs["spec"]
    assert "selector" not in spec
    assert spec["ports"] == [{"name": "valkey", "port": 6379, "targetPort": 6379, "protocol": "TCP"}]


@pytest.mark.parametrize("made", [ValkeyReplica, ValkeyFailover])
def test_what_a_stack_exports(made: Any) -> None:
    told = record(lambda: dict(made("sessions").summary)).outputs
    known = {"namespace": "valkey", "phase": "Ready", "secretName": "sessions-auth", "secretKey": "password"}
    assert told.items() >= {**known, "primary": "sessions-s0-0", "serverVersion": "9.1.2"}.items()
    assert ("sentinelSecretName" in told) == (made is ValkeyFailover)


@pytest.mark.parametrize("made", [ValkeyReplica, ValkeyFailover])
def test_a_preview_knows_all_that_is_declared(made: Any) -> None:
    seen, real = (record(lambda: dict(made("sessions").summary), preview=way) for way in (True, False))
    for one in real:
        assert seen[one.label].inputs == one.inputs


def test_no_cluster_bus_anywhere() -> None:
    seen = failover()
    assert "16379" not in str([one.inputs for one in seen])
    files = seen["ConfigMap sessions-config"].inputs["data"]
    assert 'cluster-enabled "no"\n' in files["valkey.conf"]
    assert re.findall(r"^cluster-\S+", files["valkey.conf"] + files["live.conf"], re.MULTILINE) == ["cluster-enabled"]
    assert "cluster-" not in files["defaults.json"]


def test_the_order() -> None:
    seen = failover(persistence=Persistence(size="1Gi"))
    workload, dataset = seen["StatefulSet sessions-s0"], seen["Dataset sessions"]
    claims = {f"PersistentVolumeClaim data-sessions-s0-{ordinal}" for ordinal in range(3)}
    assert workload.depends_on >= (OBJECTS - {"StatefulSet sessions-s0"}) | claims | {"AgentCode sessions-agent"}
    # Servers and Sentinels start at the same time; what makes them one waits for both.
    assert "StatefulSet sessions-sentinel" in workload.depends_on
    assert "Sentinels sessions-sentinel" not in seen.below("StatefulSet sessions-s0")
    assert dataset.depends_on >= {"StatefulSet sessions-s0", "Sentinels sessions-sentinel"}
    before = SENTINELS - {"StatefulSet sessions-sentinel"} | {"Password sessions-sentinel-operator"}
    assert seen["StatefulSet sessions-sentinel"].depends_on >= before
    assert "Password sessions-sentinel" in seen.below("Password sessions-sentinel-operator")


def test_what_the_dataset_is_told() -> None:
    told = failover(
        replicas=1,
        primary=1,
        sentinel=Sentinel(replicas=5, quorum=4, down_after_ms=2000, failover_timeout_ms=9000, parallel_syncs=2),
        namespace="data",
    )["Dataset sessions"].inputs
    assert (told["architecture"], told["replicas"], told["primary_ordinal"]) == ("failover", 1, 1)
    assert "automatic_failover_s" not in told
    sentinel = told["sentinel"]
    assert sentinel["name"] == "data.sessions"
    assert sentinel["set"] == "sessions-sentinel"
    assert sentinel["hosts"] == [f"sessions-sentinel-{n}.sessions-sentinel.data.svc:26379" for n in range(5)]
    assert (sentinel["replicas"], sentinel["quorum"], sentinel["down_after_ms"]) == (5, 4, 2000)
    assert (sentinel["failover_timeout_ms"], sentinel["parallel_syncs"]) == (9000, 2)
    assert sentinel["credentials"] == {"user": "_operator", "secretName": "sessions-sentinel", "key": "operator"}
    assert sentinel["monitor_as"] == {"user": "_sentinel", "secretName": "sessions-sentinel", "key": "operator"}
    assert sentinel["own"] is True
    assert len(set(sentinel["ids"].values())) == 5
    assert all(re.fullmatch("[0-9a-f]{40}", one) for one in sentinel["ids"].values())


def test_a_namespace_that_is_known_later() -> None:
    def run() -> dict[str, pulumi.Output[Any]]:
        return dict(ValkeyFailover("sessions", FailoverArgs(namespace=pulumi.Output.from_input("later"))).summary)

    sentinel = record(run)["Dataset sessions"].inputs["sentinel"]
    assert sentinel["name"] == "later.sessions"
    assert sentinel["hosts"][0] == "sessions-sentinel-0.sessions-sentinel.later.svc:26379"


@pytest.mark.parametrize(("handover", "to"), [({"to": 1, "token": "today"}, "1"), ({"token": "today"}, "any")])
def test_handover_is_told_as_text(handover: dict[str, Any], to: str) -> None:
    told = replica(handover=Handover(**handover))["Dataset sessions"].inputs
    assert told["handover"] == {"to": to, "token": "today"}


@pytest.mark.parametrize(
    ("args", "lease_s", "told"),
    [
        ({}, "10", 10),
        ({"automatic_failover": AutomaticFailover(lease_duration_s=20)}, "20", 20),
        ({"automatic_failover": False}, None, None),
        # A single member too: the first replica must not replace the one Pod that has the data.
        ({"replicas": 0}, "10", 10),
    ],
)
def test_automatic_failover(args: dict[str, Any], lease_s: str | None, told: int | None) -> None:
    seen = replica(**args)
    for container, kind in (("agent", "initContainers"), ("server", "containers")):
        assert environment(seen, container, kind)["VALKEY_ARCHITECTURE"] == "replica"
        assert environment(seen, container, kind).get("VALKEY_AUTOMATIC_FAILOVER") == lease_s
    assert seen["Dataset sessions"].inputs.get("automatic_failover_s") == told


@pytest.mark.parametrize(
    ("args", "least", "lag_s"),
    [
        ({}, 0, 5),
        ({"replicas": 2}, 1, 5),
        ({"replicas": 2, "automatic_failover": AutomaticFailover(lease_duration_s=60)}, 1, 10),
        ({"replicas": 2, "automatic_failover": AutomaticFailover(lease_duration_s=5)}, 1, 2),
        ({"replicas": 2, "automatic_failover": False}, 0, 10),
        ({"replicas": 2, "min_replicas_to_write": 0, "min_replicas_max_lag_s": 3}, 0, 3),
        ({"replicas": 1, "min_replicas_to_write": 1}, 1, 5),
    ],
)
def test_a_primary_that_is_cut_off_refuses_writes_where_one_replica_can_be_missed(
    args: dict[str, Any], least: int, lag_s: int
) -> None:
    live = replica(**args)["ConfigMap sessions-config"].inputs["data"]["live.conf"]
    assert f'min-replicas-to-write "{least}"\n' in live
    assert f'min-replicas-max-lag "{lag_s}"\n' in live


def test_agents_are_told_of_the_sentinels_that_are_always_there() -> None:
    three, five = failover(), failover(sentinel=Sentinel(replicas=5))
    told = environment(three, "agent")
    assert told == environment(five, "agent")
    assert told["VALKEY_SENTINELS"].split(",") == [
        f"sessions-sentinel-{n}.sessions-sentinel.$(POD_NAMESPACE).svc:26379" for n in range(3)
    ]
    assert told["VALKEY_SENTINEL_NAME"] == "$(POD_NAMESPACE).sessions"
    pod = three["StatefulSet sessions-s0"].inputs["spec"]["template"]["spec"]
    secret = next(volume["secret"] for volume in pod["volumes"] if volume["name"] == "sentinel")
    assert (secret["secretName"], secret["items"]) == ("sessions-sentinel", [{"key": "operator", "path": "password"}])
    (agent,) = pod["initContainers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in agent["volumeMounts"]}
    assert mounts["sentinel"] == "/etc/valkey-sentinel", "where the agent looks for it"
    assert "sentinel" not in [mount["name"] for mount in pod["containers"][0]["volumeMounts"]]


def test_where_agents_fail_over_a_watchdog_starts_the_server_and_may_end_it() -> None:
    for program, script in ((replica, "watchdog.sh"), (failover, "start.sh")):
        seen = program()
        pod = seen["StatefulSet sessions-s0"].inputs["spec"]["template"]
        assert pod["spec"]["containers"][0]["command"] == ["sh", f"/etc/valkey/{script}"]
        assert script in seen["ConfigMap sessions-config"].inputs["data"]
        assert ("watchdog.sh" in seen["ConfigMap sessions-config"].inputs["data"]) == (program is replica)
    files = replica()["ConfigMap sessions-config"].inputs["data"]
    assert start_hash(files) != start_hash({**files, "watchdog.sh": "another"}), "a new one takes a start"


@pytest.mark.parametrize("version", ["9.1", "8.1"])
def test_every_server_hands_over_before_it_stops(version: str) -> None:
    server = replica(version=version)["StatefulSet sessions-s0"].inputs["spec"]["template"]["spec"]["containers"][0]
    assert server["lifecycle"]["preStop"]["exec"]["command"] == ["sh", "/etc/valkey/handover.sh"]


@pytest.mark.parametrize(
    ("config", "how"), [({}, "default"), ({"appendonly": False}, "save"), ({"appendonly": True}, "default")]
)
def test_how_a_server_stops_that_is_to_rest(config: dict[str, Any], how: str) -> None:
    seen = replica(paused=True, persistence=Persistence(size="1Gi"), config=config)
    assert seen["Prepare sessions"].inputs["settings"]["shutdown-on-sigterm"] == how
    assert seen["StatefulSet sessions-s0"].inputs["spec"]["replicas"] == 0


def test_sentinels_rest_with_their_instance() -> None:
    seen = failover(paused=True, persistence=Persistence(size="1Gi"))
    assert seen["StatefulSet sessions-sentinel"].inputs["spec"]["replicas"] == 0
    assert seen["Sentinels sessions-sentinel"].inputs["paused"] is True


def test_sentinels_have_small_volumes_where_servers_have_volumes() -> None:
    claims = {one.name: one for one in failover(persistence=Persistence(size="9Gi")).of("PersistentVolumeClaim")}
    own = {name: one for name, one in claims.items() if "sentinel" in name}
    assert set(own) == {f"data-sessions-sentinel-{n}" for n in range(3)}
    assert {one.inputs["spec"]["resources"]["requests"]["storage"] for one in own.values()} == {"64Mi"}
    without = failover(persistence=Persistence(size="9Gi"), sentinel=Sentinel(persistence=None))
    assert not [one for one in without.of("PersistentVolumeClaim") if "sentinel" in one.name]


def test_sentinels_that_are_there_are_referred_to_and_not_made() -> None:
    seen = failover(sentinel=Sentinel(reference=SentinelReference(name="shared", replicas=5), quorum=3))
    assert {one.label for one in seen} == OBJECTS | OURS | {"Failover sessions", "Provider sessions-kubernetes"}
    sentinel = seen["Dataset sessions"].inputs["sentinel"]
    assert (sentinel["set"], sentinel["replicas"], sentinel["own"]) == ("shared-sentinel", 5, False)
    assert sentinel["credentials"]["secretName"] == "shared-sentinel"
    assert sentinel["name"] == "valkey.sessions"
    assert "shared-sentinel-2.shared-sentinel." in environment(seen, "agent")["VALKEY_SENTINELS"]


def test_a_set_of_sentinels_by_itself() -> None:
    def run() -> dict[str, pulumi.Output[Any]]:
        return dict(ValkeySentinel("shared", SentinelArgs(replicas=5, version="8.1", namespace="data")).summary)

    seen = record(run)
    assert seen.outputs == {
        "namespace": "data",
        "service": "shared-sentinel",
        "port": 26379,
        "secretName": "shared-sentinel",
        "secretKey": "password",
    }
    workload = seen["StatefulSet shared-sentinel"].inputs["spec"]
    assert workload["replicas"] == 5
    assert workload["template"]["spec"]["containers"][0]["image"] == "valkey/valkey:8.1.8"
    told = {f"{entry['kind']} {entry['name']}" for entry in seen["Prepare shared-sentinel"].inputs["objects"]}
    written = {one.label for one in seen if one.type.startswith("kubernetes:")}
    assert told == written | {"Secret shared-sentinel"}
    assert all("Prepare shared-sentinel" in seen.below(label) for label in written)


def test_sentinel_pods_are_nobodys_servers() -> None:
    seen = failover()
    spec = seen["StatefulSet sessions-sentinel"].inputs["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert labels.items() >= spec["selector"]["matchLabels"].items()
    for label in ("Service sessions", "Service sessions-headless", "PodDisruptionBudget sessions"):
        selector = seen[label].inputs["spec"]["selector"]
        assert not labels.items() >= selector.get("matchLabels", selector).items()
    for label in SENTINELS - {"ConfigMap sessions-sentinel", "StatefulSet sessions-sentinel"}:
        told = seen[label].inputs["spec"]
        selector = told.get("selector") or told["podSelector"]
        assert selector.get("matchLabels", selector) == spec["selector"]["matchLabels"]


def test_sentinel_pods_meet_the_restricted_standard_and_keep_apart() -> None:
    pod = failover()["StatefulSet sessions-sentinel"].inputs["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
    spread = {one["topologyKey"] for one in pod["topologySpreadConstraints"]}
    assert spread == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    budget = failover()["PodDisruptionBudget sessions-sentinel"].inputs["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


@pytest.mark.parametrize("name", ["a" * 44, "Sessions"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(pulumi.RunError, match="name"):
        record(lambda: dict(ValkeyFailover(name).summary))


def test_a_long_name_with_sentinels_of_others() -> None:
    settings = Sentinel(reference=SentinelReference(name="shared"))
    seen = record(lambda: dict(ValkeyFailover("a" * 47, FailoverArgs(sentinel=settings)).summary))
    assert seen.of("Dataset")[0].name == "a" * 47
