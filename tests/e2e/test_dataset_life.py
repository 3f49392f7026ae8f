"""What `up` does to a dataset in the course of its life, each under a client that writes: nothing is lost."""

import json
import re
import time
from collections.abc import Iterable, Sequence

import pytest

from tests.e2e.harness import probe
from tests.e2e.harness.client import service
from tests.e2e.harness.dataset import BOTH, FAILOVER, GAP_MS, HEALED_S, REPLICA, RW, Dataset, make, small, watching
from tests.e2e.harness.dataset_probe import Seen
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.sandbox import INSTANCE, Sandbox
from tests.e2e.harness.writer import Record

VOLUMES = {"persistence": {"size": "64Mi", "reclaimPolicy": "Delete"}}
ANOTHER = "another-Pässwört $(id) \\x"

pytestmark = pytest.mark.timeout(900)
both = pytest.mark.parametrize("architecture", BOTH)


def uids(seen: Seen) -> set[str]:
    return {server.uid for server in seen.servers.values()}


def objects(kube: Kube, namespace: str) -> dict[str, str]:
    """The uids of the instance's StatefulSet, claims and Services."""
    kinds = ("statefulsets", "persistentvolumeclaims", "services")
    found = {
        f"{kind}/{item['metadata']['name']}": item["metadata"]["uid"]
        for kind in kinds
        for item in kube.items(kind, namespace, "app.kubernetes.io/managed-by=pulumi")
    }
    return {name: uid for name, uid in found.items() if "-sentinel" not in name}


def nothing_lost(dataset: Dataset, records: Iterable[Record], before: Sequence[int]) -> None:
    records = list(records)
    assert dataset.missing(records) == []
    assert dataset.client.lost(service(RW), before) == []
    assert all(record.gap_ms < GAP_MS for record in records), records


# --- Pods are replaced ----------------------------------------------------------------------------------------------


@both
def test_a_restart_and_an_upgrade_replace_every_pod_and_lose_nothing(
    sandbox: Sandbox, architecture: str, kube: Kube
) -> None:
    dataset = make(sandbox, architecture, version="8.1")
    first = dataset.ready()
    before = dataset.client.write(service(RW), 1000)
    dataset.stack.configure({INSTANCE: small(architecture, version="8.1", restart="now")})
    seen = dataset.stack.run("preview").output
    assert re.search(r"replace Pods: .*, then the role moves from s0-0 to s0-\d, then s0-0", seen), seen
    with dataset.writing() as records:
        done = dataset.stack.up(timeout_s=HEALED_S * 4)
        second = dataset.ready()
    nothing_lost(dataset, records, before)
    assert uids(first).isdisjoint(uids(second))
    order = list(dict.fromkeys(re.findall(r"s0-(\d): replace its Pod", done.output)))
    assert order[-1] == first.primary.pod[-1], "the former primary is the last"

    with dataset.writing(first=2_000_000) as records:
        dataset.configured(version="9.1", restart="now")
        third = dataset.ready()
    nothing_lost(dataset, records, before)
    assert uids(second).isdisjoint(uids(third))
    assert {server.version[:4] for server in third.servers.values()} == {"9.1."}
    dataset.stack.run("preview", "--expect-no-changes")

    dataset.stack.configure({INSTANCE: small(architecture, version="8.1", restart="now")})
    refused = dataset.stack.run("preview", expect=-1)
    assert "a server of an older line can't read the data of a newer one" in refused.output
    assert "Traceback" not in refused.output


# --- more and fewer members, all at once, paused, destroyed ---------------------------------------------------------


@both
def test_members_come_and_go_rest_and_come_back_with_their_volumes(
    sandbox: Sandbox, architecture: str, kube: Kube
) -> None:
    fewest = 1 if architecture == FAILOVER else 0
    dataset = make(sandbox, architecture, replicas=fewest, **VOLUMES)
    first = dataset.ready()
    before = dataset.client.write(service(RW), 1000)
    with dataset.writing() as records:
        dataset.configured(replicas=2, **VOLUMES)
        three = dataset.with_replicas(2).ready()
        assert uids(first) < uids(three), "no Pod is replaced for it"
        # The role is where it has to leave.
        dataset.configured(replicas=2, primary=2, **VOLUMES)
        assert dataset.with_replicas(2).ready().primary.pod == f"{INSTANCE}-s0-2"
        dataset.stack.configure({INSTANCE: small(architecture, replicas=1, **VOLUMES)})
        assert "s0-2" in dataset.stack.run("preview").output
        dataset.stack.up()
    dataset = dataset.with_replicas(1)
    two = dataset.ready()
    nothing_lost(dataset, records, before)
    dataset.stack.run("preview", "--expect-no-changes")

    # All at once: the data is on the volumes.
    before += dataset.client.write(service(RW), 500, first=10_000)
    dataset.delete([*two.servers, *two.sentinels])
    dataset.healed()
    nothing_lost(dataset, records, before)

    kept = objects(kube, dataset.namespace)
    dataset.stack.configure({INSTANCE: small(architecture, replicas=1, paused=True, **VOLUMES)})
    assert "stop all 2 Pods" in dataset.stack.run("preview").output
    dataset.stack.up()
    assert kube.items("pods", dataset.namespace, "app.kubernetes.io/managed-by=pulumi") == []
    assert dataset.stack.outputs()[INSTANCE]["phase"] == "Paused"
    (one,) = json.loads(dataset.stack.valkeyctl("status", "-n", dataset.namespace, "--exit-code", "--json"))
    assert one["phase"] == "Paused"
    dataset.configured(replicas=1, **VOLUMES)
    dataset.ready()
    nothing_lost(dataset, records, before)
    assert objects(kube, dataset.namespace) == kept

    dataset.client.remove()
    dataset.stack.destroy()
    assert dataset.stack.resources() == []
    eventually("the namespace goes", lambda: kube.namespace(dataset.namespace) is None, timeout_s=60)


# --- the role -------------------------------------------------------------------------------------------------------


@both
def test_the_role_is_handed_over_as_declared_and_once_for_each_token(sandbox: Sandbox, architecture: str) -> None:
    dataset = make(sandbox, architecture)
    assert dataset.ready().primary.pod == f"{INSTANCE}-s0-0"
    before = dataset.client.write(service(RW), 500)
    with dataset.writing() as records:
        dataset.stack.configure({INSTANCE: small(architecture, primary=1)})
        assert "s0-1" in dataset.stack.run("preview").output
        done = dataset.stack.up()
        # The provider of dynamic resources is told the stack's config, and so any change of it.
        assert set(done.changes()) - {"pulumi-python default"} == {f"Dataset {INSTANCE}"}
        assert dataset.ready().primary.pod == f"{INSTANCE}-s0-1"

        dataset.configured(handover={"to": 2, "token": "one"})
        assert dataset.ready().primary.pod == f"{INSTANCE}-s0-2"
        dataset.configured(handover={"to": "any", "token": "two"})
        elsewhere = dataset.ready().primary.pod
        assert elsewhere != f"{INSTANCE}-s0-2"
        assert dataset.stack.up("--expect-no-changes").changes() == {}
        assert dataset.ready().primary.pod == elsewhere
    nothing_lost(dataset, records, before)
    dataset.healed()


# --- the password ---------------------------------------------------------------------------------------------------


@both
def test_a_changed_password_is_taken_and_replication_goes_on(sandbox: Sandbox, architecture: str) -> None:
    dataset = make(sandbox, architecture)
    seen = dataset.ready()
    kube, namespace = dataset.kube, dataset.namespace
    secret = dataset.stack.outputs()[INSTANCE]["secretName"]
    with dataset.writing(wait=1) as records:
        time.sleep(1)
        kube.patch("secrets", namespace, secret, {"stringData": {"password": ANOTHER}})
        eventually("all servers take the new password", lambda: _all_took(dataset), timeout_s=60)
        dataset.stack.up()
        dataset.ready()
    assert all(not record.errors for record in records), records
    assert dataset.missing(records) == []
    # Whoever has to sign in again can: a replica to its primary, after both have been parted.
    probe.command(kube, namespace, seen.primary.pod, "CLIENT KILL TYPE replica")
    assert uids(dataset.healed()) == uids(seen)


def _all_took(dataset: Dataset) -> bool:
    """A client that comes anew reads the Secret from its volume a minute late, so this asks inside the Pods."""
    pods = dataset.kube.items("pods", dataset.namespace, "app.kubernetes.io/name=valkey")
    script = f"export VALKEYCLI_AUTH='{ANOTHER}' REDISCLI_AUTH='{ANOTHER}'; valkey-cli PING"
    asked = [dataset.kube.execute(dataset.namespace, pod["metadata"]["name"], ["sh", "-c", script]) for pod in pods]
    return all(done.out.strip().endswith("PONG") for done in asked)


# --- another architecture -------------------------------------------------------------------------------------------


def test_replica_and_failover_become_each_other_in_place(sandbox: Sandbox, kube: Kube) -> None:
    dataset = make(sandbox, REPLICA, **VOLUMES)
    before, was = dataset.client.write(service(RW), 1000), objects(kube, dataset.namespace)
    with dataset.client.writing(service(RW)) as there:
        dataset.stack.configure({INSTANCE: small(FAILOVER, **VOLUMES)})
        seen = dataset.stack.run("preview")
        assert not [op for op in seen.changes().values() if "replace" in op or "delete" in op], seen.output
        dataset.stack.up(timeout_s=HEALED_S * 4)
        watched = Dataset(sandbox, dataset.stack, dataset.client, FAILOVER, 2, 3)
        watched.ready()
        kept = {name: uid for name, uid in objects(kube, dataset.namespace).items() if name in was}
        assert kept == was
    with dataset.client.writing(service(RW), first=2_000_000) as back:
        dataset.stack.configure({INSTANCE: small(REPLICA, **VOLUMES)})
        dataset.stack.up(timeout_s=HEALED_S * 4)
        dataset.ready()
    assert objects(kube, dataset.namespace) == was
    nothing_lost(dataset, [there, back], before)
    assert kube.items("pods", dataset.namespace, "app.kubernetes.io/name=valkey-sentinel") == []

    dataset.stack.configure({INSTANCE: {"architecture": "cluster"}})
    refused = dataset.stack.run("preview", expect=-1)
    assert "cluster" in refused.output
    assert "Traceback" not in refused.output
    assert objects(kube, dataset.namespace) == was


# --- Sentinels ------------------------------------------------------------------------------------------------------


def test_sentinels_come_and_go(sandbox: Sandbox, kube: Kube) -> None:
    dataset = make(sandbox, FAILOVER)
    first = dataset.ready()
    with dataset.writing() as records:
        dataset.configured(sentinel=watching(replicas=5))
        dataset.with_sentinels(5).ready()
        dataset.configured(sentinel=watching(replicas=3))
        last = dataset.ready()
    nothing_lost(dataset, records, [])
    assert uids(last) == uids(first)
    assert all(not record.errors for record in records), records
