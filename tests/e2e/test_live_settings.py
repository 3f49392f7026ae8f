"""Settings and passwords that change on a running instance: in effect on every node, with no Pod restarted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from tests.e2e.conftest import Formed
from tests.e2e.harness import direct, probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.leaks import leaks
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, tiny

POLICY = "maxmemory-policy"
FIRST = {POLICY: "allkeys-lru", "hz": 20}
SHARED = pytest.mark.xdist_group("live_settings")
#: From the word of the API server to all servers.
SECONDS = 15
#: How long the former password is taken, and some more for a busy machine.
OLD_PASSWORD_GONE_S = 240


def pods_of(kube: Kube, namespace: str) -> list[dict[str, object]]:
    return sorted(
        kube.items("pods", namespace, f"app.kubernetes.io/instance={INSTANCE}"), key=lambda pod: pod["metadata"]["name"]
    )


def lives(kube: Kube, namespace: str) -> list[tuple[object, ...]]:
    """What changes of a Pod when it, or a container in it, is started anew, or when it is of an older template."""
    return [
        (
            pod["metadata"]["uid"],
            pod["metadata"]["labels"]["controller-revision-hash"],
            [
                (status["name"], status["containerID"], status["restartCount"])
                for status in (*pod["status"]["initContainerStatuses"], *pod["status"]["containerStatuses"])
            ],
        )
        for pod in pods_of(kube, namespace)
    ]


def told(kube: Kube, namespace: str, name: str) -> set[str]:
    """What the servers have of a setting."""
    return {
        probe.command(kube, namespace, str(pod["metadata"]["name"]), f"CONFIG GET {name}").split("\n", 1)[1].strip()
        for pod in pods_of(kube, namespace)
    }


def current_revisions(kube: Kube, namespace: str) -> set[str]:
    sets = kube.items("statefulsets", namespace, f"app.kubernetes.io/instance={INSTANCE}")
    return {str(one["status"]["updateRevision"]) for one in sets}


@SHARED
def test_a_changed_setting_is_live_on_every_node_and_no_pod_is_outdated(
    shared: Callable[..., Formed], kube: Kube
) -> None:
    formed = shared(config=FIRST)
    stack, namespace, client = formed.stack, formed.namespace, formed.client
    assert told(kube, namespace, POLICY) == {"allkeys-lru"}
    before, revisions = lives(kube, namespace), current_revisions(kube, namespace)
    assert {str(revision) for _, revision, _ in before} == revisions

    stack.configure({INSTANCE: small(config={POLICY: "volatile-ttl", "cluster-node-timeout": 4000})})
    seen = stack.run("preview", "--diff").output
    # The display lines the colons of a mapping up.
    assert re.search(rf'{POLICY}\s*: "allkeys-lru" => "volatile-ttl"', seen), seen
    with client.writing(INSTANCE) as record:
        stack.up()
        # It returns when they have it: nothing is waited for here.
        assert told(kube, namespace, POLICY) == {"volatile-ttl"}
        assert told(kube, namespace, "cluster-node-timeout") == {"4000"}
        assert told(kube, namespace, "hz") == {"10"}, "the server's default, where it was taken out"
    assert record.errors == {}
    assert lives(kube, namespace) == before, "no Pod and no container was started anew"
    assert current_revisions(kube, namespace) == revisions, "no Pod is outdated"
    stack.run("preview", "--expect-no-changes")

    probe.command(kube, namespace, f"{INSTANCE}-s1-0", f"CONFIG SET {POLICY} noeviction")
    eventually(
        "what was changed by hand is set back", lambda: told(kube, namespace, POLICY) == {"volatile-ttl"}, timeout_s=60
    )


@SHARED
@pytest.mark.timeout(900)
def test_a_setting_that_a_start_needs_replaces_the_pods(shared: Callable[..., Formed], kube: Kube) -> None:
    formed = shared(config=FIRST)
    stack, namespace = formed.stack, formed.namespace
    revisions = current_revisions(kube, namespace)
    stack.configure({INSTANCE: small(config={"tcp-backlog": 300})})
    seen = stack.run("preview", "--diff").output
    assert "restart" in seen
    assert "tcp-backlog" in seen
    assert "replace Pods of shard 0" in seen
    stack.up(timeout_s=400)
    assert current_revisions(kube, namespace) != revisions
    assert {str(revision) for _, revision, _ in lives(kube, namespace)} == current_revisions(kube, namespace)
    assert told(kube, namespace, "tcp-backlog") == {"300"}


@SHARED
def test_a_setting_that_the_servers_refuse_is_told_in_their_words_and_in_effect_nowhere(
    shared: Callable[..., Formed], kube: Kube
) -> None:
    formed = shared(config=FIRST)
    stack, namespace = formed.stack, formed.namespace
    stack.up()
    # A text, of which only a server can say whether it knows such a locale.
    stack.configure({INSTANCE: small(config={POLICY: "noeviction", "locale-collate": "xx_NOWHERE"})})
    failed = stack.up(expect=None)
    assert failed.code != 0
    assert "locale-collate" in failed.output
    assert "CONFIG SET failed" in failed.output, "the servers' own words"
    assert told(kube, namespace, POLICY) == {"allkeys-lru"}, "nothing is half applied"
    stack.configure({INSTANCE: small(config={POLICY: "noeviction"})})
    stack.up()
    assert told(kube, namespace, POLICY) == {"noeviction"}
    probe.assert_ready(kube, namespace, INSTANCE)


@pytest.mark.timeout(900)
def test_a_changed_password_is_taken_within_seconds_and_replication_goes_on(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny())
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    secret = stack.outputs()[INSTANCE]["secretName"]
    before, synced = lives(kube, namespace), full_copies(kube, namespace)
    first = probe_password(kube, namespace)
    second = "another-Pässwört $(id) \\x"
    with client.writing(INSTANCE, wait=1) as record:
        time.sleep(1)
        kube.patch("secrets", namespace, secret, {"stringData": {"password": second}})
        eventually("all servers take the new password", all_take(kube, namespace, second), timeout_s=SECONDS)
        assert all_take(kube, namespace, first)(), "and the former one too, for whoever has not read the new one"
        stack.up()
        probe.assert_ready(kube, namespace, INSTANCE, shards=1)
        eventually(
            "no server takes the former password",
            lambda: not any(takes(kube, namespace, pod, first) for pod in names(kube, namespace)),
            timeout_s=OLD_PASSWORD_GONE_S,
            pause_s=5,
        )
    assert record.errors == {}
    assert client.lost(INSTANCE, record.acknowledged) == []
    assert full_copies(kube, namespace) == synced, "no replica had to begin anew"
    assert lives(kube, namespace) == before
    assert leaks(kube, stack, namespace, [first, second]) == []
    # Whoever has to sign in again can: a replica to its primary, after both have been parted.
    for pod in names(kube, namespace):
        probe.command(kube, namespace, pod, "CLIENT KILL TYPE replica")
    probe.eventually_ready(kube, namespace, INSTANCE, shards=1, timeout_s=60)


def names(kube: Kube, namespace: str) -> list[str]:
    return [str(pod["metadata"]["name"]) for pod in pods_of(kube, namespace)]


def full_copies(kube: Kube, namespace: str) -> dict[str, str]:
    """How many full copies each server has given."""
    found = {pod: probe.command(kube, namespace, pod, "INFO stats") for pod in names(kube, namespace)}
    return {pod: next(line for line in text.splitlines() if "sync_full" in line) for pod, text in found.items()}


def takes(kube: Kube, namespace: str, pod: str, password: str) -> bool:
    """Whether a server lets somebody in who comes anew with this password."""
    found = kube.get("pods", namespace, pod)
    assert found is not None
    try:
        with direct.talk(found, password=password) as server:
            return server.ask("PING").strip() == "PONG"
    except direct.UnreachableError as error:
        if "invalid username-password pair" not in str(error):
            raise
        return False


def all_take(kube: Kube, namespace: str, password: str) -> Callable[[], bool]:
    return lambda: all(takes(kube, namespace, pod, password) for pod in names(kube, namespace))


def probe_password(kube: Kube, namespace: str) -> str:
    return kube.execute(namespace, f"{INSTANCE}-s0-0", ["cat", "/run/valkey/password"]).out
