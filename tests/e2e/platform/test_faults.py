"""Faults of nodes and networks, and that each can be undone."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.platform.platform import SILENCE, Namespace, local, node_is_ready

pytestmark = pytest.mark.usefixtures("repaired")


def _servers(namespace: Namespace) -> dict[int, str]:
    """A server on each node; their addresses by the number of the node."""
    for number in (1, 2, 3):
        namespace.server(f"on{number}", nodeName=f"node{number}")
    return {number: namespace.address(f"on{number}") for number in (1, 2, 3)}


def test_a_node_that_lost_power_is_gone_at_once_and_comes_back(kube: Kube, namespace: Namespace) -> None:
    addresses = _servers(namespace)
    killed = local("node", "kill", "2")
    assert killed.code == 0, killed.err
    assert namespace.reply("on1", addresses[2]) == SILENCE  # Not refused: nobody is there to refuse.
    assert namespace.reply("on1", addresses[3]) == "PONG"
    assert local("status").code == 1
    eventually("the API server notices", lambda: not node_is_ready(kube, "node2"), timeout_s=60)

    started = local("node", "start", "2")
    assert started.code == 0, started.err
    assert node_is_ready(kube, "node2")
    assert local("status").code == 0
    # The Pod is the same one, its container a new one.
    eventually("its Pod serves again", lambda: namespace.reply("on1", namespace.address("on2")) == "PONG", timeout_s=60)
    pod = kube.get("pods", namespace.name, "on2")
    assert pod is not None
    assert pod["status"]["containerStatuses"][0]["restartCount"] >= 1


def test_a_stopped_kubelet_leaves_its_containers_running(kube: Kube, namespace: Namespace) -> None:
    addresses = _servers(namespace)
    assert local("node", "stop", "3").code == 0
    eventually("the API server notices", lambda: not node_is_ready(kube, "node3"), timeout_s=60)
    assert namespace.reply("on1", addresses[3]) == "PONG"
    started = local("node", "start", "3")
    assert started.code == 0, started.err
    pod = namespace.ready("on3")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_frozen_node_stands_still_and_goes_on(namespace: Namespace) -> None:
    addresses = _servers(namespace)
    namespace.reply("on2", "127.0.0.1", "SET", "key", "value")
    assert local("node", "freeze", "2").code == 0
    assert namespace.reply("on1", addresses[2]) == SILENCE
    started = local("node", "start", "2")
    assert started.code == 0, started.err
    assert namespace.reply("on1", addresses[2], "GET", "key") == "value"


def test_a_cut_between_two_nodes_spares_the_third(namespace: Namespace) -> None:
    addresses = _servers(namespace)
    assert local("cut", "1", "2").code == 0
    assert namespace.reply("on1", addresses[2]) == SILENCE
    assert namespace.reply("on2", addresses[1]) == SILENCE
    assert namespace.reply("on1", addresses[3]) == "PONG"
    assert namespace.reply("on3", addresses[2]) == "PONG"
    shown = local("status")
    assert "everything from node1 to node2 is lost" in shown.out
    assert local("heal", "2", "1").code == 0
    assert namespace.reply("on1", addresses[2]) == "PONG"


def test_a_cut_ends_connections_that_were_open(kube: Kube, namespace: Namespace) -> None:
    addresses = _servers(namespace)
    ask = ["sh", "-c", f"(echo PING; sleep 4; echo PING; sleep 2) | timeout 8 valkey-cli -h {addresses[2]}"]
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(kube.execute, namespace.name, "on1", ask)
        time.sleep(1.5)
        assert local("cut", "1", "2").code == 0
        assert asking.result().out.split() == ["PONG"]


def test_a_cut_in_one_direction(namespace: Namespace) -> None:
    addresses = _servers(namespace)
    assert local("cut", "1", "2", "--one-way").code == 0
    # Without answers there is no connection in the other direction either; a third one shows who still hears whom.
    assert namespace.reply("on1", addresses[2]) == SILENCE
    assert "everything from node2" not in local("status").out
    assert local("heal").code == 0
    assert namespace.reply("on1", addresses[2]) == "PONG"


def test_a_lossy_network_still_carries(namespace: Namespace) -> None:
    addresses = _servers(namespace)
    assert local("cut", "1", "3", "--loss", "20").code == 0
    assert "20 % of the packets" in local("status").out
    eventually("one gets through", lambda: namespace.reply("on1", addresses[3]) == "PONG", timeout_s=30)


def test_a_node_cut_off_the_api_server_still_serves(kube: Kube, namespace: Namespace) -> None:
    addresses = _servers(namespace)
    assert local("cut", "2", "api").code == 0
    eventually("the API server notices", lambda: not node_is_ready(kube, "node2"), timeout_s=60)
    assert namespace.reply("on1", addresses[2]) == "PONG"
    assert local("heal", "2", "api").code == 0
    eventually("it is Ready again", lambda: node_is_ready(kube, "node2"), timeout_s=60)


def test_an_isolated_node_stays_isolated_when_it_comes_back(kube: Kube, namespace: Namespace) -> None:
    addresses = _servers(namespace)
    assert local("cut", "3", "others").code == 0
    assert local("node", "kill", "3").code == 0
    started = local("node", "start", "3")
    assert started.code == 0, started.err
    eventually("its Pod is back", lambda: kube.execute(namespace.name, "on3", ["true"]).code == 0, timeout_s=60)
    assert namespace.reply("on3", addresses[1]) == SILENCE


def test_up_repairs_every_fault(namespace: Namespace) -> None:
    _servers(namespace)
    for command in (("node", "kill", "1"), ("node", "stop", "2"), ("cut", "2", "3"), ("node", "freeze", "3")):
        done = local(*command)
        assert done.code == 0, done.err
    repaired = local("up")
    assert repaired.code == 0, repaired.err
    assert "anew" not in repaired.err
    for pod in ("on1", "on2", "on3"):
        # Up, but its container may still be on its way.
        eventually(f"{pod} serves", lambda name=pod: _serves(namespace, name), timeout_s=60)
    assert namespace.reply("on2", namespace.address("on3")) == "PONG"


def _serves(namespace: Namespace, pod: str) -> bool:
    return namespace.reply(pod, "127.0.0.1") == "PONG"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("node", "kill", "4"), "there is no node 4"),
        (("cut", "1", "node9"), "node9 is no machine"),
        (("cut", "1", "1"), "the same machine"),
        (("heal", "1"), "heal takes two machines"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(arguments: tuple[str, ...], said: str) -> None:
    done = local(*arguments)
    assert done.code in (1, 2)
    assert said in done.err
    assert "Traceback" not in done.err
