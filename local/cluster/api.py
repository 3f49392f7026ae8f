"""The few calls of the Kubernetes API that the platform itself makes, as its administrator."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .layout import API_PORT

_PLURALS = {"StorageClass": "storageclasses", "EndpointSlice": "endpointslices"}
FIELD_MANAGER = "valkey-local"


class ApiError(Exception):
    """The API server can't be reached, or it refused."""


@dataclass(frozen=True)
class Api:
    """The API server of one cluster. Each call is a connection of its own: they are few, and some come too early."""

    address: str
    pki: Path
    timeout_s: float = 10.0

    def get(self, path: str) -> Any:
        """The answer as JSON, or as text where it is no JSON. Raises ApiError."""
        return self._call("GET", path)

    def apply(self, manifest: Mapping[str, Any]) -> None:
        """Server-side apply: create it or bring it to what is declared. Idempotent. Raises ApiError."""
        path = f"{path_of(manifest)}?fieldManager={FIELD_MANAGER}&force=true"
        self._call("PATCH", path, json.dumps(manifest), {"Content-Type": "application/apply-patch+yaml"})

    def delete(self, path: str) -> None:
        self._call("DELETE", path)

    def _call(self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> Any:
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        try:
            context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
            connection = http.client.HTTPSConnection(self.address, API_PORT, timeout=self.timeout_s, context=context)
            try:
                connection.request(method, path, body, dict(headers or {}))
                response = connection.getresponse()
                answer = response.read().decode()
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(f"the API server at {self.address}:{API_PORT} doesn't answer: {error}") from error
        if response.status >= 300:
            raise ApiError(f"{method} {path}: {response.status} {_message(answer)}")
        try:
            return json.loads(answer)
        except ValueError:
            return answer


def path_of(manifest: Mapping[str, Any]) -> str:
    """The path of an object in the API."""
    version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
    metadata = manifest["metadata"]
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    return f"{prefix}{namespace}/{plural}/{metadata['name']}"


def _message(answer: str) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.strip()[:300]
