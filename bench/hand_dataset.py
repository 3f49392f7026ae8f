"""What a person does with kubectl and valkey-cli who has a dataset's objects and no tool: a peer of `bench.dataset`."""

import time
from typing import Any

from bench import hand
from tests.e2e.harness import dataset_probe, probe
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.sandbox import INSTANCE

PORT = 6379
_ASK = """
password=$(cat /etc/valkey-sentinel/operator)
export REDISCLI_AUTH="$password" VALKEYCLI_AUTH="$password"
ask() { timeout 5 valkey-cli -e -p 26379 --user _operator "$@"; }
until ask PING; do sleep 0.1; done
ask SENTINEL MONITOR NAME HOST 6379 2
ask SENTINEL SET NAME auth-user _sentinel auth-pass "$password" down-after-milliseconds 2000
"""


def make(kube: Kube, namespace: str, objects: list[dict[str, Any]], replicas: int, sentinels: int) -> float:
    """From nothing to Ready by hand; returns the seconds. The namespace exists before, in favour of the peer.

    Ready is what the tests' own probe finds Ready, but for the Services by role, which nobody fills by hand.
    """
    started = time.monotonic()
    hand.apply(namespace, [_by_nobody(item) for item in objects])
    hand.await_pods(kube, namespace, INSTANCE, replicas + 1 + sentinels, started)
    primary = f"{INSTANCE}-s0-0"
    host = f"{primary}.{INSTANCE}-headless.{namespace}.svc.cluster.local"
    for ordinal in range(replicas + 1):
        what = f"REPLICAOF {host} {PORT}" if ordinal else "REPLICAOF NO ONE"
        _patiently(kube, namespace, f"{INSTANCE}-s0-{ordinal}", what, started)
    script = _ASK.replace("NAME", f"{namespace}.{INSTANCE}").replace("HOST", host)
    for ordinal in range(sentinels):
        pod = f"{INSTANCE}-sentinel-{ordinal}"
        done = kube.execute_again(namespace, pod, ["sh", "-c", script], container="sentinel")
        if done.code:
            raise RuntimeError(f"{pod}: {done.out}{done.err}")
    while _faults(kube, namespace, replicas, sentinels):
        if time.monotonic() - started > hand.GIVE_UP_S:
            raise TimeoutError(f"by hand it isn't right: {_faults(kube, namespace, replicas, sentinels)}")
        time.sleep(0.1)
    return time.monotonic() - started


def _faults(kube: Kube, namespace: str, replicas: int, sentinels: int) -> list[str]:
    try:
        seen = dataset_probe.ask(kube, namespace, INSTANCE, monitored=sentinels > 0)
    except probe.SilentError as error:
        return [str(error)]
    found = dataset_probe.faults(seen, INSTANCE, replicas, sentinels)
    return [text for text in found if not text.startswith("behind ")]


def _by_nobody(item: dict[str, Any]) -> dict[str, Any]:
    """The same object, without what has agents decide on the primary: here a person does."""
    for container in _containers(item):
        container["env"] = [one for one in container.get("env", []) if one["name"] != "VALKEY_AUTOMATIC_FAILOVER"]
    return item


def _containers(item: dict[str, Any]) -> list[dict[str, Any]]:
    if item["kind"] != "StatefulSet":
        return []
    spec = item["spec"]["template"]["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]


def _patiently(kube: Kube, namespace: str, pod: str, command: str, started: float) -> None:
    """Servers answer a moment after their container runs."""
    while True:
        try:
            probe.command(kube, namespace, pod, command)
        except AssertionError:
            if time.monotonic() - started > hand.GIVE_UP_S:
                raise
            time.sleep(0.2)
        else:
            return
