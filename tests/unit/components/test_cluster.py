"""What a ValkeyCluster registers: which objects, with which names, in which order, through which provider."""

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components import Auth, ClusterArgs, Connection, ManagedProvider, Namespace, Persistence, SecretKey, ValkeyCluster
from tests.unit.components.recording import Program, record

OBJECTS = {
    "ConfigMap sessions-config",
    "Service sessions",
    "Service sessions-headless",
    "PodDisruptionBudget sessions",
    "NetworkPolicy sessions",
    "ServiceAccount sessions-agent",
    "Role sessions-agent",
    "RoleBinding sessions-agent",
    "StatefulSet sessions-s0",
    "StatefulSet sessions-s1",
    "StatefulSet sessions-s2",
}
OURS = {
    "Prepare sessions",
    "Password sessions-auth",
    "AgentCode sessions-agent",
    "ShardGuard sessions-s0",
    "ShardGuard sessions-s1",
    "ShardGuard sessions-s2",
    "Topology sessions",
}
CLAIMS = {f"PersistentVolumeClaim data-sessions-s{shard}-{ordinal}" for shard in range(3) for ordinal in range(2)}


def program(args: ClusterArgs | None = None, opts: Any = None, *, preview: bool = False) -> Program:
    def run() -> dict[str, pulumi.Output[Any]]:
        options = opts() if callable(opts) else opts
        return dict(ValkeyCluster("sessions", args, options).summary)

    return record(run, preview=preview)


def test_what_a_cluster_is_made_of() -> None:
    seen = {resource.label for resource in program()}
    assert seen == OBJECTS | OURS | {"Cluster sessions", "Provider sessions-kubernetes"}


def test_with_persistence_each_pod_has_a_claim() -> None:
    seen = program(ClusterArgs(persistence=Persistence(size="1Gi", storage_class_name="fast")))
    assert {resource.label for resource in seen.of("PersistentVolumeClaim")} == CLAIMS
    for claim in seen.of("PersistentVolumeClaim"):
        assert claim.inputs["spec"] == {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
        }
        assert claim.inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"


@pytest.mark.parametrize(("policy", "kept"), [("Retain", True), ("Delete", False)])
def test_reclaim_policy(policy: Any, kept: bool) -> None:  # noqa: FBT001
    seen = program(ClusterArgs(persistence=Persistence(size="1Gi", reclaim_policy=policy)))
    assert {claim.retain_on_delete for claim in seen.of("PersistentVolumeClaim")} == {kept}
    assert not any(resource.retain_on_delete for resource in seen if resource.kind != "PersistentVolumeClaim")


def test_a_paused_one_asks_for_no_pod_and_keeps_everything_else() -> None:
    volumes = Persistence(size="1Gi")
    running, paused = program(ClusterArgs(persistence=volumes)), program(ClusterArgs(persistence=volumes, paused=True))
    assert {resource.label for resource in paused} == {resource.label for resource in running}
    for shard in range(3):
        label = f"StatefulSet sessions-s{shard}"
        before, after = running[label].inputs["spec"], paused[label].inputs["spec"]
        assert (before["replicas"], after["replicas"]) == (2, 0)
        assert {**before, "replicas": 0} == after, "above all, no Pod counts as outdated"
    assert paused["Prepare sessions"].inputs["paused"] is True
    assert paused["Topology sessions"].inputs["paused"] is True
    assert running["Topology sessions"].inputs["paused"] is False
    changed = {one.label for one in paused if one.inputs != running[one.label].inputs}
    assert changed == {
        "ConfigMap sessions-config",
        "Prepare sessions",
        *(f"StatefulSet sessions-s{shard}" for shard in range(3)),
        "Topology sessions",
    }


def test_servers_are_told_to_rest_before_the_statefulsets_are_scaled() -> None:
    seen = program(ClusterArgs(persistence=Persistence(size="1Gi"), paused=True))
    # `Prepare` brings servers to rest, and agents would set back what the file doesn't say too.
    assert {"Prepare sessions", "ConfigMap sessions-config"} <= seen.below("StatefulSet sessions-s0")
    told = seen["Prepare sessions"].inputs["settings"]
    assert (told["cluster-replica-no-failover"], told["shutdown-on-sigterm"]) == ("yes", "default")
    live = seen["ConfigMap sessions-config"].inputs["data"]["live.conf"]
    assert 'cluster-replica-no-failover "yes"\n' in live
    assert 'shutdown-on-sigterm "default"\n' in live


@pytest.mark.parametrize("version", ["9.1", "8.1"])
def test_without_a_log_what_is_in_memory_is_saved_before_a_pause(version: str) -> None:
    args = ClusterArgs(
        version=version, persistence=Persistence(size="1Gi"), config={"appendonly": False, "save": ""}, paused=True
    )
    assert program(args)["Prepare sessions"].inputs["settings"]["shutdown-on-sigterm"] == "save"


@pytest.mark.parametrize("own", [False, True], ids=["our provider", "a provider of the program's own"])
def test_what_others_wrote_into_its_objects_is_put_back(own: bool) -> None:  # noqa: FBT001
    # Without it server-side apply refuses each field that kubectl has written: "field conflict detected".
    def run() -> None:
        opts = pulumi.ResourceOptions(provider=kubernetes.Provider("mine")) if own else None
        ValkeyCluster("sessions", ClusterArgs(persistence=Persistence(size="1Gi")), opts)

    objects = [one for one in record(run) if one.type.startswith("kubernetes:")]
    assert {one.kind for one in objects} >= {"StatefulSet", "PodDisruptionBudget", "ConfigMap", "Role", "Service"}
    for one in objects:
        assert one.inputs["metadata"]["annotations"]["pulumi.com/patchForce"] == "true", one.label
        # Not within: it would replace Pods, and says nothing there.
        assert "patchForce" not in str(one.inputs.get("spec")), one.label


def test_everything_belongs_to_the_component() -> None:
    seen = program()
    assert seen["Cluster sessions"].type == "valkey:index:Cluster"
    below = {resource.label for resource in seen if resource.parent == "Cluster sessions"}
    assert below == OBJECTS | OURS | {"Provider sessions-kubernetes"}


def test_names_are_literal_and_every_object_says_whose_it_is() -> None:
    seen = program(ClusterArgs(persistence=Persistence(size="1Gi"), namespace="data"))
    for label in OBJECTS | CLAIMS:
        metadata = seen[label].inputs["metadata"]
        assert metadata["name"] == label.split(" ")[1]
        assert metadata["namespace"] == "data"
        assert metadata["annotations"]["valkeyctl/owner"] == "acme/valkey/dev/sessions"
        labels = metadata["labels"]
        assert labels["app.kubernetes.io/name"] == "valkey"
        assert labels["app.kubernetes.io/instance"] == "sessions"
        assert labels["app.kubernetes.io/component"] == "cluster"
        assert labels["app.kubernetes.io/part-of"] == "valkey"
        assert labels["app.kubernetes.io/managed-by"] == "pulumi"
        assert ("valkeyctl/shard" in labels) == ("-s" in label.removeprefix("Service sessions"))


def test_prepare_looks_at_everything_that_is_written() -> None:
    seen = program(ClusterArgs(persistence=Persistence(size="1Gi")))
    told = {f"{entry['kind']} {entry['name']}" for entry in seen["Prepare sessions"].inputs["objects"]}
    assert told == OBJECTS | CLAIMS | {"Secret sessions-auth", "ConfigMap sessions-agent"}
    for entry in seen["Prepare sessions"].inputs["objects"]:
        written = [r for r in seen if r.label == f"{entry['kind']} {entry['name']}"]
        assert all(resource.inputs["apiVersion"] == entry["apiVersion"] for resource in written)


def test_a_secret_of_ones_own_is_not_ours_to_write() -> None:
    seen = program(ClusterArgs(auth=Auth(password_secret=SecretKey(name="mine", key="word"))))
    assert seen.of("Password") == []
    assert not [entry for entry in seen["Prepare sessions"].inputs["objects"] if entry["kind"] == "Secret"]
    credentials = {"secretName": "mine", "key": "word"}
    for label in ("Topology sessions", "ShardGuard sessions-s1"):
        found = seen[label].inputs["credentials"]
        assert {key: found[key] for key in credentials} == credentials
    assert seen.outputs["secretName"] == "mine"
    assert seen.outputs["secretKey"] == "word"


def test_nothing_is_written_before_prepare() -> None:
    seen = program(ClusterArgs(persistence=Persistence(size="1Gi")))
    for label in (OBJECTS | CLAIMS | OURS) - {"Prepare sessions"}:
        assert "Prepare sessions" in seen.below(label), label


def test_what_the_program_waits_for_prepare_waits_for() -> None:
    def opts() -> pulumi.ResourceOptions:
        first = Namespace("data", connection=Connection(), namespace="data", owner="acme/valkey/dev")
        return pulumi.ResourceOptions(depends_on=[first])

    assert program(opts=opts)["Prepare sessions"].depends_on == {"Namespace data"}


def test_pods_come_last_but_for_guards_and_topology() -> None:
    seen = program(ClusterArgs(persistence=Persistence(size="1Gi")))
    before = OBJECTS - {f"StatefulSet sessions-s{n}" for n in range(3)}
    before |= {"Password sessions-auth", "AgentCode sessions-agent"}
    for shard in range(3):
        name = f"sessions-s{shard}"
        claims = {f"PersistentVolumeClaim data-{name}-{ordinal}" for ordinal in range(2)}
        assert seen[f"StatefulSet {name}"].depends_on >= before | claims
        assert seen[f"ShardGuard {name}"].depends_on >= {f"StatefulSet {name}"}
        assert seen["Topology sessions"].depends_on >= {f"StatefulSet {name}", f"ShardGuard {name}"}


def test_shards_do_not_wait_for_one_another() -> None:
    seen = program()
    assert not {label for label in seen.below("StatefulSet sessions-s2") if label.startswith("StatefulSet")}


def test_topology_is_told_what_is_declared() -> None:
    slots = {0: "0-99", 1: "100-199", 2: "200-16383"}
    inputs = program(ClusterArgs(replicas=2, slots=slots, timeout_s=77, namespace="data"))["Topology sessions"].inputs
    assert inputs["shards"] == 3
    assert inputs["replicas"] == 2
    assert inputs["slots"] == {"0": "0-99", "1": "100-199", "2": "200-16383"}
    assert inputs["timeout_s"] == 77
    assert inputs["port"] == 6379
    assert inputs["namespace"] == "data"
    assert inputs["owner"] == "acme/valkey/dev/sessions"


@pytest.mark.parametrize(
    ("roles", "ordinals", "spread", "zero"),
    [
        ({}, None, None, None),
        ({"primaries": {"2": 1}, "preferOrdinalZero": True}, {"0": 0, "1": 0, "2": 1}, None, None),
        ({"primaries": {"2": 1}, "spreadPrimaries": True}, {"2": 1}, True, None),
        ({"spreadPrimaries": True, "preferOrdinalZero": True}, None, True, True),
    ],
)
def test_topology_is_told_where_roles_are_to_be(
    roles: dict[str, Any],
    ordinals: dict[str, int] | None,
    spread: bool | None,  # noqa: FBT001
    zero: bool | None,  # noqa: FBT001
) -> None:
    inputs = program(ClusterArgs.model_validate(roles))["Topology sessions"].inputs
    told = [inputs.get(key) for key in ("primary_ordinals", "spread_primaries", "prefer_ordinal_zero")]
    assert told == [ordinals, spread, zero]


@pytest.mark.parametrize(("config", "told"), [({}, 5000), ({"cluster-node-timeout": "9000"}, 9000)])
def test_topology_is_told_the_node_timeout_that_is_in_effect(config: dict[str, Any], told: int) -> None:
    assert program(ClusterArgs(config=config))["Topology sessions"].inputs["node_timeout_ms"] == told


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"config": {"tcp-backlog": "100"}}, True),
        ({"config": {"hz": "20"}}, False),
        ({"image": "valkey/valkey:9.1.1"}, True),
        ({"persistence": {"size": "1Gi"}}, True),
        ({"agent": {"log": "json"}}, True),
        ({"timeoutSeconds": 100}, False),
        ({"replicas": 3}, False),
        ({"shards": 4}, False),
    ],
)
def test_workload_revision_follows_the_pod_templates(change: dict[str, Any], differs: bool) -> None:  # noqa: FBT001
    revisions = [
        program(ClusterArgs.model_validate(args))["Topology sessions"].inputs["workload_revision"]
        for args in ({}, change)
    ]
    assert (revisions[0] != revisions[1]) == differs


def test_outputs() -> None:
    outputs = program().outputs
    assert set(outputs) == {
        "namespace",
        "phase",
        "conditions",
        "endpoints",
        "secretName",
        "secretKey",
        "layout",
        "primaries",
        "serverVersion",
    }
    assert outputs["namespace"] == "valkey"
    assert outputs["phase"] == "Ready"
    assert outputs["layout"] == {"s0": "0-16383"}
    assert outputs["secretName"] == "sessions-auth"
    assert outputs["serverVersion"] == "9.1.2"


@pytest.mark.parametrize("name", ["Sessions", "a" * 48, "x_y"])
def test_a_name_that_can_t_be_one_ends_the_program_with_a_word(name: str) -> None:
    with pytest.raises(pulumi.RunError, match="can't name a Valkey instance: an instance's name"):
        record(lambda: dict(ValkeyCluster(name).summary))


def test_a_secret_with_the_name_of_the_generated_one_is_refused() -> None:
    args = ClusterArgs(auth=Auth(password_secret=SecretKey(name="sessions-auth")))
    with pytest.raises(pulumi.RunError, match="sessions-auth is the name of the Secret that would be generated"):
        program(args)


def test_a_parent_of_the_programs_wins() -> None:
    class Platform(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("acme:index:Platform", "platform")

    seen = program(opts=lambda: pulumi.ResourceOptions(parent=Platform()))
    assert seen["Cluster sessions"].parent == "Platform platform"
    assert {resource.parent for resource in seen if resource.label in OBJECTS | OURS} == {"Cluster sessions"}


def test_our_own_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/somewhere/else")
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    seen = program(ClusterArgs(connection=Connection(context="prod", kubeconfig="apiVersion: v1\n")))
    ours = seen["Provider sessions-kubernetes"]
    assert ours.inputs["context"] == "prod"
    assert ours.inputs["kubeconfig"] == "apiVersion: v1\n"
    assert "kubeconfig" in ours.secret
    assert ours.inputs["enableConfigMapMutable"] == "true"
    assert ours.inputs["enableSecretMutable"] == "true"
    assert ours.inputs["deleteUnreachable"] == "false"
    assert ours.inputs["clusterIdentifier"]
    assert {seen[label].provider for label in OBJECTS} == {ours.label}
    assert {seen[label].inputs["context"] for label in OURS} == {"prod"}
    assert all("kubeconfig" in seen[label].secret for label in OURS)


def test_the_ambient_kubeconfig_leaves_no_trace_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/somewhere/else")
    seen = program()
    assert seen["Provider sessions-kubernetes"].inputs["kubeconfig"] == ""
    assert "/somewhere/else" not in str([resource.inputs for resource in seen])


def test_a_provider_of_ours_is_shared() -> None:
    def opts() -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(providers=[ManagedProvider("shared", Connection(context="prod"))])

    seen = program(ClusterArgs(connection=Connection(context="prod")), opts)
    assert [provider.name for provider in seen.of("Provider")] == ["shared"]
    assert {seen[label].provider for label in OBJECTS} == {"Provider shared"}


@pytest.mark.parametrize("preview", [False, True])
@pytest.mark.parametrize("way", ["provider", "providers", "parent"])
def test_a_provider_of_the_programs_own(way: str, preview: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    monkeypatch.delenv("KUBECONFIG", raising=False)

    class Platform(pulumi.ComponentResource):
        def __init__(self, provider: kubernetes.Provider) -> None:
            super().__init__("acme:index:Platform", "platform", None, pulumi.ResourceOptions(providers=[provider]))

    def opts() -> pulumi.ResourceOptions:
        mine = kubernetes.Provider("mine", context="prod", enable_server_side_apply=True)
        if way == "parent":
            return pulumi.ResourceOptions(parent=Platform(mine))
        return pulumi.ResourceOptions(**{way: mine if way == "provider" else [mine]})

    seen = program(None, opts, preview=preview)
    files = "ConfigMap sessions-config"
    assert {seen[label].provider for label in OBJECTS - {files}} == {"Provider mine"}
    # By default it would replace a ConfigMap whose data changed.
    twin = seen[seen[files].provider]
    assert twin.inputs["enableConfigMapMutable"] == "true"
    assert twin.inputs["enableServerSideApply"] == "true"
    assert twin.inputs["context"] == "prod"
    # What was not given is not known to the program in a preview, and must not make anything unknown.
    for argument in ("cluster", "namespace", "kubeconfig"):
        assert argument not in twin.inputs
    for label in OURS:
        assert seen[label].inputs["context"] == "prod"
        assert seen[label].inputs.get("kubeconfig") is None


def test_a_kubeconfig_that_is_known_only_later_stays_unknown_in_preview() -> None:
    def opts() -> pulumi.ResourceOptions:
        later: pulumi.Output[Any] = pulumi.Output.from_input(pulumi.UNKNOWN)
        return pulumi.ResourceOptions(provider=kubernetes.Provider("mine", kubeconfig=later))

    seen = program(None, opts, preview=True)
    unknown = pulumi.runtime.rpc.UNKNOWN
    assert seen["Provider sessions-kubernetes"].inputs["kubeconfig"] == unknown
    assert seen["Topology sessions"].inputs["kubeconfig"] == unknown


def test_a_connection_says_more_than_the_provider() -> None:
    def opts() -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(provider=kubernetes.Provider("mine", context="outside"))

    seen = program(ClusterArgs(connection=Connection(context="inside", transport="direct")), opts)
    assert {seen[label].inputs["context"] for label in OURS} == {"inside"}
    assert {seen[label].inputs["transport"] for label in OURS} == {"direct"}
    assert seen["Service sessions"].provider == "Provider mine"
