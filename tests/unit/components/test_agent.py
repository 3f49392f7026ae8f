"""The agent's container, its credentials and its rights."""

from typing import Any

import pytest

from components import Agent, AgentResources, Amounts, Auth, ClusterArgs, SecretKey
from tests.unit.components.test_cluster import program
from tests.unit.components.test_pod import server, template
from valkeyctl.agent.environment import read_environment
from valkeyctl.agent.rights import rules
from valkeyctl.lifecycle.bundle import Bundle, agent_bundle

CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount"


def agent(args: ClusterArgs | None = None) -> dict[str, Any]:
    containers = template(args)["spec"]["initContainers"]
    assert [container["name"] for container in containers] == ["agent"]
    return containers[0]


def mounts(container: dict[str, Any]) -> dict[str, bool]:
    """Where volumes are mounted, and whether they can be written to there."""
    return {mount["mountPath"]: not mount.get("readOnly", False) for mount in container["volumeMounts"]}


def test_is_a_native_sidecar_that_lets_the_server_start_at_once() -> None:
    container = agent()
    assert container["restartPolicy"] == "Always"
    # The kubelet starts the server's container only after a sidecar's startup probe.
    assert "startupProbe" not in container
    assert container["livenessProbe"]["httpGet"] == {"path": "/alive", "port": 9379, "scheme": "HTTP"}
    assert (container["livenessProbe"]["periodSeconds"], container["livenessProbe"]["failureThreshold"]) == (10, 6)
    assert container["ports"] == [{"name": "agent", "containerPort": 9379, "protocol": "TCP"}]


def test_runs_the_bundle_on_a_stock_image() -> None:
    container = agent()
    assert container["image"] == "python:3.13-slim"
    assert container["command"] == ["python", "-u", "-I", "-S", "/opt/agent/agent.pyz"]
    volumes = {volume["name"]: volume for volume in template()["spec"]["volumes"]}
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert volumes[mounted["/opt/agent"]]["configMap"] == {"name": "sessions-agent"}
    code = program()["AgentCode sessions-agent"].inputs
    assert (code["config_map"], code["digest"]) == ("sessions-agent", agent_bundle().digest)
    # The state of the stack holds no code.
    assert len(str(code)) < 2000


def test_another_bundle_makes_pods_outdated(monkeypatch: pytest.MonkeyPatch) -> None:
    before = template()
    assert before["metadata"]["annotations"]["valkeyctl/agent"] == agent_bundle().digest
    monkeypatch.setattr("components.cluster.agent_bundle", lambda: Bundle(b"another", {}))
    assert template() != before


def test_understands_the_environment_that_it_is_given() -> None:
    given = {entry["name"]: entry for entry in agent(ClusterArgs(agent=Agent(log="json")))["env"]}
    fields = {"metadata.name": "sessions-s1-0", "metadata.namespace": "data", "status.podIP": "10.1.2.3"}
    variables: dict[str, str] = {}
    for name, entry in given.items():
        if "value" in entry:
            variables[name] = entry["value"].replace("$(POD_NAME)", "sessions-s1-0").replace("$(POD_NAMESPACE)", "data")
        elif "fieldRef" in entry["valueFrom"]:
            variables[name] = fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
    environment = read_environment(variables)
    assert (environment.pod, environment.namespace, environment.instance) == ("sessions-s1-0", "data", "sessions")
    assert environment.host == "sessions-s1-0.sessions-headless.data.svc"
    assert environment.address == "10.1.2.3"
    assert environment.json_log
    # Variables are expanded only from those before them.
    names = list(given)
    assert names.index("POD_HOST") > max(names.index("POD_NAME"), names.index("POD_NAMESPACE"))


def test_knows_where_the_password_is_and_how_much_memory_its_server_has() -> None:
    own = ClusterArgs(auth=Auth(password_secret=SecretKey(name="mine", key="word")))
    given = {entry["name"]: entry for entry in agent(own)["env"]}
    assert (given["PASSWORD_SECRET"]["value"], given["PASSWORD_KEY"]["value"]) == ("mine", "word")
    assert "secretKeyRef" not in str(given)
    limit = given["SERVER_MEMORY_LIMIT"]["valueFrom"]["resourceFieldRef"]
    assert limit == {"containerName": "server", "resource": "limits.memory", "divisor": "1"}


def test_may_write_to_one_volume_alone() -> None:
    assert mounts(agent()) == {
        "/etc/valkey": False,
        "/etc/valkey-secret": False,
        "/run/valkey": True,
        "/data": False,
        "/opt/agent": False,
        "/etc/valkey-declared": False,
        CREDENTIALS: False,
    }
    shared = {mount["mountPath"]: mount["name"] for mount in server()["volumeMounts"]}
    own = {mount["mountPath"]: mount["name"] for mount in agent()["volumeMounts"]}
    assert shared.items() <= own.items()


def test_credentials_are_in_its_container_alone() -> None:
    spec = template()["spec"]
    assert spec["serviceAccountName"] == "sessions-agent"
    assert spec["automountServiceAccountToken"] is False
    assert program()["ServiceAccount sessions-agent"].inputs["automountServiceAccountToken"] is False
    tokens = [volume["name"] for volume in spec["volumes"] if "serviceAccountToken" in str(volume)]
    assert len(tokens) == 1
    having = [
        (container["name"], mount["mountPath"])
        for container in spec["initContainers"] + spec["containers"]
        for mount in container["volumeMounts"]
        if mount["name"] in tokens
    ]
    assert having == [("agent", CREDENTIALS)]


def test_credentials_are_all_that_a_client_of_the_api_server_looks_for() -> None:
    (volume,) = [volume for volume in template()["spec"]["volumes"] if "projected" in volume]
    files = set()
    for source in volume["projected"]["sources"]:
        ((kind, what),) = source.items()
        files |= {what["path"]} if kind == "serviceAccountToken" else {item["path"] for item in what["items"]}
    assert files == {"token", "ca.crt", "namespace"}


@pytest.mark.parametrize(("shards", "replicas"), [(3, 0), (3, 1), (5, 2)])
def test_rights_are_those_that_the_agent_lists(shards: int, replicas: int) -> None:
    seen = program(ClusterArgs(shards=shards, replicas=replicas))
    objects = {"config_map": "sessions-config", "secret": "sessions-auth"}
    told = rules("sessions", shards=shards, replicas=replicas, **objects)
    assert seen["Role sessions-agent"].inputs["rules"] == [
        {key: list(values) for key, values in rule.items()} for rule in told
    ]
    pods = {f"sessions-s{shard}-{ordinal}" for shard in range(shards) for ordinal in range(replicas + 1)}
    (named,) = [rule for rule in seen["Role sessions-agent"].inputs["rules"] if rule["resources"] == ["pods"]]
    assert set(named["resourceNames"]) == pods


def test_rights_name_the_objects_and_no_others() -> None:
    rights = program(ClusterArgs(auth=Auth(password_secret=SecretKey(name="mine"))))["Role sessions-agent"].inputs
    for rule in rights["rules"]:
        assert not {"*", "list", "delete", "deletecollection"} & {*rule["verbs"], *rule["resources"]}
        if rule["resources"] == ["events"]:
            # Creating can't be granted by name.
            assert rule["verbs"] == ["create"]
        else:
            assert rule["resourceNames"]
            assert "create" not in rule["verbs"]
    (secrets,) = [rule for rule in rights["rules"] if rule["resources"] == ["secrets"]]
    assert secrets["resourceNames"] == ["mine"]


def test_rights_are_the_accounts() -> None:
    binding = program(ClusterArgs(namespace="data"))["RoleBinding sessions-agent"].inputs
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sessions-agent"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "sessions-agent", "namespace": "data"}]


def test_resources() -> None:
    assert agent()["resources"] == {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "96Mi"}}
    mine = Agent(image="mirror.example/python:3.12", resources=AgentResources(limits=Amounts(memory="128Mi")))
    container = agent(ClusterArgs(agent=mine))
    assert container["resources"] == {"requests": {}, "limits": {"memory": "128Mi"}}
    assert container["image"] == "mirror.example/python:3.12"
