"""How a kubeconfig's user proves who it is: token, token file, certificate, password, plugin.

A plugin (`exec`, as EKS, GKE and AKS use it) is run here with a deadline, and its failure is reported, not logged and
passed over. The legacy `auth-provider` is left to the official client, which is imported only then.
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from valkeyctl.kube.errors import KubeconfigError
from valkeyctl.kube.kubeconfig import Target, data_of, file_of

EXEC_TIMEOUT_S = 30.0
# Bound tokens of Pods are renewed by the kubelet long before they expire; re-reading once a minute is enough.
TOKEN_FILE_TTL_S = 60.0
# A credential is renewed this long before it expires.
EXPIRY_MARGIN_S = 30.0


@dataclass(frozen=True)
class Credential:
    """What goes into a request. Its repr shows nothing secret."""

    authorization: str | None = field(default=None, repr=False)
    cert_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    expires_in_s: float | None = None


class Credentials:
    """A source of credentials that renews them when they run out. Thread-safe."""

    def __init__(self, fetch: Callable[[], Credential]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._current: Credential | None = None
        self._until = 0.0

    def current(self) -> Credential:
        """A credential that is valid now. Errors: KubeconfigError."""
        with self._lock:
            if self._current is None or time.monotonic() >= self._until:
                self._current = self._fetch()
                life = self._current.expires_in_s
                self._until = float("inf") if life is None else time.monotonic() + max(life - EXPIRY_MARGIN_S, 1.0)
            return self._current

    def renew(self) -> bool:
        """Drops what is cached, after a 401; False where nothing new can be had."""
        with self._lock:
            renewable = self._current is not None and self._current.expires_in_s is not None
            self._current = None
            return renewable


def credentials_of(target: Target) -> Credentials:
    """The credentials that the target's user entry describes; without any, anonymous."""
    user, where = target.user, target.origin
    if user.get("auth-provider"):
        return Credentials(lambda: _by_official_client(target))
    if user.get("token"):
        return Credentials(lambda: _with_certificate(user, where, f"Bearer {user['token']}"))
    if user.get("tokenFile"):
        return Credentials(lambda: _from_token_file(user, where))
    if user.get("exec"):
        return Credentials(lambda: _from_plugin(target, user["exec"]))
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}"
        basic = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return Credentials(lambda: _with_certificate(user, where, basic))
    return Credentials(lambda: _with_certificate(user, where, None))


def _with_certificate(user: Mapping[str, Any], where: str, authorization: str | None) -> Credential:
    return Credential(
        authorization, data_of(user, "client-certificate", where), data_of(user, "client-key", where), None
    )


def _from_token_file(user: Mapping[str, Any], where: str) -> Credential:
    path = file_of(user, "tokenFile")
    try:
        token = path.read_text().strip() if path else ""
    except OSError as error:
        raise KubeconfigError(f"{where}: cannot read its token file: {error}") from error
    return Credential(f"Bearer {token}", expires_in_s=TOKEN_FILE_TTL_S + EXPIRY_MARGIN_S)


def _from_plugin(target: Target, spec: Mapping[str, Any]) -> Credential:
    command = str(spec.get("command") or "")
    base = file_of({**target.user, "here": "."}, "here")
    arguments = [str(argument) for argument in spec.get("args") or []]
    where = f"{target.origin}: its credential plugin '{command}'"
    try:
        done = subprocess.run(
            [command, *arguments],
            env=_plugin_environment(target, spec),
            cwd=base,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=EXEC_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        hint = str(spec.get("installHint") or "").strip()
        raise KubeconfigError(f"{where} is not installed. {hint}".rstrip()) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        told = f"gave no answer in {EXEC_TIMEOUT_S:.0f} s" if isinstance(error, subprocess.TimeoutExpired) else error
        raise KubeconfigError(f"{where} failed: {told}") from error
    if done.returncode != 0:
        # Only standard error is shown: standard output is where the token is.
        raise KubeconfigError(f"{where} exited with {done.returncode}: {done.stderr.strip()[-500:]}")
    try:
        status: dict[str, Any] = json.loads(done.stdout)["status"]
    except (ValueError, KeyError, TypeError) as error:
        raise KubeconfigError(f"{where} did not print an ExecCredential") from error
    token = status.get("token")
    if not token and not status.get("clientCertificateData"):
        raise KubeconfigError(f"{where} gave neither token nor certificate")
    return Credential(
        f"Bearer {token}" if token else None,
        status.get("clientCertificateData"),
        status.get("clientKeyData"),
        _life_s(status.get("expirationTimestamp")),
    )


def _plugin_environment(target: Target, spec: Mapping[str, Any]) -> dict[str, str]:
    info: dict[str, Any] = {"interactive": False}
    if spec.get("provideClusterInfo"):
        shown = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
        cluster: dict[str, Any] = {key: target.cluster[key] for key in shown if key in target.cluster}
        for extension in target.cluster.get("extensions") or []:
            if extension.get("name") == "client.authentication.k8s.io/exec":
                cluster["config"] = extension.get("extension")
        info["cluster"] = cluster
    request = {"apiVersion": spec.get("apiVersion"), "kind": "ExecCredential", "spec": info}
    extra = {str(item["name"]): str(item["value"]) for item in spec.get("env") or []}
    return {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(request)}


def _life_s(timestamp: str | None) -> float | None:
    if not timestamp:
        return None
    end = datetime.datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    return (end - datetime.datetime.now(tz=datetime.UTC)).total_seconds()


def _by_official_client(target: Target) -> Credential:
    from kubernetes import client, config  # noqa: PLC0415 - half a second, paid only by users of `auth-provider`

    settings = client.Configuration()
    try:
        config.load_kube_config_from_dict(
            dict(target.raw), context=target.context, client_configuration=settings, persist_config=False
        )
    except config.ConfigException as error:
        raise KubeconfigError(f"{target.origin}: {error}") from error
    token = settings.api_key.get("BearerToken")
    if not token:
        raise KubeconfigError(f"{target.origin}: its auth-provider gave no token; use a credential plugin instead")
    return Credential(str(token), expires_in_s=TOKEN_FILE_TTL_S + EXPIRY_MARGIN_S)
