"""Changed settings and passwords with real servers: applied without a restart, or refused as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import valkey

from tests.agent.sync_scene import NAMESPACE, PACE, Place, Scene, eventually
from tests.dataplane.servers import LINES
from tests.unit.kube.fake_api import FakeApi

POLICY = "maxmemory-policy"


@pytest.fixture(params=LINES)
def line(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    server = FakeApi()
    yield server
    server.close()


@pytest.fixture
def scene(fake: FakeApi, tmp_path: Path, line: str) -> Iterator[Scene]:
    with Scene(fake, tmp_path, line) as made:
        yield made


def test_a_changed_setting_is_live_and_in_the_file_and_a_removed_one_goes_back_to_its_default(scene: Scene) -> None:
    scene.start({POLICY: "allkeys-lru", "slowlog-max-len": "77"})
    place = scene.place
    assert (place.told(POLICY), place.told("slowlog-max-len")) == ("allkeys-lru", "77")
    process = place.process
    scene.declare({POLICY: "volatile-ttl", "client-output-buffer-limit": "replica 100mb 50mb 60"})
    eventually(lambda: place.told(POLICY) == "volatile-ttl", lambda: scene.logs)
    assert place.told("slowlog-max-len") == "128", "the server's default, where it was taken out"
    assert "slave 104857600 52428800 60" in place.told("client-output-buffer-limit")
    eventually(lambda: place.written(POLICY) == "volatile-ttl")
    assert place.written("slowlog-max-len") is None
    assert process is not None
    assert process.poll() is None, "no restart"
    place.restart()
    assert (place.told(POLICY), place.told("slowlog-max-len")) == ("volatile-ttl", "128")


def test_what_the_server_refuses_is_reported_in_its_words_and_nothing_of_it_is_in_effect(scene: Scene) -> None:
    scene.start({POLICY: "allkeys-lru"})
    place = scene.place
    scene.declare({POLICY: "noeviction", "hz": "33"}, raw={"slowlog-max-len": "many"})
    eventually(scene.events, lambda: scene.logs)
    event = scene.events()[0]
    assert (event["type"], event["reason"]) == ("Warning", "SettingsRefused")
    assert event["involvedObject"]["name"] == place.environment.pod
    assert event["involvedObject"]["namespace"] == NAMESPACE
    assert "'slowlog-max-len'" in event["message"], "the server's own words name the setting"
    assert (place.told(POLICY), place.told("hz")) == ("allkeys-lru", "10")
    assert (place.written(POLICY), place.written("hz")) == ("allkeys-lru", None)
    place.restart()
    assert place.told(POLICY) == "allkeys-lru", "nor does it come in by a restart"
    scene.declare({POLICY: "noeviction", "hz": "33"})
    eventually(lambda: (place.told(POLICY), place.told("hz")) == ("noeviction", "33"), lambda: scene.logs)
    assert len(scene.events()) == 1, "said once"


def test_what_was_changed_by_hand_is_set_back(scene: Scene) -> None:
    scene.start({POLICY: "allkeys-lru"})
    eventually(lambda: "has the declared settings" in scene.logs)
    with scene.place.client(scene.password) as client:
        client.config_set(POLICY, "noeviction")
        client.config_set("cluster-allow-replica-migration", "yes")
        client.config_set("slowlog-max-len", "5")
    eventually(lambda: scene.place.told(POLICY) == "allkeys-lru", lambda: scene.logs)
    assert scene.place.told("cluster-allow-replica-migration") == "no"
    assert scene.place.told("slowlog-max-len") == "5", "what nobody declares is everybody's own business"
    assert "changed by hand" in scene.logs


def test_more_memory_than_the_pod_has_waits_for_the_next_pod(scene: Scene) -> None:
    scene.variables["SERVER_MEMORY_LIMIT"] = str(100 << 20)
    scene.start({"maxmemory": "50mb"})
    scene.declare({"maxmemory": "200mb", "hz": "44"})
    eventually(lambda: scene.place.told("hz") == "44", lambda: scene.logs)
    assert scene.place.told("maxmemory") == str(50 << 20)
    scene.place.restart()
    assert scene.place.told("maxmemory") == str(50 << 20)
    assert "doesn't fit this Pod" in scene.logs


def test_a_changed_configmap_waits_for_a_server_that_is_down(scene: Scene) -> None:
    scene.start({POLICY: "allkeys-lru"})
    scene.place.kill()
    scene.declare({POLICY: "noeviction"})
    eventually(lambda: "could not be asked" in scene.logs)
    assert scene.place.written(POLICY) == "allkeys-lru"
    scene.place.start()
    eventually(lambda: scene.place.told(POLICY) == "noeviction", lambda: scene.logs)


def test_an_emptied_configmap_or_secret_changes_nothing(scene: Scene) -> None:
    scene.start({POLICY: "allkeys-lru"})
    scene.fake.put(f"/api/v1/namespaces/{NAMESPACE}/configmaps/sessions-config", {"metadata": {}, "data": {}})
    scene.fake.put(f"/api/v1/namespaces/{NAMESPACE}/secrets/sessions-auth", {"metadata": {}, "data": {}})
    eventually(lambda: "the password stays" in scene.logs)
    time.sleep(1)
    assert scene.place.told(POLICY) == "allkeys-lru"
    assert scene.place.serves()


@pytest.mark.parametrize("second", [b"second", b" \"\\x'\n\xff\x00 "], ids=["letters", "any bytes"])
def test_a_changed_password_is_taken_under_load_and_nobody_is_locked_out(
    fake: FakeApi, tmp_path: Path, line: str, second: bytes
) -> None:
    with Scene(fake, tmp_path, line, members=2) as scene:
        scene.start({})
        primary, replica = scene.places
        first = scene.password
        with replica.client(first) as client:
            client.execute_command("REPLICAOF", primary.address, primary.environment.client_port)
        with replica.client(first) as client:
            eventually(lambda: client.info("replication")["master_link_status"] == "up")
        ended, failures, written = threading.Event(), list[Exception](), [0]

        def load() -> None:
            """One client that stays, and one that comes anew each time with what the Secret says before the change."""
            with primary.client(first) as staying:
                while not ended.is_set():
                    try:
                        staying.incr("staying")
                        if time.monotonic() < until[0]:
                            with primary.client(first) as coming:
                                coming.incr("coming")
                    except valkey.ValkeyError as error:
                        failures.append(error)
                    written[0] += 1

        until = [float("inf")]
        loader = threading.Thread(target=load, daemon=True)
        loader.start()
        changed_at = time.monotonic()
        scene.keep(second)
        eventually(lambda: accepts(primary, second) and accepts(replica, second), lambda: scene.logs)
        # The former one is good for `old_s` more at least; whoever comes later has had the time to read the Secret.
        until[0] = changed_at + PACE.old_s / 2
        eventually(lambda: replica.found("primaryauth") == second, lambda: scene.logs)
        eventually(lambda: not accepts(primary, first) and not accepts(replica, first), lambda: scene.logs)
        assert time.monotonic() - changed_at >= PACE.old_s
        ended.set()
        loader.join(10)
        assert failures == []
        assert written[0] > 0
        with replica.client(second) as client:
            told = client.info("replication")
            assert told["master_link_status"] == "up"
            assert int(told["master_sync_in_progress"]) == 0
        with primary.client(second) as client:
            count = client.get("staying")
            assert client.execute_command("CLIENT", "KILL", "TYPE", "replica") == 1
            assert client.info("stats")["sync_full"] == 1, "replication was never begun anew"
        # The replica signs in again, with the new password: there is no other any more.
        with replica.client(second) as client:
            eventually(lambda: client.info("replication")["master_link_status"] == "up", lambda: scene.logs)
            assert client.execute_command("GET", "staying") == count
        for place in scene.places:
            place.restart()
            assert accepts(place, second)
            assert not accepts(place, first)
        for secret in (first, second):
            assert secret.decode(errors="replace") not in scene.logs
            for place in scene.places:
                assert secret not in (place.folder / "run" / "users.acl").read_bytes()


def test_the_former_password_stays_while_a_member_has_not_heard_of_the_new_one(fake: FakeApi, tmp_path: Path) -> None:
    with Scene(fake, tmp_path, LINES[0], members=2) as scene:
        scene.start({})
        told, deaf = scene.places
        first = scene.password
        # Its agent is frozen: it goes on with what it had.
        deaf.stopping.set()
        assert deaf.thread is not None
        deaf.thread.join(10)
        scene.keep(b"second")
        eventually(lambda: accepts(told, b"second"), lambda: scene.logs)
        time.sleep(PACE.old_s + 1)
        assert accepts(told, first)
        assert told.found("primaryauth") == b"first", "the deaf one would refuse the new one"
        deaf.stopping.clear()
        deaf.sync(fake, scene.variables)
        eventually(lambda: not accepts(told, first) and not accepts(deaf, first), lambda: scene.logs)
        assert told.found("primaryauth") == b"second"


def accepts(place: Place, password: bytes) -> bool:
    try:
        with place.client(password) as client:
            return bool(client.ping())
    except valkey.ValkeyError:
        return False
