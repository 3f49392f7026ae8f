"""Requests: errors translated at the edge, time bounded, nothing secret in what is shown."""

import json
import socket
import time
from pathlib import Path

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.kube import access
from valkeyctl.kube.access import Api, connect, path_of
from valkeyctl.kube.errors import (
    ApiBusy,
    ApiConflict,
    ApiError,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiUnreachable,
    KubeError,
)

PATH = "/api/v1/namespaces/valkey/configmaps/one"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ApiInvalid),
        (401, ApiForbidden),
        (403, ApiForbidden),
        (404, ApiNotFound),
        (409, ApiConflict),
        (418, ApiError),
        (422, ApiInvalid),
        (429, ApiBusy),
        (500, ApiBusy),
        (503, ApiBusy),
    ],
)
def test_each_status_has_its_error(api: Api, fake: FakeApi, status: int, kind: type[ApiError]) -> None:
    fake.fault = lambda _method, _path: status
    with pytest.raises(ApiError) as raised:
        api.get(PATH)
    assert type(raised.value) is kind
    assert raised.value.status == status
    told = str(raised.value)
    assert "GET /api/v1/namespaces/valkey/configmaps/one" in told
    assert "context 'fake' of the given kubeconfig" in told
    assert "not-so-secret-token" not in told


def test_find_tells_absent_from_everything_else(api: Api, fake: FakeApi) -> None:
    assert api.find(PATH) is None
    fake.fault = lambda _method, _path: 403
    with pytest.raises(ApiForbidden):
        api.find(PATH)


def test_nobody_listening_is_unreachable_at_once_and_says_where(api: Api, fake: FakeApi) -> None:
    fake.close()
    began = time.monotonic()
    with pytest.raises(ApiUnreachable) as raised:
        api.get(PATH)
    assert time.monotonic() - began < 2
    assert fake.url in str(raised.value)
    assert "refused" in str(raised.value)
    assert isinstance(raised.value, KubeError)
    assert not isinstance(raised.value, ApiError)


def test_silence_is_bounded_and_not_waited_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "READ_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k"}}],
            "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}],
        }
        api = connect(json.dumps(config), None)
        began = time.monotonic()
        with pytest.raises(ApiUnreachable, match="gave no answer"):
            api.get(PATH)
        assert 0.4 < time.monotonic() - began < 2
        began = time.monotonic()
        with pytest.raises(ApiUnreachable, match="gave no answer"):
            api.get(PATH)
        assert time.monotonic() - began < 0.1


def test_a_patient_reader_outlasts_a_busy_server(api: Api, fake: FakeApi) -> None:
    fake.put(PATH, {})
    until = time.monotonic() + 0.6
    fake.fault = lambda _method, _path: 503 if time.monotonic() < until else None
    with pytest.raises(ApiBusy):
        api.get(PATH)
    assert api.patient(5).get(PATH)["metadata"]["name"] == "one"


def test_writes_are_sent_once(api: Api, fake: FakeApi) -> None:
    fake.fault = lambda _method, _path: 503
    with pytest.raises(ApiBusy):
        api.patient(5).merge(PATH, {})
    assert [method for method, _ in fake.seen] == ["PATCH"]


def test_an_answer_that_is_no_json_is_not_a_kubernetes(
    api: Api, fake: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.put(PATH, {})
    monkeypatch.setattr("tests.unit.kube.fake_api.json.dumps", lambda _answer: "<html>hello</html>")
    with pytest.raises(ApiUnreachable, match="is it a Kubernetes API server"):
        api.get(PATH)


def test_collections_are_read_page_by_page(api: Api, fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "PAGE", 2)
    for number in range(5):
        fake.put(f"/api/v1/namespaces/valkey/configmaps/c{number}", {})
    found = api.items("/api/v1/namespaces/valkey/configmaps")
    assert [item["metadata"]["name"] for item in found] == [f"c{number}" for number in range(5)]
    assert len(fake.seen) == 3


def test_deleting_is_idempotent_and_spares_a_successor(api: Api, fake: FakeApi) -> None:
    assert api.delete(PATH) is False
    first = fake.put(PATH, {})["metadata"]["uid"]
    fake.put(PATH, {"metadata": {"uid": "successor"}})
    with pytest.raises(ApiConflict):
        api.delete(PATH, uid=first)
    assert PATH in fake.objects
    assert api.delete(PATH, uid="successor") is True


def test_the_user_agent_and_token_are_sent(api: Api, fake: FakeApi) -> None:
    fake.put(PATH, {})
    api.get(PATH)
    assert fake.headers[0]["authorization"] == "Bearer not-so-secret-token"
    assert fake.headers[0]["user-agent"] == "valkeyctl"


def test_nothing_secret_is_shown(api: Api) -> None:
    for shown in (repr(api), repr(api.target), str(api.target), repr(api.__dict__)):
        assert "not-so-secret-token" not in shown


def test_a_foreign_ca_in_the_environment_changes_nothing(
    api: Api, fake: FakeApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = tmp_path / "other-ca.pem"
    bundle.write_text("no certificate")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    fake.put(PATH, {})
    assert connect(fake.kubeconfig, None).get(PATH)["metadata"]["name"] == "one"


def test_paths() -> None:
    assert path_of("v1", "namespaces", None, "a") == "/api/v1/namespaces/a"
    assert path_of("apps/v1", "statefulsets", "a") == "/apis/apps/v1/namespaces/a/statefulsets"
    assert path_of("v1", "pods", "a b", "c/d") == "/api/v1/namespaces/a%20b/pods/c%2Fd"
