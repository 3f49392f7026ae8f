"""While the API server is out of reach, nothing stops serving, and what happened meanwhile is healed afterwards."""

import time
from collections.abc import Callable

import pytest

from tests.e2e.harness import probe
from tests.e2e.harness.breakable import Breakable
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.program import Stack
from tests.e2e.harness.sandbox import INSTANCE, Sandbox
from tests.e2e.platform.platform import local

pytestmark = pytest.mark.usefixtures("repaired")
OUTAGE_S = 60
NODE_TIMEOUT_MS = 5000
#: Acknowledged by a primary, and not yet sent to its replica when its node lost power: what is in flight.
IN_FLIGHT = 5


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
        # Kubernetes took the silent nodes for lost, and so their Pods out of the Service: who was connected goes on,
        # and who comes anew waits until the kubelets have told otherwise.
        eventually("Pods count as ready", Breakable(kube, stack.namespace).whole, timeout_s=60)
        eventually("new clients find it again", lambda: client.connects(INSTANCE, 6379), timeout_s=30)
    assert record.acknowledged
    assert record.gap_ms < NODE_TIMEOUT_MS, record
    assert client.lost(INSTANCE, list(record.acknowledged)) == []

    # What is broken now is healed: the agents have outlived it.
    probe.command(kube, stack.namespace, probe.replica_of(nodes, 1).pod, "CLUSTER RESET HARD")
    probe.eventually_ready(kube, stack.namespace, INSTANCE, timeout_s=60)
    restarts = [
        status["restartCount"]
        for pod in kube.items("pods", stack.namespace, f"app.kubernetes.io/instance={INSTANCE}")
        for status in pod["status"]["containerStatuses"]
    ]
    assert set(restarts) == {0}


def test_a_node_loses_power_under_a_writer_and_comes_back(
    sandbox: Sandbox, form: Callable[..., Stack], kube: Kube
) -> None:
    stack = form()
    client = sandbox.client(stack)
    nodes = probe.assert_ready(kube, stack.namespace, INSTANCE)
    written = client.write(INSTANCE, 1000)
    places = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in kube.items("pods", stack.namespace)}
    # One with a primary on it, and without the writer.
    primaries = [pod for pod, node in nodes.items() if node.is_primary]
    lost = next(places[pod] for pod in primaries if places[pod] != places["client"])
    with client.writing(INSTANCE) as record:
        time.sleep(2)
        killed = local("node", "kill", lost.removeprefix("node"))
        assert killed.code == 0, killed.err
        time.sleep(60)
    # Its agents are gone with it, so that the servers elect by themselves, after their timeout. The client then still
    # asks the ones that are silent, one after the other, and waits for each.
    assert record.gap_ms < 60_000, record
    missing = client.lost(INSTANCE, list(record.acknowledged))
    assert len(missing) <= IN_FLIGHT * sum(1 for pod in primaries if places[pod] == lost), (missing, record)
    assert client.lost(INSTANCE, written) == []

    started = local("node", "start", lost.removeprefix("node"))
    assert started.code == 0, started.err
    probe.eventually_ready(kube, stack.namespace, INSTANCE, timeout_s=120)
    assert client.lost(INSTANCE, written) == []
