"""The providers as Pulumi calls them, on an API server in this process."""

import base64
from typing import Any

import pytest
from pulumi.dynamic.dynamic import serialize_provider
from pulumi.runtime import rpc

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.test_objects import owned
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.kube.errors import ApiUnreachable, OwnedByOthers
from valkeyctl.lifecycle.agent_code import AgentCodeProvider
from valkeyctl.lifecycle.guard import ShardGuardProvider
from valkeyctl.lifecycle.namespace import NamespaceProvider
from valkeyctl.lifecycle.password import PasswordProvider
from valkeyctl.lifecycle.prepare import PrepareProvider
from valkeyctl.lifecycle.provider import Provider
from valkeyctl.lifecycle.topology import TopologyProvider

OWNER, OTHER = "acme/valkey/prod/sessions", "acme/valkey/dev/sessions"
NAMESPACE = "/api/v1/namespaces/valkey"
SECRET = f"{NAMESPACE}/secrets/sessions-auth"
STATUS = f"{NAMESPACE}/configmaps/sessions-status"
FOR_AGENTS = f"{NAMESPACE}/configmaps/sessions-declared"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/valkey/leases/sessions"
PROVIDERS: list[type[Provider]] = [
    PrepareProvider,
    NamespaceProvider,
    PasswordProvider,
    ShardGuardProvider,
    TopologyProvider,
    AgentCodeProvider,
]


def props(fake: FakeApi, **more: Any) -> dict[str, Any]:
    return {
        "kubeconfig": fake.kubeconfig,
        "transport": "portForward",
        "owner": OWNER,
        "namespace": "valkey",
        "instance": "sessions",
        "__provider": "pickled",
        **more,
    }


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_is_pickled_by_reference_to_a_permanent_path(provider: type[Provider]) -> None:
    pickled = base64.b64decode(serialize_provider(provider()))
    assert provider.__module__.encode() in pickled
    assert provider.__name__.encode() in pickled
    assert len(pickled) < 120
    assert vars(provider()) == {}


def test_the_permanent_paths() -> None:
    assert [f"{p.__module__}.{p.__qualname__}" for p in PROVIDERS] == [
        "valkeyctl.lifecycle.prepare.PrepareProvider",
        "valkeyctl.lifecycle.namespace.NamespaceProvider",
        "valkeyctl.lifecycle.password.PasswordProvider",
        "valkeyctl.lifecycle.guard.ShardGuardProvider",
        "valkeyctl.lifecycle.topology.TopologyProvider",
        "valkeyctl.lifecycle.agent_code.AgentCodeProvider",
    ]


# --- Prepare ---------------------------------------------------------------------------------------------------------

OBJECTS = [
    {"apiVersion": "v1", "kind": "Secret", "name": "sessions-auth"},
    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "sessions-s0"},
]


def test_prepare_refuses_at_preview_and_again_before_the_first_write(fake: FakeApi) -> None:
    news = props(fake, objects=OBJECTS)
    assert PrepareProvider().check({}, news).failures == []
    fake.put(SECRET, owned(OTHER))
    failures = PrepareProvider().check({}, news).failures
    assert len(failures) == 1
    assert f"Secret sessions-auth of {OTHER}" in failures[0].reason
    with pytest.raises(OwnedByOthers):
        PrepareProvider().create(news)
    assert {method for method, _ in fake.seen} == {"GET"}


@pytest.mark.parametrize("path", [STATUS, "/apis/coordination.k8s.io/v1/namespaces/valkey/leases/sessions"])
def test_prepare_refuses_what_the_lifecycle_itself_would_write(fake: FakeApi, path: str) -> None:
    fake.put(path, {})
    assert len(PrepareProvider().check({}, props(fake, objects=[])).failures) == 1


def test_prepare_lets_a_renamed_stack_have_its_own_until_all_is_renamed(fake: FakeApi) -> None:
    fake.put(SECRET, owned(OTHER))
    olds = props(fake, objects=OBJECTS, owner=OTHER)
    renamed = PrepareProvider().check(olds, props(fake, objects=OBJECTS))
    assert renamed.failures == []
    # The `up` failed half way: the next one still knows the former name.
    assert PrepareProvider().check(renamed.inputs, props(fake, objects=OBJECTS)).failures == []
    assert PrepareProvider().create(renamed.inputs).id == "valkey/sessions"


def test_prepare_waits_with_what_is_unknown_at_preview(fake: FakeApi) -> None:
    fake.put(SECRET, {})
    news = props(fake, objects=OBJECTS)
    assert PrepareProvider().check({}, {**news, "kubeconfig": rpc.UNKNOWN}).failures == []
    assert fake.seen == []


def test_prepare_against_an_unreachable_cluster_says_so(fake: FakeApi) -> None:
    news = props(fake, objects=OBJECTS)
    fake.close()
    failures = PrepareProvider().check({}, news).failures
    assert "cannot be reached" in failures[0].reason


def test_prepare_makes_what_agents_write_into_and_may_not_make(fake: FakeApi) -> None:
    news = props(fake, objects=OBJECTS)
    PrepareProvider().create(news)
    assert fake.objects[STATUS].get("data") == {}
    assert fake.objects[FOR_AGENTS].get("data") == {}
    assert not fake.objects[LEASE]["spec"]["holderIdentity"]
    owners = {fake.objects[path]["metadata"]["annotations"]["valkeyctl/owner"] for path in (STATUS, FOR_AGENTS, LEASE)}
    assert owners == {OWNER}
    fake.objects[STATUS]["data"] = {"phase": "Ready"}
    PrepareProvider().update("valkey/sessions", news, news)
    assert fake.objects[STATUS]["data"] == {"phase": "Ready"}, "what is there stays"
    PrepareProvider().delete("valkey/sessions", news)
    assert not {STATUS, FOR_AGENTS, LEASE} & set(fake.objects)


@pytest.mark.parametrize("change", ["create", "update"])
def test_prepare_waits_for_what_is_still_being_deleted(fake: FakeApi, change: str) -> None:
    # As after a scale in, or a `destroy`, a moment ago: what is written over it would go with it.
    going = owned(OWNER)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    fake.put(SECRET, going)
    looks: list[str] = []

    def gone_at_last(_method: str, path: str) -> None:
        looks.extend([path] if "/secrets" in path else [])
        if len(looks) == 5:
            fake.objects.pop(SECRET, None)

    fake.fault = gone_at_last
    news = props(fake, objects=OBJECTS)
    if change == "create":
        PrepareProvider().create(news)
    else:
        PrepareProvider().update("valkey/sessions", news, news)
    assert SECRET not in fake.objects


def test_prepare_goes_last_and_takes_the_traces_along(fake: FakeApi) -> None:
    fake.put(STATUS, owned(OWNER))
    fake.put(SECRET, owned("somebody/else"))
    PrepareProvider().delete("valkey/sessions", props(fake, objects=OBJECTS))
    assert list(fake.objects) == [SECRET]
    # One of ours, which a killed run made without coming to write it down.
    fake.put(SECRET, owned(OWNER))
    PrepareProvider().delete("valkey/sessions", props(fake, objects=OBJECTS))
    assert list(fake.objects) == []


def test_prepare_is_updated_in_place_by_a_new_kubeconfig(fake: FakeApi) -> None:
    olds, news = props(fake, objects=OBJECTS), props(fake, objects=OBJECTS, kubeconfig="other", former_owners=[])
    result = PrepareProvider().diff("id", olds, news)
    assert (result.changes, result.replaces) == (True, [])
    assert PrepareProvider().diff("id", olds, olds).changes is False


# --- Namespace and Password ------------------------------------------------------------------------------------------


def test_namespace_and_password_come_and_go(fake: FakeApi) -> None:
    created = NamespaceProvider().create(props(fake, owner="acme/valkey/prod"))
    assert created.id == "valkey"
    assert NAMESPACE in fake.objects
    secret = props(fake, secret_name="sessions-auth", key="password", labels={"a": "b"})  # noqa: S106 - a name
    made = PasswordProvider().create(secret)
    assert made.outs is not None
    password = base64.b64decode(fake.objects[SECRET]["data"]["password"]).decode()
    assert password not in repr(made.outs)
    assert PasswordProvider().diff("id", made.outs, secret).changes is False
    PasswordProvider().delete("id", made.outs)
    NamespaceProvider().delete("valkey", props(fake, owner="acme/valkey/prod"))
    assert fake.objects == {}


def test_a_password_whose_key_is_gone_is_made_again(fake: FakeApi) -> None:
    secret = props(fake, secret_name="sessions-auth", key="password", labels={})  # noqa: S106 - a name
    fake.put(SECRET, owned(OWNER))
    assert PasswordProvider().diff("id", secret, secret).changes is True
    fake.put(SECRET, {})
    assert "has no owner" in PasswordProvider().check({}, secret).failures[0].reason
    PasswordProvider().delete("id", secret)
    assert SECRET in fake.objects


@pytest.mark.parametrize("provider", [NamespaceProvider, PasswordProvider])
def test_gone_is_only_what_the_api_server_says_is_gone(fake: FakeApi, provider: type[Provider]) -> None:
    known = props(fake, secret_name="sessions-auth", key="password")  # noqa: S106 - a name
    assert provider().read("id", known).id is None
    fake.fault = lambda _method, _path: 503
    kept = provider().read("id", known)
    assert kept.id == "id"
    assert kept.outs is not None
    assert kept.outs["namespace"] == "valkey"


# --- Topology --------------------------------------------------------------------------------------------------------

DECLARED: dict[str, Any] = {"shards": 3.0, "replicas": 1.0, "timeout_s": 5.0, "workload_revision": "a"}


def test_topology_plans_its_layout_in_check(fake: FakeApi) -> None:
    checked = TopologyProvider().check({}, props(fake, **DECLARED))
    assert checked.failures == []
    assert checked.inputs["layout"] == {"s0": "0-5460", "s1": "5461-10921", "s2": "10922-16383"}
    fewer = TopologyProvider().check(checked.inputs, props(fake, **{**DECLARED, "shards": 2.0}))
    assert fewer.failures == []
    layout = fewer.inputs["layout"]
    assert {shard: slots.split(",")[0] for shard, slots in layout.items()} == {"s0": "0-5460", "s1": "5461-10921"}


def test_topology_reads_unreachable_under_the_same_id_and_never_raises(fake: FakeApi) -> None:
    state = TopologyProvider().check({}, props(fake, **DECLARED)).inputs | {"phase": "Ready", "primaries": {"s0": "p"}}
    fake.close()
    seen = TopologyProvider().read("valkey/sessions", state)
    assert seen.id == "valkey/sessions"
    assert seen.outs is not None
    assert seen.outs["phase"] == "Unreachable"
    assert seen.outs["primaries"] == {"s0": "p"}


def test_topology_that_cannot_be_seen_counts_as_changed(fake: FakeApi) -> None:
    state = TopologyProvider().check({}, props(fake, **DECLARED)).inputs
    assert TopologyProvider().diff("id", state, state).changes is True
    fake.close()
    assert TopologyProvider().diff("id", state, state).changes is True


def test_topology_of_another_namespace_is_another_one(fake: FakeApi) -> None:
    state = TopologyProvider().check({}, props(fake, **DECLARED)).inputs
    result = TopologyProvider().diff("id", state, {**state, "namespace": "elsewhere"})
    assert (result.changes, result.replaces) == (True, ["namespace"])
    for change in (
        {"shards": 4.0},
        {"timeout_s": 9.0},
        {"node_timeout_ms": 9000.0},
        {"workload_revision": "b"},
        {"kubeconfig": "k"},
    ):
        result = TopologyProvider().diff("id", state, {**state, **change})
        assert (result.changes, result.replaces) == (True, [])


def test_topology_goes_by_saying_so(fake: FakeApi) -> None:
    TopologyProvider().delete("id", props(fake, **DECLARED))
    assert fake.objects[STATUS]["data"]["destroying"] == "true"
    fake.close()
    with pytest.raises(ApiUnreachable):
        TopologyProvider().delete("id", props(fake, **DECLARED))


def test_the_errors_are_all_meant_for_people(fake: FakeApi) -> None:
    fake.close()
    with pytest.raises(ValkeyctlError) as raised:
        NamespaceProvider().delete("valkey", props(fake))
    assert "\n" not in str(raised.value)
