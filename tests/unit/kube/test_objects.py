"""What is written to Kubernetes: status, Events, Secrets, namespaces; and whose objects are whose."""

import base64
import json
from typing import Any

import pytest

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import workload
from valkeyctl.dataplane import Condition, Credentials, Status
from valkeyctl.kube import events
from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import ApiConflict, ApiError, OwnedByOthers, SecretMissing
from valkeyctl.kube.events import Recorder, record
from valkeyctl.kube.namespaces import contents, delete_namespace, ensure_namespace, is_ours
from valkeyctl.kube.ownership import Foreign, Wanted, foreign, plural_of, refuse_foreign, remove_owned
from valkeyctl.kube.secrets import ALPHABET, ensure_password, generate, read_credentials
from valkeyctl.kube.status import (
    Declared,
    InstanceStatus,
    mark_destroying,
    parse_status,
    read_status,
    remove_traces,
    write_status,
)

OWNER = "acme/valkey/prod/sessions"
OTHER = "acme/valkey/dev/sessions"
NAMESPACE = "/api/v1/namespaces/valkey"
STATUS = f"{NAMESPACE}/configmaps/sessions-status"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/valkey/leases/sessions"
SECRET = f"{NAMESPACE}/secrets/sessions-auth"


def owned(owner: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {"valkeyctl/owner": owner}}, **more}


# --- status ----------------------------------------------------------------------------------------------------------

FULL = InstanceStatus(
    phase="Degraded",
    conditions=(Condition("SlotsCovered", Status.FALSE, "Uncovered", "no shard has 0-99"),),
    layout={"s0": "100-16383"},
    primaries={"s0": "sessions-s0-1"},
    server_version="9.1.2",
    done=("s0-0: meet s0-1",),
    failure="it did not work",
    formed=True,
    declared=Declared(1, 1, 6379, {"s0": "0-16383"}, {"user": None, "secretName": "a", "key": "b"}, tls=False),
    observed_at="2026-01-01T00:00:00Z",
    owner=OWNER,
)


def test_a_status_is_read_as_it_was_written(api: Api) -> None:
    assert read_status(api, "valkey", "sessions") is None
    write_status(api, "valkey", "sessions", OWNER, FULL)
    assert read_status(api, "valkey", "sessions") == FULL


def test_a_later_status_takes_away_what_no_longer_holds(api: Api, fake: FakeApi) -> None:
    write_status(api, "valkey", "sessions", OWNER, FULL)
    mark_destroying(api, "valkey", "sessions", OWNER)
    known = read_status(api, "valkey", "sessions")
    assert known is not None
    assert known.destroying
    assert known.phase == "Degraded"
    write_status(api, "valkey", "sessions", OWNER, InstanceStatus("Ready", formed=True))
    data = fake.objects[STATUS]["data"]
    assert "failure" not in data
    assert "destroying" not in data


def test_destroying_is_said_even_where_there_was_no_status(api: Api, fake: FakeApi) -> None:
    mark_destroying(api, "valkey", "sessions", OWNER)
    assert fake.objects[STATUS]["data"]["destroying"] == "true"


def test_destroying_ends_where_the_namespace_is_gone(api: Api, fake: FakeApi) -> None:
    fake.put("/api/v1/namespaces/other", {})
    mark_destroying(api, "valkey", "sessions", OWNER)
    assert STATUS not in fake.objects


def test_the_status_of_another_owner_is_left_alone(api: Api, fake: FakeApi) -> None:
    fake.put(STATUS, owned(OTHER, data={"phase": "Ready"}))
    mark_destroying(api, "valkey", "sessions", OWNER)
    remove_traces(api, "valkey", "sessions", [OWNER])
    assert fake.objects[STATUS]["data"] == {"phase": "Ready"}


def test_traces_go_with_the_instance_and_again(api: Api, fake: FakeApi) -> None:
    fake.put(STATUS, owned(OWNER))
    fake.put(LEASE, owned(OTHER))
    for _ in range(2):
        remove_traces(api, "valkey", "sessions", [OWNER, OTHER])
        assert fake.objects == {}


@pytest.mark.parametrize("data", [None, {}, {"conditions": "{", "done": "[", "layout": "no"}])
def test_a_garbled_status_reads_as_empty(data: dict[str, str] | None) -> None:
    known = parse_status({"metadata": {"name": "x"}, "data": data})
    assert (known.conditions, known.layout, known.done, known.formed) == ((), {}, (), False)


# --- events ----------------------------------------------------------------------------------------------------------


def _events(fake: FakeApi) -> list[dict[str, Any]]:
    return [o for path, o in fake.objects.items() if "/events/" in path]


def made(shard: int) -> dict[str, Any]:
    one = workload(shard)
    one["metadata"] |= {"uid": f"uid-{shard}", "namespace": "valkey"}
    return one


def test_saying_the_same_again_raises_a_count(api: Api, fake: FakeApi) -> None:
    for _ in range(3):
        record(api, made(0), kind="Warning", reason="Failed", message="it broke")
    record(api, made(0), kind="Warning", reason="Failed", message="it broke otherwise")
    assert sorted((e["message"], e["count"]) for e in _events(fake)) == [("it broke", 3), ("it broke otherwise", 1)]
    first = _events(fake)[0]
    assert first["involvedObject"]["uid"] == "uid-0"
    assert first["source"] == {"component": "valkeyctl"}


def test_a_step_is_told_on_the_shards_that_it_names(api: Api, fake: FakeApi) -> None:
    recorder = Recorder(api, "valkey", "sessions", [made(0), made(1), made(2)])
    recorder.step("s1-1: replicate s1-0")
    recorder.step("s0-0: meet s2-1")
    recorder.step("something about everything")
    told = sorted((e["involvedObject"]["name"], e["message"]) for e in _events(fake))
    assert told == [
        ("sessions-s0", "s0-0: meet s2-1"),
        ("sessions-s0", "something about everything"),
        ("sessions-s1", "s1-1: replicate s1-0"),
        ("sessions-s2", "s0-0: meet s2-1"),
    ]


def test_events_are_bounded_and_never_stop_the_work(api: Api, fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_EVENTS", 3)
    recorder = Recorder(api, "valkey", "sessions", [made(0)])
    for number in range(10):
        recorder.step(f"s0-0: step {number}")
    assert len(_events(fake)) == 3
    fake.fault = lambda _method, _path: 403
    other = Recorder(api, "valkey", "sessions", [made(0)])
    other.phase("Failed", "no", bad=True)
    assert "403" not in other.failed
    assert other.failed


# --- secrets ---------------------------------------------------------------------------------------------------------


def put_secret(fake: FakeApi, owner: str | None, **data: bytes) -> None:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    fake.put(SECRET, {**(owned(owner) if owner else {}), "data": encoded})


def ensured(api: Api, *owners: str) -> None:
    ensure_password(api, "valkey", "sessions-auth", key="password", owners=owners or (OWNER,), labels={"a": "b"})


def read(api: Api, **reference: Any) -> Credentials:
    return read_credentials(api, "valkey", {"secretName": "sessions-auth", "key": "password", **reference})


def test_a_password_is_generated_once_and_kept(api: Api) -> None:
    ensured(api)
    first = read(api)
    ensured(api)
    assert read(api) == first
    assert first.password is not None
    assert len(first.password) == 32
    assert set(first.password) <= set(ALPHABET)


def test_no_new_password_is_made_while_servers_run_with_the_lost_one(api: Api, fake: FakeApi) -> None:
    labels = {"app.kubernetes.io/name": "valkey", "app.kubernetes.io/instance": "sessions", "valkeyctl/shard": "0"}
    pod = "/api/v1/namespaces/valkey/pods/sessions-s0-0"
    fake.put(pod, {"metadata": {"name": "sessions-s0-0", "labels": labels}, "status": {"phase": "Running"}})

    def ensure() -> None:
        ensure_password(
            api, "valkey", "sessions-auth", key="password", owners=(OWNER,), labels={"a": "b"}, instance="sessions"
        )

    with pytest.raises(SecretMissing, match="a new one would lock everybody out") as refused:
        ensure()
    assert "exec sessions-s0-0 -c server -- cat /run/valkey/password" in str(refused.value)
    assert SECRET not in fake.objects
    put_secret(fake, OWNER)
    with pytest.raises(SecretMissing, match="a new one would lock everybody out"):
        ensure()
    fake.put(pod, {"metadata": {"name": "sessions-s0-0", "labels": labels}, "status": {"phase": "Pending"}})
    ensure()
    assert read(api).password


def test_servers_that_are_going_away_keep_nobody_from_a_new_password(api: Api, fake: FakeApi) -> None:
    # An `up` right after a `destroy`: the Pods of before take their time to stop, and nobody is to speak to them.
    labels = {"app.kubernetes.io/name": "valkey", "app.kubernetes.io/instance": "sessions", "valkeyctl/shard": "0"}
    metadata = {"name": "sessions-s0-0", "labels": labels, "deletionTimestamp": "2026-12-01T12:33:39Z"}
    pod = {"metadata": metadata, "status": {"phase": "Running"}}
    fake.put("/api/v1/namespaces/valkey/pods/sessions-s0-0", pod)
    ensure_password(
        api, "valkey", "sessions-auth", key="password", owners=(OWNER,), labels={"a": "b"}, instance="sessions"
    )
    assert read(api).password


def test_passwords_differ() -> None:
    assert len({generate() for _ in range(100)}) == 100


def test_a_missing_key_is_filled_and_other_keys_stay(api: Api, fake: FakeApi) -> None:
    put_secret(fake, OWNER, other=b"mine")
    ensured(api)
    assert base64.b64decode(fake.objects[SECRET]["data"]["other"]) == b"mine"
    assert read(api).password


def test_two_that_fill_a_key_at_once_end_with_one_password(api: Api, fake: FakeApi) -> None:
    put_secret(fake, OWNER)
    raced = False

    def race(method: str, _path: str) -> None:
        nonlocal raced
        if method == "PATCH" and not raced:
            raced = True
            put_secret(fake, OWNER, password=b"theirs")

    fake.fault = race
    ensured(api)
    assert raced
    assert read(api).password == "theirs"  # noqa: S105 - made up


def test_a_secret_that_is_always_written_in_between_ends_in_an_error(api: Api, fake: FakeApi) -> None:
    put_secret(fake, OWNER)

    def race(method: str, _path: str) -> None:
        if method == "PATCH":
            put_secret(fake, OWNER)

    fake.fault = race
    with pytest.raises(ApiConflict):
        ensured(api)


@pytest.mark.parametrize("owner", [None, OTHER])
def test_a_secret_of_others_is_refused_and_not_touched(api: Api, fake: FakeApi, owner: str | None) -> None:
    put_secret(fake, owner, password=b"theirs")
    before = json.dumps(fake.objects[SECRET])
    with pytest.raises(OwnedByOthers) as raised:
        ensured(api)
    assert json.dumps(fake.objects[SECRET]) == before
    assert (owner or "has no owner") in str(raised.value)


def test_a_renamed_stack_takes_its_secret_along(api: Api, fake: FakeApi) -> None:
    put_secret(fake, OTHER, password=b"kept")
    ensured(api, OWNER, OTHER)
    assert fake.objects[SECRET]["metadata"]["annotations"]["valkeyctl/owner"] == OWNER
    assert read(api).password == "kept"  # noqa: S105 - made up


MISSING: dict[str, tuple[dict[str, bytes] | None, str]] = {
    "no Secret": (None, "namespace valkey has no Secret 'sessions-auth'"),
    "no key": ({"other": b"x"}, "has no key 'password'; its keys: other"),
    "empty": ({"password": b""}, "is empty"),
    "no text": ({"password": b"\xff\xfe"}, "is not UTF-8 text"),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_missing_password_says_which_setting_names_it(api: Api, fake: FakeApi, case: str) -> None:
    data, told = MISSING[case]
    if data is not None:
        put_secret(fake, OWNER, **data)
    with pytest.raises(SecretMissing) as raised:
        read(api)
    assert told in str(raised.value)
    assert "auth.passwordSecret" in str(raised.value)


def test_no_password_is_ever_shown(api: Api, fake: FakeApi) -> None:
    put_secret(fake, OWNER, password=b"very-secret")
    credentials = read(api, user="app")
    assert credentials.user == "app"
    assert "very-secret" not in f"{credentials}{credentials!r}{[credentials]}"
    assert read_credentials(api, "valkey", None) == Credentials()


def test_of_a_generated_password_nobody_is_told_to_make_it(api: Api, fake: FakeApi) -> None:
    reference = {"secretName": "sessions-auth", "key": "password"}
    path = "/api/v1/namespaces/valkey/secrets/sessions-auth"
    for present in (False, True):
        if present:
            fake.put(path, {"data": {}})
        with pytest.raises(SecretMissing) as raised:
            read_credentials(api, "valkey", reference, instance="sessions")
        told = str(raised.value)
        assert "auth.passwordSecret" not in told
        assert "the generated password" in told
        assert "sessions-auth" in told
        assert "`pulumi up` makes it anew" in told
    # One of the user's own is the user's to make.
    with pytest.raises(SecretMissing, match=r"auth\.passwordSecret.*Create it first"):
        read_credentials(api, "valkey", {**reference, "secretName": "cache-auth"}, instance="sessions")


# --- ownership -------------------------------------------------------------------------------------------------------

CONFIG = Wanted("v1", "ConfigMap", "sessions-config")


def test_what_is_absent_or_ours_is_no_objection() -> None:
    assert foreign([CONFIG], {}, [OWNER]) == []
    assert foreign([CONFIG], {CONFIG: owned(OWNER)}, [OWNER]) == []
    assert foreign([CONFIG], {CONFIG: owned(OTHER)}, [OWNER, OTHER]) == []


def test_what_has_no_owner_or_another_is_foreign() -> None:
    assert foreign([CONFIG], {CONFIG: {"metadata": {}}}, [OWNER]) == [Foreign(CONFIG, "")]
    assert foreign([CONFIG], {CONFIG: owned(OTHER)}, [OWNER]) == [Foreign(CONFIG, OTHER)]
    # An object without owner is nobody's, also where no owner is declared.
    assert foreign([CONFIG], {CONFIG: {"metadata": {}}}, [OWNER, ""][:1]) == [Foreign(CONFIG, "")]


def test_a_claim_that_the_controller_made_for_a_statefulset_of_ours_is_ours() -> None:
    # Whoever deletes a claim by hand gets a new one with the next Pod, from the controller and without owner.
    claim, bare = Wanted("v1", "PersistentVolumeClaim", "data-sessions-s0-1"), {"metadata": {}}
    ours, theirs = (Wanted("apps/v1", "StatefulSet", name) for name in ("sessions-s0", "sessions-s0-1"))
    assert foreign([claim, ours], {claim: bare, ours: owned(OWNER)}, [OWNER]) == []
    assert foreign([claim, ours], {claim: owned(OTHER), ours: owned(OWNER)}, [OWNER]) == [Foreign(claim, OTHER)]
    assert foreign([claim, ours], {claim: bare, ours: owned(OTHER)}, [OWNER, OTHER][:1])[:1] == [Foreign(claim, "")]
    assert foreign([claim], {claim: bare}, [OWNER]) == [Foreign(claim, "")]
    assert foreign([claim, theirs], {claim: bare, theirs: owned(OWNER)}, [OWNER]) == [Foreign(claim, "")]
    config = Wanted("v1", "ConfigMap", "data-sessions-s0-1")
    assert foreign([config, ours], {config: bare, ours: owned(OWNER)}, [OWNER]) == [Foreign(config, "")]


def test_foreign_objects_are_named_with_what_to_do_and_nothing_is_written(api: Api, fake: FakeApi) -> None:
    fake.put(f"{NAMESPACE}/configmaps/sessions-config", {})
    fake.put("/apis/apps/v1/namespaces/valkey/statefulsets/sessions-s1", owned(OTHER))
    fake.put(f"{NAMESPACE}/configmaps/unrelated", {})
    wanted = [CONFIG, Wanted("apps/v1", "StatefulSet", "sessions-s0"), Wanted("apps/v1", "StatefulSet", "sessions-s1")]
    with pytest.raises(OwnedByOthers) as raised:
        refuse_foreign(api, "valkey", wanted, [OWNER])
    told = str(raised.value)
    assert "ConfigMap sessions-config (without owner)" in told
    assert f"StatefulSet sessions-s1 of {OTHER}" in told
    assert "unrelated" not in told
    assert f"kubectl -n valkey annotate statefulset sessions-s1 --overwrite valkeyctl/owner={OWNER}" in told
    assert {method for method, _ in fake.seen} == {"GET"}


def test_of_what_an_interrupted_run_left_only_ours_is_removed(api: Api, fake: FakeApi) -> None:
    ours, others = (f"/apis/apps/v1/namespaces/valkey/statefulsets/sessions-s{shard}" for shard in (0, 1))
    going = "/apis/apps/v1/namespaces/valkey/statefulsets/sessions-s2"
    fake.put(ours, owned(OWNER))
    fake.put(others, owned(OTHER))
    # Deleted a moment ago: nothing has left it, and its Pods still stop.
    fake.put(going, {"metadata": {**owned(OWNER)["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    wanted = [CONFIG, *(Wanted("apps/v1", "StatefulSet", f"sessions-s{shard}") for shard in (0, 1, 2))]
    assert remove_owned(api, "valkey", wanted, [OWNER]) == [wanted[1]]
    assert ours not in fake.objects
    assert others in fake.objects
    assert going in fake.objects
    assert remove_owned(api, "valkey", wanted, [OWNER]) == []


def test_an_unusual_kind_is_looked_up(api: Api) -> None:
    assert plural_of(api, "v1", "Event") == "events"
    with pytest.raises(ApiError, match="knows no Gadget in v1"):
        plural_of(api, "v1", "Gadget")


# --- namespaces ------------------------------------------------------------------------------------------------------


def ignore_nothing(_kind: str, _item: dict[str, Any]) -> bool:
    return False


def test_an_absent_namespace_is_created_ours_and_restricted(api: Api, fake: FakeApi) -> None:
    assert ensure_namespace(api, "valkey", "acme/valkey/prod", print)
    metadata = fake.objects[NAMESPACE]["metadata"]
    assert metadata["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert metadata["annotations"]["valkeyctl/owner"] == "acme/valkey/prod"
    assert ensure_namespace(api, "valkey", OWNER, print)


def test_a_namespace_that_is_there_is_used_as_it_is(api: Api, fake: FakeApi) -> None:
    fake.put(NAMESPACE, {"metadata": {"labels": {"theirs": "yes"}}})
    assert not ensure_namespace(api, "valkey", OWNER, print)
    assert fake.objects[NAMESPACE]["metadata"]["labels"] == {"theirs": "yes"}
    assert "was not created by this stack" in delete_namespace(api, "valkey", OWNER, print)
    assert NAMESPACE in fake.objects


def test_a_namespace_of_the_stacks_former_name_is_taken_along(api: Api, fake: FakeApi) -> None:
    fake.put(NAMESPACE, owned("acme/valkey/dev"))
    assert ensure_namespace(api, "valkey", "acme/valkey/prod", print, former=["acme/valkey/dev"])
    assert is_ours(fake.objects[NAMESPACE], OWNER)


def test_one_that_is_being_deleted_is_waited_for_and_said(api: Api, fake: FakeApi) -> None:
    fake.put(NAMESPACE, owned(OWNER, status={"conditions": [{"status": "True", "message": "Some content remains"}]}))
    fake.objects[NAMESPACE]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    told: list[str] = []
    with pytest.raises(ApiError, match="still being deleted after 0 s: Some content remains"):
        ensure_namespace(api, "valkey", OWNER, told.append, wait_s=0)
    assert told == ["waiting for namespace valkey, which is still being deleted"]


def test_contents_are_what_no_controller_and_no_namespace_brings(api: Api, fake: FakeApi) -> None:
    controlled = {"metadata": {"ownerReferences": [{"kind": "StatefulSet", "name": "s", "controller": True}]}}
    going = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    for path, body in {
        "configmaps/kube-root-ca.crt": {},
        "configmaps/mine": {},
        "serviceaccounts/default": {},
        "serviceaccounts/app": {},
        "pods/p": controlled,
        "pods/q": going,
        "events/e": {},
        "persistentvolumeclaims/kept": {},
        "persistentvolumeclaims/going": controlled,
    }.items():
        fake.put(f"{NAMESPACE}/{path}", json.loads(json.dumps(body)))
    assert contents(api, "valkey", ignore_nothing) == [
        "ConfigMap mine",
        "PersistentVolumeClaim kept",
        "ServiceAccount app",
    ]


def test_ours_goes_when_only_our_traces_are_in_it(api: Api, fake: FakeApi) -> None:
    fake.put(NAMESPACE, owned("acme/valkey/prod"))
    fake.put(STATUS, owned(OWNER))
    fake.put(LEASE, owned(OWNER))
    assert delete_namespace(api, "valkey", "acme/valkey/prod", print) == ""
    assert NAMESPACE not in fake.objects
    assert delete_namespace(api, "valkey", "acme/valkey/prod", print) == ""


@pytest.mark.parametrize("path", ["persistentvolumeclaims/data-sessions-s0-0", "configmaps/theirs", "secrets/x"])
def test_ours_stays_for_what_is_in_it(api: Api, fake: FakeApi, path: str) -> None:
    fake.put(NAMESPACE, owned(OWNER))
    fake.put(f"{NAMESPACE}/{path}", {})
    assert path.partition("/")[2] in delete_namespace(api, "valkey", OWNER, print)
    assert NAMESPACE in fake.objects


def test_ours_stays_where_its_contents_cannot_be_seen(api: Api, fake: FakeApi) -> None:
    fake.put(NAMESPACE, owned(OWNER))
    fake.fault = lambda _method, path: 403 if "/secrets" in path else None
    assert "cannot be seen" in delete_namespace(api, "valkey", OWNER, print)
    assert NAMESPACE in fake.objects


def test_one_that_does_not_go_is_told(api: Api, fake: FakeApi) -> None:
    fake.put(NAMESPACE, owned(OWNER))
    fake.finalizers.add(NAMESPACE)
    told = delete_namespace(api, "valkey", OWNER, print, wait_s=0)
    assert told == "namespace valkey is not gone after 0 s: its contents are still being deleted"
