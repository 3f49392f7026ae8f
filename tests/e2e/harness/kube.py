"""A small client of the API server: JSON in, JSON out, and commands in Pods."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import urllib3
from kubernetes import client, config

from tests.e2e.harness.environment import environment

Object = dict[str, Any]
T = TypeVar("T")

GROUPS = {
    "configmaps": "/api/v1",
    "endpoints": "/api/v1",
    "events": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "pods": "/api/v1",
    "resourcequotas": "/api/v1",
    "secrets": "/api/v1",
    "serviceaccounts": "/api/v1",
    "services": "/api/v1",
    "controllerrevisions": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
}
"""Namespaced kinds, by their plural, that an instance or Kubernetes itself makes in its namespace."""


class KubeError(Exception):
    """The API server said no; `status` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True)
class Executed:
    """What a command in a Pod did."""

    code: int
    out: str
    err: str


class Kube:
    """One connection pool to the API server of the local cluster, as its administrator."""

    def __init__(self) -> None:
        self.kubeconfig = environment()["KUBECONFIG"]
        api = config.new_client_from_config(config_file=self.kubeconfig)
        settings: client.Configuration = api.configuration
        self._host: str = settings.host
        self._pool = urllib3.PoolManager(
            num_pools=2,
            maxsize=8,
            ca_certs=settings.ssl_ca_cert,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
        )

    def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json", **query: object
    ) -> Object:
        """One request; raises KubeError for an answer that is no success."""
        answer = self._ask(method, path, body, content_type, query)
        if answer.status >= 300:
            raise KubeError(answer.status, answer.data.decode(errors="replace")[:2000])
        return json.loads(answer.data)

    def text(self, path: str, **query: object) -> str:
        """What a path that is no JSON holds, such as a log; on an error what the API server says about it."""
        return self._ask("GET", path, None, "application/json", query).data.decode(errors="replace")

    def _ask(
        self, method: str, path: str, body: object, content_type: str, query: Mapping[str, object]
    ) -> urllib3.BaseHTTPResponse:
        url = f"{self._host}{path}" + (f"?{urlencode(query)}" if query else "")
        return self._pool.request(
            method,
            url,
            body=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": content_type, "Accept": "*/*"},
            timeout=urllib3.Timeout(connect=5, read=30),
            retries=urllib3.Retry(2, allowed_methods=["GET"]),
        )

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object, or None when there is none of that name."""
        try:
            return self.request("GET", self.path(kind, namespace, name))
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def items(self, kind: str, namespace: str, selector: str = "") -> list[Object]:
        """All objects of a kind in a namespace; none when the namespace does not exist."""
        query = {"labelSelector": selector} if selector else {}
        return self.request("GET", self.path(kind, namespace), **query)["items"]

    def create(self, kind: str, namespace: str, body: Mapping[str, Any]) -> Object:
        return self.request("POST", self.path(kind, namespace), body)

    def patch(self, kind: str, namespace: str, name: str, body: Mapping[str, Any]) -> Object:
        """A JSON merge patch."""
        return self.request("PATCH", self.path(kind, namespace, name), body, "application/merge-patch+json")

    def delete(self, kind: str, namespace: str, name: str, *, grace_s: int | None = None, orphan: bool = False) -> None:
        """Delete; an object that is gone already is no error. `orphan`: what it owns stays."""
        options: Object = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        if orphan:
            options["propagationPolicy"] = "Orphan"
        try:
            self.request("DELETE", self.path(kind, namespace, name), options)
        except KubeError as error:
            if error.status != 404:
                raise

    def namespace(self, name: str) -> Object | None:
        try:
            return self.request("GET", f"/api/v1/namespaces/{name}")
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def create_namespace(self, name: str, **labels: str) -> Object:
        return self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})

    def delete_namespace(self, name: str) -> None:
        """Ask for its deletion; it and all in it go in the background."""
        try:
            self.request("DELETE", f"/api/v1/namespaces/{name}")
        except KubeError as error:
            if error.status not in (404, 409):
                raise

    def execute(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str = "server",
        stdin: str | None = None,
        timeout_s: float = 30,
    ) -> Executed:
        """Run a command in a container, as `kubectl exec` does. A failing command is no error here."""
        interactive = ["-i"] if stdin is not None else []
        arguments = ["exec", *interactive, "-n", namespace, pod, "-c", container, "--", *command]
        return _kubectl(arguments, stdin=stdin, timeout_s=timeout_s)

    def execute_again(self, namespace: str, pod: str, command: Sequence[str], **more: Any) -> Executed:
        """As `execute`, for a command that always says something and may be run again.

        Under load kubectl has been seen to end well without a word of what a command said.
        """
        done = self.execute(namespace, pod, command, **more)
        return done if done.out or done.code else self.execute(namespace, pod, command, **more)

    def by_hand(self, namespace: str, *arguments: str) -> None:
        """Run kubectl as a person does: what it writes is then its own, which a request of this client's is not.

        AssertionError where it fails.
        """
        done = _kubectl(["-n", namespace, *arguments])
        assert done.code == 0, f"kubectl {' '.join(arguments)}: {done.err}"

    def snapshot(self, namespace: str) -> dict[str, str]:
        """Every object of the namespace with its resource version: equal snapshots mean that nobody wrote anything.

        Left out is what controllers write by themselves all the time.
        """
        kinds = [kind for kind in GROUPS if kind not in ("events", "endpoints", "endpointslices")]
        return {
            f"{kind}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
            for kind in kinds
            for item in self.items(kind, namespace)
            # Controllers put these into every new namespace, a moment later.
            if (kind, item["metadata"]["name"])
            not in (("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default"))
        }

    @staticmethod
    def path(kind: str, namespace: str, name: str = "") -> str:
        """The path of a kind's collection, or of one object."""
        collection = f"{GROUPS[kind]}/namespaces/{quote(namespace)}/{kind}"
        return f"{collection}/{quote(name)}" if name else collection


def _kubectl(arguments: Sequence[str], *, stdin: str | None = None, timeout_s: float = 30) -> Executed:
    done = subprocess.run(
        ["kubectl", *arguments],
        env=environment(),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    return Executed(done.returncode, done.stdout, done.stderr)


def eventually(what: str, ask: Callable[[], T | None], *, timeout_s: float, pause_s: float = 0.3) -> T:
    """Ask until the answer is neither None nor False, and return it; AssertionError when the time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = ask()
        if answer is not None and answer is not False:
            return answer
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(pause_s)
