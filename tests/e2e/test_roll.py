"""Pods that are replaced by `up`, roles that move, members that are taken out: under a writer, and nothing is lost.

How long writes stop is measured in `bench/`; here it is only bounded loosely.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import pytest

from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.program import Result, Stack
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, tiny

#: A roll of six Pods, on a machine that runs other tests beside it.
ROLL_S = 400
NO_IMAGE = "valkey/valkey:9.1.987"
MORE_MEMORY = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "72Mi"}}
NO_ROOM = {"requests": {"cpu": "64", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}

pytestmark = pytest.mark.timeout(1200)


def uids(kube: Kube, namespace: str) -> dict[str, str]:
    pods = kube.items("pods", namespace, f"app.kubernetes.io/instance={INSTANCE}")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def zones(kube: Kube, namespace: str) -> dict[str, str]:
    """The zone that each Pod of the instance is in."""
    nodes = {node["metadata"]["name"]: node for node in kube.request("GET", "/api/v1/nodes")["items"]}
    return {
        pod["metadata"]["name"]: nodes[pod["spec"]["nodeName"]]["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for pod in kube.items("pods", namespace, f"app.kubernetes.io/instance={INSTANCE}")
    }


def steps(done: Result) -> list[str]:
    """What a roll did, in its order; each line is shown once while it works, and some of them again at the end."""
    pattern = r"s\d+-\d+: (?:replace its Pod|take the primary's role over from s\d+-\d+)"
    return list(dict.fromkeys(re.findall(pattern, done.output)))


def in_order(lines: list[str]) -> Iterator[str]:
    """What is wrong with the order of a roll of three shards with a replica each."""
    for shard in range(3):
        mine = [line for line in lines if line.startswith(f"s{shard}-")]
        kinds = ["role" if "role over" in line else "replace" for line in mine]
        if kinds != ["replace", "role", "replace"]:
            yield f"shard {shard}: {mine}"
        elif not mine[0].split(":")[0] == mine[1].split(":")[0] != mine[2].split(":")[0]:
            yield f"shard {shard}: the replica that is new takes over, and then its former primary goes: {mine}"
    if [line.partition("-")[0] for line in lines] != sorted(line.partition("-")[0] for line in lines):
        yield f"one shard after the other: {lines}"


def roll(stack: Stack, config: dict[str, Any]) -> Result:
    stack.configure({INSTANCE: config})
    return stack.up(timeout_s=ROLL_S)


def test_changed_resources_replace_every_pod_in_order_and_lose_nothing(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack()
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    before, written = uids(kube, namespace), client.write(INSTANCE, 1000)
    stack.configure({INSTANCE: small(resources=MORE_MEMORY)})
    seen = stack.run("preview")
    for shard in range(3):
        assert re.search(
            rf"replace Pods of shard {shard}: s{shard}-\d, then the role moves from s{shard}-\d", seen.output
        )
    with client.writing(INSTANCE) as record:
        done = stack.up(timeout_s=ROLL_S)
        probe.assert_ready(kube, namespace, INSTANCE)
    assert list(in_order(steps(done))) == []
    after = uids(kube, namespace)
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values()), "every Pod is a new one"
    assert client.lost(INSTANCE, [*written, *record.acknowledged]) == []
    stack.run("preview", "--expect-no-changes")


def test_an_upgrade_keeps_the_data_and_a_downgrade_is_refused(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=small(version="8.1", persistence={"size": "64Mi"}))
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    written = client.write(INSTANCE, 2000)
    with client.writing(INSTANCE) as record:
        roll(stack, small(version="9.1", persistence={"size": "64Mi"}))
    nodes = probe.assert_ready(kube, namespace, INSTANCE)
    assert {node.server["valkey_version"][:4] for node in nodes.values()} == {"9.1."}
    assert client.lost(INSTANCE, [*written, *record.acknowledged]) == []
    assert stack.outputs()[INSTANCE]["serverVersion"].startswith("9.1.")

    stack.configure({INSTANCE: small(version="8.1", persistence={"size": "64Mi"})})
    refused = stack.run("preview", expect=-1)
    assert "a server of an older line can't read the data of a newer one" in refused.output
    assert "Traceback" not in refused.output
    before = uids(kube, namespace)
    stack.up(expect=-1)
    assert uids(kube, namespace) == before
    sets = kube.items("statefulsets", namespace, f"app.kubernetes.io/instance={INSTANCE}")
    images = {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in sets}
    assert all("9.1" in image for image in images), "nothing was written"


def test_a_new_token_restarts_everything_once(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=small(persistence={"size": "64Mi"}))
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    before = uids(kube, namespace)
    ids = {pod: node.node_id for pod, node in probe.assert_ready(kube, namespace, INSTANCE).items()}
    with client.writing(INSTANCE) as record:
        config = small(restart="now", rollout={"maxParallelShards": 3}, persistence={"size": "64Mi"})
        roll(stack, config)
    nodes = probe.assert_ready(kube, namespace, INSTANCE)
    assert {pod: node.node_id for pod, node in nodes.items()} == ids, "on their volumes they are the same members"
    assert not set(uids(kube, namespace).values()) & set(before.values())
    assert client.lost(INSTANCE, record.acknowledged) == []
    after = uids(kube, namespace)
    stack.up()
    assert uids(kube, namespace) == after


def test_a_stuck_roll_stops_at_the_first_pod_and_a_corrected_config_mends_it(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack()
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    before, written = uids(kube, namespace), client.write(INSTANCE, 500)
    stack.configure({INSTANCE: small(image=NO_IMAGE)})
    with client.writing(INSTANCE) as record:
        failed = stack.up(expect=-1, timeout_s=ROLL_S)
    assert "image" in failed.output
    assert "won't come up again if they restart before this is mended" in failed.output
    after = uids(kube, namespace)
    replaced = [pod for pod, uid in after.items() if uid != before[pod]]
    assert len(replaced) == 1, "it stopped at the first"
    assert record.errors == {}
    assert client.lost(INSTANCE, [*written, *record.acknowledged]) == []

    # Another Pod of another shard is lost meanwhile: a replica, which comes back as stuck as the first.
    nodes = probe.ask_those_that_answer(kube, namespace, INSTANCE)
    other = next(node.pod for node in nodes.values() if not node.is_primary and node.pod not in replaced)
    kube.delete("pods", namespace, other, grace_s=0)
    eventually("it comes back", lambda: uids(kube, namespace).get(other) not in (None, after[other]), timeout_s=60)
    stack.configure({INSTANCE: small(resources=MORE_MEMORY)})
    mended = stack.up(timeout_s=ROLL_S)
    first = [line for line in mended.output.splitlines() if "replace its Pod" in line][:2]
    assert all("couldn't start" in line for line in first), first
    probe.assert_ready(kube, namespace, INSTANCE)
    assert client.lost(INSTANCE, [*written, *record.acknowledged]) == []


def test_a_roll_to_pods_that_find_no_room_stops_at_the_first_and_is_mended(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny())
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    before, written = uids(kube, namespace), client.write(INSTANCE, 500)
    stack.configure({INSTANCE: tiny(resources=NO_ROOM, timeoutSeconds=30)})
    failed = stack.up(expect=-1, timeout_s=ROLL_S)
    assert "nsufficient cpu" in failed.output
    assert "won't come up again if they restart before this is mended" in failed.output
    assert len(set(uids(kube, namespace).values()) - set(before.values())) == 1, "it stopped at the first"
    assert client.lost(INSTANCE, written) == []
    roll(stack, tiny(resources=MORE_MEMORY))
    probe.assert_ready(kube, namespace, INSTANCE, shards=1)
    assert client.lost(INSTANCE, written) == []


def test_the_only_copies_are_replaced_with_consent_alone(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny(replicas=0))
    stack.up()
    before = uids(kube, sandbox.namespace)
    stack.configure({INSTANCE: tiny(replicas=0, restart="now")})
    refused = stack.run("preview", expect=-1)
    assert "has the only copy of its shard's data" in refused.output
    assert "allowDataLoss: true" in refused.output
    assert uids(kube, sandbox.namespace) == before
    done = roll(stack, tiny(replicas=0, restart="now", allowDataLoss=True))
    assert "the data goes with the Pod" in done.output
    probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1, replicas=0)
    assert not set(uids(kube, sandbox.namespace).values()) & set(before.values())


def test_fewer_replicas_never_cut_off_a_primary(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny(shards=2, replicas=2, primaries={0: 2, 1: 1}))
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    nodes = probe.assert_ready(kube, namespace, INSTANCE, shards=2, replicas=2)
    assert probe.primary_of(nodes, 0).pod == f"{INSTANCE}-s0-2"
    written = client.write(INSTANCE, 500)
    stack.configure({INSTANCE: tiny(shards=2, replicas=1)})
    seen = stack.run("preview")
    assert "move the role of s0-2, a primary, to a member that stays" in seen.output
    with client.writing(INSTANCE) as record:
        stack.up(timeout_s=ROLL_S)
    nodes = probe.assert_ready(kube, namespace, INSTANCE, shards=2)
    assert probe.primary_of(nodes, 1).pod == f"{INSTANCE}-s1-1", "a role that may stay isn't moved"
    assert client.lost(INSTANCE, [*written, *record.acknowledged]) == []
    stack.run("preview", "--expect-no-changes")

    stack.configure({INSTANCE: tiny(shards=2, replicas=2)})
    stack.up()
    probe.assert_ready(kube, namespace, INSTANCE, shards=2, replicas=2)
    assert client.lost(INSTANCE, [*written, *record.acknowledged]) == []


def test_roles_move_as_declared_and_come_back_after_an_incident(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack()
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    stack.configure({INSTANCE: small(primaries={0: 1, 2: 1})})
    with client.writing(INSTANCE) as record:
        done = stack.up()
    # The provider of dynamic resources is told the stack's config, and so any change of it.
    assert set(done.changes()) - {"pulumi-python default"} == {f"Topology {INSTANCE}"}
    nodes = probe.assert_ready(kube, namespace, INSTANCE)
    assert [probe.primary_of(nodes, shard).pod[-1] for shard in range(3)] == ["1", "0", "1"]
    assert client.lost(INSTANCE, record.acknowledged) == []

    stack.configure({INSTANCE: small(preferOrdinalZero=True)})
    stack.up()
    nodes = probe.assert_ready(kube, namespace, INSTANCE)
    assert [probe.primary_of(nodes, shard).pod[-1] for shard in range(3)] == ["0", "0", "0"]

    # A failover takes a role elsewhere: nothing is wrong with that, and the next `up` takes it back.
    probe.command(kube, namespace, f"{INSTANCE}-s1-1", "CLUSTER FAILOVER")

    def moved() -> bool:
        return probe.primary_of(probe.ask(kube, namespace, INSTANCE), 1).pod == f"{INSTANCE}-s1-1"

    eventually("the role has moved", moved, timeout_s=30)
    seen = stack.run("preview")
    assert "s1-0: take the primary's role over from s1-1" in seen.output
    stack.up()
    nodes = probe.assert_ready(kube, namespace, INSTANCE)
    assert probe.primary_of(nodes, 1).pod == f"{INSTANCE}-s1-0"

    # From where a zone has the most primaries that it can have, they are spread to where it has as few as can be.
    places = zones(kube, namespace)

    def most(ordinals: Iterable[int]) -> int:
        return max(Counter(places[f"{INSTANCE}-s{shard}-{ordinal}"] for shard, ordinal in enumerate(ordinals)).values())

    ways = sorted(product((0, 1), repeat=3), key=most)
    assert most(ways[0]) < most(ways[-1]), places
    stack.configure({INSTANCE: small(primaries=dict(enumerate(ways[-1])))})
    stack.up()
    stack.configure({INSTANCE: small(spreadPrimaries=True)})
    seen = stack.run("preview")
    assert "to do: s" in seen.output
    assert "take the primary's role over" in seen.output
    with client.writing(INSTANCE) as record:
        stack.up()
    nodes = probe.assert_ready(kube, namespace, INSTANCE)
    assert most(int(probe.primary_of(nodes, shard).pod[-1]) for shard in range(3)) == most(ways[0]), places
    assert client.lost(INSTANCE, record.acknowledged) == []
    stack.run("preview", "--expect-no-changes")


def test_a_roll_that_was_killed_is_finished_by_the_next_up(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny())
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    before = uids(kube, namespace)
    stack.configure({INSTANCE: tiny(restart="now")})
    with client.writing(INSTANCE) as record:
        running = stack.start("up", "--yes", "--skip-preview")
        running.until(lambda mark: "role over" in mark, timeout_s=ROLL_S)
        running.kill()
        stack.cancel()
        stack.up(timeout_s=ROLL_S)
    probe.assert_ready(kube, namespace, INSTANCE, shards=1)
    assert not set(uids(kube, namespace).values()) & set(before.values())
    assert client.lost(INSTANCE, record.acknowledged) == []
