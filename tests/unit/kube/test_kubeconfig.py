"""Kubeconfigs as people have them: several files, relative paths, plugins; and what is said of broken ones."""

import base64
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from valkeyctl.kube import kubeconfig
from valkeyctl.kube.credentials import Credentials, credentials_of
from valkeyctl.kube.errors import KubeconfigError
from valkeyctl.kube.kubeconfig import in_cluster, resolve


def config(
    name: str = "a", *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443/", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {"token": f"token-{name}"}}],
    }


def written(path: Path, *configs: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump(configs[0]))
    return str(path)


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path / "no-service-account")


def test_contents_and_path_are_told_apart(tmp_path: Path) -> None:
    path = written(tmp_path / "k", config())
    for given in (path, Path(path).read_text(), json.dumps(config())):
        target = resolve(given, None)
        assert target.server == "https://a:6443"
        assert target.default_namespace == "ns-a"


def test_a_context_is_pinned_whatever_the_current_one_is(tmp_path: Path) -> None:
    both = config("a")
    other = config("b")
    for kind in ("contexts", "clusters", "users"):
        both[kind] += other[kind]
    assert resolve(written(tmp_path / "k", both), "b").server == "https://b:6443"


def test_files_of_the_environment_are_merged_and_the_first_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = config("a"), config("b")
    second["clusters"] += [{"name": "a", "cluster": {"server": "https://shadowed"}}]
    files = [written(tmp_path / "1", first), str(tmp_path / "missing"), written(tmp_path / "2", second)]
    monkeypatch.setenv("KUBECONFIG", ":".join(files))
    assert resolve(None, None).server == "https://a:6443"
    assert resolve(None, "b").server == "https://b:6443"


def test_relative_paths_are_relative_to_the_file_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "ca.pem").write_text("the CA")
    (folder / "token").write_text("the token\n")
    written(folder / "k", config(user={"tokenFile": "token"}, cluster={"certificate-authority": "ca.pem"}))
    monkeypatch.chdir(tmp_path)
    target = resolve("deep/k", None)
    assert target.ca_pem == "the CA"
    assert credentials_of(target).current().authorization == "Bearer the token"


def test_data_wins_over_files_and_is_decoded(tmp_path: Path) -> None:
    encoded = base64.b64encode(b"the CA").decode()
    target = resolve(
        json.dumps(config(cluster={"certificate-authority-data": encoded, "tls-server-name": "k8s"})), None
    )
    assert target.ca_pem == "the CA"
    assert target.tls_server_name == "k8s"


def test_a_pod_uses_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("token", "t1"), ("ca.crt", "CA"), ("namespace", "mine")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path)
    target = in_cluster()
    assert (target.server, target.ca_pem, target.default_namespace) == ("https://[fd00::1]:443", "CA", "mine")
    assert credentials_of(target).current().authorization == "Bearer t1"
    assert resolve(None, None).server == "https://[fd00::1]:443"


BROKEN: dict[str, tuple[str, str | None, str]] = {
    "no file": ("/does/not/exist", None, "no kubeconfig at /does/not/exist"),
    "no YAML": ("a: [\n", None, "not YAML"),
    "no mapping": ("- a\n- b\n", None, "holds no mapping"),
    "no such context": (json.dumps(config()) + "\n", "prod", "has no context 'prod'; it has: a"),
    "no current context": (json.dumps({**config(), "current-context": ""}), None, "no current context; name one of: a"),
    "no such cluster": (json.dumps({**config(), "clusters": []}), None, "has no cluster 'a'; it has: none"),
    "no such user": (json.dumps({**config(), "users": []}), None, "has no user 'a'"),
    "no server": (json.dumps(config(cluster={"server": ""})), None, "names no server"),
    "CA is no base64": (json.dumps(config(cluster={"certificate-authority-data": "%%%x"})), None, "not base64"),
    "CA file missing": (json.dumps(config(cluster={"certificate-authority": "/none"})), None, "cannot read /none"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_said(case: str) -> None:
    text, context, told = BROKEN[case]
    with pytest.raises(KubeconfigError) as raised:
        resolve(text, context)
    assert told in str(raised.value)


def test_a_broken_file_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("users:\n- name: a\n  user: {token: 'very-secret'\n")
    with pytest.raises(KubeconfigError) as raised:
        resolve(str(tmp_path / "k"), None)
    assert "very-secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_nothing_secret_is_shown() -> None:
    secrets = {"token": "tok-secret", "password": "pw-secret", "client-key-data": "a2V5LXNlY3JldA=="}
    target = resolve(json.dumps(config(user={"username": "u", **secrets})), None)
    shown = f"{target!r}{target}{credentials_of(target).current()!r}"
    for secret in ("tok-secret", "pw-secret", "key-secret", "a2V5LXNlY3JldA"):
        assert secret not in shown


def test_basic_authentication() -> None:
    target = resolve(json.dumps(config(user={"username": "u", "password": "p"})), None)
    assert credentials_of(target).current().authorization == "Basic " + base64.b64encode(b"u:p").decode()


def plugin(tmp_path: Path, body: str, **spec: Any) -> Credentials:
    script = tmp_path / "plugin"
    script.write_text(f"#!{sys.executable}\nimport json, os, sys\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), **spec}
    return credentials_of(resolve(json.dumps(config(user={"exec": entry})), None))


_ANSWER = "print(json.dumps({'apiVersion': 'x', 'kind': 'ExecCredential', 'status': {%s}}))"


def test_a_plugin_gives_a_token_and_gets_arguments_and_environment(tmp_path: Path) -> None:
    body = (
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "assert info['spec']['cluster']['server'] == 'https://a:6443/', info\n"
        "assert sys.argv[1:] == ['get', 'token'] and os.environ['REGION'] == 'north'\n" + _ANSWER % "'token': 'T'"
    )
    given = {"args": ["get", "token"], "env": [{"name": "REGION", "value": "north"}], "provideClusterInfo": True}
    assert plugin(tmp_path, body, **given).current().authorization == "Bearer T"


def test_a_plugin_is_asked_again_when_its_token_runs_out(tmp_path: Path) -> None:
    count = tmp_path / "count"
    body = (
        f"f = open({str(count)!r}, 'a'); f.write('x'); f.close()\n"
        "expiry = '2020-01-01T00:00:00Z' if os.path.getsize("
        + repr(str(count))
        + ") < 2 else '2999-01-01T00:00:00Z'\n"
        + _ANSWER % f"'token': str(os.path.getsize({str(count)!r})), 'expirationTimestamp': expiry"
    )
    credentials = plugin(tmp_path, body)
    assert credentials.current().authorization == "Bearer 1"
    assert credentials.renew() is True
    assert credentials.current().authorization == "Bearer 2"
    assert credentials.current().authorization == "Bearer 2"
    assert len(count.read_text()) == 2


FAILING: dict[str, tuple[str, str]] = {
    "exits": ("sys.stderr.write('please log in'); print('secret'); sys.exit(3)", "exited with 3: please log in"),
    "prints nonsense": ("print('hello')", "did not print an ExecCredential"),
    "gives nothing": (_ANSWER % "", "gave neither token nor certificate"),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_plugin_that_fails_is_reported(tmp_path: Path, case: str) -> None:
    body, told = FAILING[case]
    with pytest.raises(KubeconfigError) as raised:
        plugin(tmp_path, body).current()
    assert told in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_plugin_that_is_not_installed_is_named_with_its_hint() -> None:
    spec = {"command": "no-such-plugin", "installHint": "Get it from the vendor.", "apiVersion": "v1"}
    target = resolve(json.dumps(config(user={"exec": spec})), None)
    with pytest.raises(KubeconfigError, match=r"'no-such-plugin' is not installed\. Get it from the vendor\."):
        credentials_of(target).current()


def test_the_legacy_auth_provider_is_served_by_the_official_client() -> None:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": 4102444800}).encode()).rstrip(b"=").decode()
    while len(payload) % 4 == 1:
        payload += "A"
    token = f"header.{payload}.signature"
    provider = {"name": "oidc", "config": {"id-token": token, "idp-issuer-url": "https://issuer"}}
    target = resolve(json.dumps(config(user={"auth-provider": provider})), None)
    assert credentials_of(target).current().authorization == f"Bearer {token}"
