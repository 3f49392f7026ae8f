"""The Pod template."""

from typing import Any

import pytest

from components import ClusterArgs, Persistence, SecretKey
from components.agent import PodAgent
from components.args import Agent
from components.labels import Identity
from components.names import Names
from components.pod import ServerPod, pod_template
from components.statefulset import statefulset_spec
from tests.unit.components.test_cluster import program


def template(args: ClusterArgs | None = None, shard: int = 0) -> dict[str, Any]:
    return program(args)[f"StatefulSet sessions-s{shard}"].inputs["spec"]["template"]


def server(args: ClusterArgs | None = None) -> dict[str, Any]:
    containers = template(args)["spec"]["containers"]
    assert [container["name"] for container in containers] == ["server"]
    return containers[0]


def test_meets_the_restricted_standard() -> None:
    spec = template()["spec"]
    # https://kubernetes.io/docs/concepts/security/pod-security-standards/: everything that `restricted` asks for.
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert {next(iter(set(volume) - {"name"})) for volume in spec["volumes"]} <= {
        "configMap",
        "emptyDir",
        "projected",
        "secret",
        "persistentVolumeClaim",
    }
    for container in spec["containers"] + spec.get("initContainers", []):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not any("hostPort" in port for port in container["ports"])


def test_runs_as_an_ordinary_user() -> None:
    spec = template()["spec"]
    context = spec["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (999, 999, 999)
    assert spec["enableServiceLinks"] is False


def test_no_password_in_command_or_environment() -> None:
    container = server()
    assert container["command"] == ["sh", "/etc/valkey/start.sh"]
    assert "args" not in container
    assert {entry["name"] for entry in container["env"]} == {"POD_NAME", "POD_NAMESPACE", "POD_IP", "POD_HOST"}
    assert "secretKeyRef" not in str(container)


def test_password_is_mounted_for_group_and_user_alone() -> None:
    volumes = {volume["name"]: volume for volume in template()["spec"]["volumes"]}
    assert volumes["secret"]["secret"] == {
        "secretName": "sessions-auth",
        "items": [{"key": "password", "path": "password"}],
        "defaultMode": 0o440,
    }
    assert volumes["run"]["emptyDir"]["medium"] == "Memory"


def test_server_announces_its_dns_name() -> None:
    environment = {entry["name"]: entry.get("value") for entry in server()["env"]}
    assert environment["POD_HOST"] == "$(POD_NAME).sessions-headless.$(POD_NAMESPACE).svc"


@pytest.mark.parametrize(
    ("args", "data", "grace_s"),
    [
        (ClusterArgs(), {"name": "data", "emptyDir": {}}, 30),
        (ClusterArgs(persistence=Persistence(size="1Gi")), None, 120),
    ],
)
def test_data(args: ClusterArgs, data: dict[str, Any] | None, grace_s: int) -> None:
    spec = template(args)["spec"]
    assert [volume for volume in spec["volumes"] if volume["name"] == "data"] == ([data] if data else [])
    assert {"name": "data", "mountPath": "/data"} in spec["containers"][0]["volumeMounts"]
    assert spec["terminationGracePeriodSeconds"] == grace_s
    templates = program(args)["StatefulSet sessions-s0"].inputs["spec"].get("volumeClaimTemplates", [])
    assert [claim["metadata"]["name"] for claim in templates] == ([] if data else ["data"])


def test_probes() -> None:
    container = server()
    for probe, path in (("startupProbe", "/started"), ("readinessProbe", "/ready")):
        assert container[probe]["httpGet"] == {"path": path, "port": 9379, "scheme": "HTTP"}
    # The server itself: it isn't stopped for a fault of the agent's.
    assert container["livenessProbe"]["exec"]["command"] == ["sh", "/etc/valkey/probe.sh", "live"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert "initialDelaySeconds" not in container[probe]
    assert container["startupProbe"]["periodSeconds"] == 1
    # A large dataset takes its time to load, and a start may be held before.
    assert container["startupProbe"]["failureThreshold"] >= 3600
    assert container["readinessProbe"]["periodSeconds"] == 2
    assert container["livenessProbe"]["failureThreshold"] * container["livenessProbe"]["periodSeconds"] >= 60


@pytest.mark.parametrize(
    ("image", "asked"),
    [
        ("valkey/valkey:8.1.8", True),
        ("valkey/valkey:9.0.0", False),
        ("valkey/valkey:9.1.2", False),
        (f"valkey/valkey@sha256:{'0' * 64}", True),
    ],
)
def test_before_9_0_the_agent_is_asked_to_hand_over(image: str, asked: bool) -> None:  # noqa: FBT001
    lifecycle = server(ClusterArgs(image=image)).get("lifecycle")
    expected = {"preStop": {"exec": {"command": ["sh", "/etc/valkey/handover.sh"]}}}
    assert lifecycle == (expected if asked else None)


def test_copies_of_a_shard_keep_apart() -> None:
    affinity = template(shard=1)["spec"]["affinity"]["podAntiAffinity"]
    assert set(affinity) == {"preferredDuringSchedulingIgnoredDuringExecution"}
    terms = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    by_key = {term["podAffinityTerm"]["topologyKey"]: term for term in terms}
    assert set(by_key) == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert by_key["kubernetes.io/hostname"]["weight"] > by_key["topology.kubernetes.io/zone"]["weight"]
    for term in terms:
        assert term["podAffinityTerm"]["labelSelector"]["matchLabels"]["valkeyctl/shard"] == "1"


def test_instance_spreads_over_nodes_and_zones() -> None:
    spread = template()["spec"]["topologySpreadConstraints"]
    assert {constraint["topologyKey"] for constraint in spread} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    for constraint in spread:
        # Never a reason not to run at all.
        assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
        assert "valkeyctl/shard" not in constraint["labelSelector"]["matchLabels"]


def test_selectors_find_the_pods_and_hold_for_good() -> None:
    seen = program(ClusterArgs(image="valkey/valkey:9.1.1"))
    for shard in range(3):
        spec = seen[f"StatefulSet sessions-s{shard}"].inputs["spec"]
        selector = spec["selector"]["matchLabels"]
        assert selector == {
            "app.kubernetes.io/name": "valkey",
            "app.kubernetes.io/instance": "sessions",
            "valkeyctl/shard": str(shard),
        }
        assert selector.items() <= spec["template"]["metadata"]["labels"].items()
        for label in ("Service sessions", "Service sessions-headless"):
            assert seen[label].inputs["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()


def test_statefulset() -> None:
    inputs = program(ClusterArgs(replicas=2))["StatefulSet sessions-s0"].inputs
    spec = inputs["spec"]
    assert spec["replicas"] == 3
    assert spec["serviceName"] == "sessions-headless"
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"


def test_owner_is_not_in_the_template() -> None:
    # A stack that is renamed would else replace all Pods.
    assert "valkeyctl/owner" not in str(template())
    assert "acme/valkey/dev" not in str(template())


@pytest.mark.parametrize(
    ("change", "outdated"),
    [
        ({"config": {"tcp-backlog": "100"}}, True),
        ({"config": {"hz": "20"}}, False),
        ({"image": "valkey/valkey:9.1.1"}, True),
        ({"resources": {}}, True),
        ({"auth": {"passwordSecret": {"name": "mine"}}}, True),
        ({"agent": {"image": "python:3.12"}}, True),
        ({"timeoutSeconds": 60}, False),
        ({"shards": 4}, False),
        ({"replicas": 2}, False),
        ({"restart": "now"}, True),
        ({"rollout": {"maxParallelShards": 2}}, False),
        ({"primaries": {"0": 1}}, False),
        ({"spreadPrimaries": True}, False),
        ({"slots": {"0": "0", "1": "1", "2": "2-16383"}}, False),
    ],
)
def test_what_marks_pods_outdated(change: dict[str, Any], outdated: bool) -> None:  # noqa: FBT001
    assert (template() != template(ClusterArgs.model_validate(change))) == outdated


def test_version_label_is_the_images() -> None:
    label = "app.kubernetes.io/version"
    assert template()["metadata"]["labels"][label] == "9.1.2"
    assert label not in template(ClusterArgs(image="valkey/valkey:unstable"))["metadata"]["labels"]


def test_room_for_what_comes_beside_the_server() -> None:
    pod = ServerPod(
        names=Names("sessions"),
        identity=Identity("sessions", "valkey", "a/b/c/sessions", None),
        shard=0,
        image="valkey/valkey:9.1.2",
        resources=ClusterArgs().resources,
        password=SecretKey(name="mine"),
        agent=PodAgent(Names("sessions"), Agent(), SecretKey(name="mine"), "1"),
        config_hash="0",
        persistent=False,
        sidecars=[{"name": "exporter", "image": "exporter:1"}],
        volumes=[{"name": "certificates", "secret": {"secret_name": "tls"}}],
        mounts=[{"name": "certificates", "mount_path": "/etc/valkey-tls"}],
    )
    spec: Any = pod_template(pod)["spec"]
    assert [container["name"] for container in spec["init_containers"]] == ["agent"]
    assert [container["name"] for container in spec["containers"]] == ["server", "exporter"]
    assert "certificates" in {volume["name"] for volume in spec["volumes"]}
    assert "certificates" in {mount["name"] for mount in spec["containers"][0]["volume_mounts"]}
    whole: Any = statefulset_spec(pod, replicas=1, persistence=None)
    assert whole["template"]["spec"] == spec
