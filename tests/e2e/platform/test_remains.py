"""A cluster of the test's own: what it leaves behind, and how it survives being killed at any point."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local.cluster.layout import Layout
from tests.e2e.harness.environment import CHECKOUT, environment
from tests.e2e.harness.kube import eventually
from tests.e2e.platform.host import in_host_namespaces, kill, link, look, processes_of, remains, running
from tests.e2e.platform.platform import Ran, local, process_one, variables


class Own:
    """A cluster beside the shared one; nothing of the two meets."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.folder = state / "valkey-local"

    def run(self, *arguments: str) -> Ran:
        return local(*arguments, state=self.state)

    def up(self) -> Ran:
        done = self.run("up")
        assert done.code == 0, done.err
        status = self.run("status")
        assert status.code == 0, status.out
        return done

    def down(self) -> None:
        done = self.run("down")
        assert done.code == 0, done.err

    @property
    def identity(self) -> str:
        return Layout(self.folder).id

    @property
    def device(self) -> str:
        return self.identity.replace("valkey-local", "vk")

    def remains(self) -> list[str]:
        return remains(self.state, self.identity)

    def start(self, command: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "local", command],
            cwd=CHECKOUT,
            env=variables(self.state),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def kubectl(self, *arguments: str) -> str:
        command = ["kubectl", "--kubeconfig", str(self.folder / "kubeconfig"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout


@contextmanager
def _own(folder: Path) -> Generator[Own]:
    cluster = Own(folder / "state")
    yield cluster
    cluster.down()
    assert cluster.remains() == []


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    with _own(tmp_path) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """One that tests share which break it and bring it up again."""
    with _own(tmp_path_factory.mktemp("standing")) as cluster:
        yield cluster


def test_the_host_stays_as_it_is(own: Own) -> None:
    before = look()
    own.up()
    assert look() == before
    processes = processes_of(own.identity)
    assert len(processes) >= 22
    assert in_host_namespaces(processes) == []
    # The one link has the routes that come with an address, and no other.
    assert [route.split()[0] for route in link(own.device) if "proto kernel" not in route] == []
    assert len([route for route in link(own.device) if "/30" in route]) == 1
    own.down()
    assert look() == before
    assert link(own.device) == []
    assert own.remains() == []
    own.down()  # Twice is no error.


def test_down_removes_what_was_killed(own: Own) -> None:
    before = look()
    own.up()
    kill(processes_of(own.identity))
    own.down()
    assert own.remains() == []
    assert look() == before


def test_up_brings_back_what_was_killed_with_its_data(standing: Own) -> None:
    standing.up()
    standing.kubectl("create", "configmap", "kept", "--from-literal=key=value")
    kill(processes_of(standing.identity))
    again = standing.up()
    assert "anew" not in again.err
    assert standing.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.key}") == "value"


@pytest.mark.parametrize("machine", ["control-plane", "node2"])
def test_up_brings_back_one_machine(standing: Own, machine: str) -> None:
    standing.up()
    others = {name: process_one(name, standing.state) for name in ("control-plane", "node1", "node2", "node3")}
    os.kill(others.pop(machine), signal.SIGKILL)
    assert "anew" not in standing.up().err
    assert {name: process_one(name, standing.state) for name in others} == others


def test_a_service_that_ends_comes_back_by_itself(standing: Own) -> None:
    standing.up()
    for program in ("etcd", "kube-apiserver", "containerd", "kubelet", "kube-proxy", "coredns"):
        kill(running(standing.identity, program))
    eventually("all is in order again", lambda: standing.run("status").code == 0, timeout_s=90, pause_s=1)


MOMENTS_S = (0.4, 0.8, 1.6, 3.2)


def test_an_up_that_was_interrupted_again_and_again_is_finished_by_the_next(own: Own) -> None:
    for after_s in MOMENTS_S:
        _interrupt(own.start("up"), after_s)
    own.up()


@pytest.mark.parametrize("after_s", MOMENTS_S)
def test_an_interrupted_up_is_removed_by_down(own: Own, after_s: float) -> None:
    before = look()
    _interrupt(own.start("up"), after_s)
    own.down()
    assert own.remains() == []
    assert look() == before


def test_an_interrupted_down_is_finished_by_the_next(own: Own) -> None:
    own.up()
    _interrupt(own.start("down"), 0.5)
    own.down()
    assert own.remains() == []


def test_two_ups_at_once_make_one_cluster(own: Own) -> None:
    both = [own.start("up") for _ in range(2)]
    said = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum("waiting for it" in text for text in said) == 1, said
    assert sum("Starting the control plane" in text for text in said) == 1, said


def test_a_process_that_took_over_an_id_is_left_alone(own: Own) -> None:
    own.up()
    with subprocess.Popen(["sleep", "120"]) as bystander:
        file = own.folder / "machines" / "node3" / "pid"
        text = file.read_text()
        file.write_text(text.replace(str(process_one("node3", own.state)), str(bystander.pid)))
        own.down()
        assert bystander.poll() is None
        bystander.kill()


def _interrupt(process: "subprocess.Popen[str]", after_s: float) -> None:
    time.sleep(after_s)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
