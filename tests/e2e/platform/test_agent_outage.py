"""While the API server is out of reach, nothing stops serving, and what happened meanwhile is healed afterwards."""

import time
from collections.abc import Callable

import pytest

from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.program import Stack
from tests.e2e.harness.sandbox import INSTANCE, Sandbox
from tests.e2e.platform.platform import local

pytestmark = pytest.mark.usefixtures("repaired")
OUTAGE_S = 60


def test_nothing_stops_serving_while_the_api_server_is_away(
    sandbox: Sandbox, form: Callable[..., Stack], kube: Kube
) -> None:
    stack = form()
    client = sandbox.client(stack)
    nodes = probe.assert_ready(kube, stack.namespace, INSTANCE)
    with client.writing(INSTANCE) as record:
        cut = local("cut", "api", "others")
        assert cut.code == 0, cut.err
        time.sleep(OUTAGE_S)
        healed = local("heal", "api", "others")
        assert healed.code == 0, healed.err
        eventually("Pods can be spoken to", lambda: _answers(kube, stack.namespace), timeout_s=60)
    assert record.acknowledged
    assert record.gap_ms < 1000, record
    assert client.lost(INSTANCE, list(record.acknowledged)) == []

    # What is broken now is healed: the agents have outlived it.
    probe.command(kube, stack.namespace, probe.replica_of(nodes, 1).pod, "CLUSTER RESET HARD")
    eventually("it is Ready by itself", lambda: not _faults(kube, stack.namespace), timeout_s=60)
    restarts = [
        status["restartCount"]
        for pod in kube.items("pods", stack.namespace, f"app.kubernetes.io/instance={INSTANCE}")
        for status in pod["status"]["containerStatuses"]
    ]
    assert set(restarts) == {0}


def _answers(kube: Kube, namespace: str) -> bool:
    try:
        return len(probe.ask(kube, namespace, INSTANCE)) == 6
    except probe.SilentError:
        return False


def _faults(kube: Kube, namespace: str) -> list[str]:
    try:
        return probe.faults(probe.ask(kube, namespace, INSTANCE), INSTANCE, shards=3, replicas=1)
    except (probe.SilentError, KeyError) as error:
        return [str(error)]
