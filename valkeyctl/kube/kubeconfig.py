"""Which API server to speak with, and as whom: kubeconfigs, and the service account of a Pod.

Kubeconfigs are read here, not by the official client: importing that costs 0.6 s of processor time, on the critical
path of every `up` (docs/adr/0020). The rules are kubectl's: several files in $KUBECONFIG are merged, the first to
name a thing wins, and relative paths are relative to the file that names them.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from valkeyctl.kube.errors import KubeconfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# A file reference of a kubeconfig entry is kept beside the folder it is relative to under this key.
_BASE = "\0base"


@dataclass(frozen=True)
class Target:
    """One API server and the credentials for it. Its repr shows neither key nor token.

    server          URL without a trailing slash
    origin          where this comes from, for messages: "context 'prod' of ~/.kube/config"
    ca_pem          certificates to trust, and no others; None: the system's
    user            the kubeconfig's user entry, with `_BASE` for relative paths; see credentials.py
    """

    server: str
    origin: str
    ca_pem: str | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    default_namespace: str = "default"
    cluster: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    user: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    raw: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    context: str | None = None


def resolve(kubeconfig: str | None, context: str | None) -> Target:
    """The target that `kubeconfig` (contents, a path, or None for the ambient one) and `context` name.

    Errors: KubeconfigError, saying which file or entry is missing and what to set.
    """
    if kubeconfig is not None and _is_contents(kubeconfig):
        return _from_document(_parse(kubeconfig, "the given kubeconfig", Path.cwd()), context, "the given kubeconfig")
    paths, origin = _paths(kubeconfig)
    found = [path for path in paths if path.is_file()]
    if not found:
        if kubeconfig is None and context is None and (SERVICE_ACCOUNT / "token").is_file():
            return in_cluster()
        raise KubeconfigError(
            f"no kubeconfig at {origin}. Name one in $KUBECONFIG or in the stack's connection, "
            "or run where Pods have a service account."
        )
    documents = [_parse(_read(path), str(path), path.resolve().parent) for path in found]
    return _from_document(_merge(documents), context, ", ".join(_short(path) for path in found))


def in_cluster() -> Target:
    """The target of a process that runs in a Pod with a service account."""
    folder = SERVICE_ACCOUNT
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise KubeconfigError("KUBERNETES_SERVICE_HOST is not set: this is no Pod, or its service links are off")
    namespace = folder / "namespace"
    return Target(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        origin="the Pod's service account",
        ca_pem=_read(folder / "ca.crt"),
        default_namespace=_read(namespace).strip() if namespace.is_file() else "default",
        user={"tokenFile": str(folder / "token")},
    )


def file_of(entry: Mapping[str, Any], key: str) -> Path | None:
    """The path under `key` of a kubeconfig entry, made absolute as kubectl does."""
    value = entry.get(key)
    return Path(str(entry.get(_BASE, "."))) / Path(str(value)).expanduser() if value else None


def data_of(entry: Mapping[str, Any], key: str, where: str) -> str | None:
    """The text under `<key>-data` (base64), else in the file under `key`; None where neither is given."""
    encoded = entry.get(f"{key}-data")
    if encoded:
        try:
            return base64.b64decode(str(encoded), validate=False).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{where}: {key}-data is not base64 of a PEM text") from error
    path = file_of(entry, key)
    return _read(path) if path else None


def _is_contents(text: str) -> bool:
    return "\n" in text or text.lstrip().startswith("{")


def _paths(kubeconfig: str | None) -> tuple[list[Path], str]:
    if kubeconfig is not None:
        return [Path(kubeconfig).expanduser()], kubeconfig
    ambient = os.environ.get("KUBECONFIG")
    if ambient:
        return [Path(part).expanduser() for part in ambient.split(os.pathsep) if part], f"$KUBECONFIG ({ambient})"
    return [Path("~/.kube/config").expanduser()], "~/.kube/config"


def _short(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except ValueError:
        return str(path)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"cannot read {path}: {error}") from error


def _parse(text: str, where: str, base: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - agents speak with the API server without a kubeconfig, and have no such library

    try:
        document: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The parser's own message quotes the text, which may hold a key.
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise KubeconfigError(f"{where} is not YAML{line}") from None
    if not isinstance(document, dict):
        raise KubeconfigError(f"{where} is no kubeconfig: it holds no mapping")
    parsed = cast("dict[str, Any]", document)
    for kind, inner in (("clusters", "cluster"), ("users", "user")):
        for entry in _entries(parsed, kind):
            if isinstance(entry.get(inner), dict):
                entry[inner][_BASE] = str(base)
    return parsed


def _entries(document: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    raw: object = document.get(kind) or []
    return [cast("dict[str, Any]", entry) for entry in cast("list[object]", raw) if isinstance(entry, dict)]


def _merge(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {"clusters": [], "users": [], "contexts": []}
    for document in documents:
        for kind in ("clusters", "users", "contexts"):
            known = {entry.get("name") for entry in merged[kind]}
            merged[kind] += [entry for entry in _entries(document, kind) if entry.get("name") not in known]
        if document.get("current-context"):
            merged.setdefault("current-context", document["current-context"])
    return merged


def _named(document: Mapping[str, Any], kind: str, name: object, inner: str, where: str) -> dict[str, Any]:
    for entry in _entries(document, kind):
        if entry.get("name") == name:
            return cast("dict[str, Any]", entry.get(inner) or {})
    names = sorted(str(entry.get("name")) for entry in _entries(document, kind))
    raise KubeconfigError(f"{where} has no {inner} '{name}'; it has: {', '.join(names) or 'none'}")


def _from_document(document: Mapping[str, Any], context: str | None, where: str) -> Target:
    name = context or document.get("current-context")
    if not name:
        names = sorted(str(entry.get("name")) for entry in _entries(document, "contexts"))
        raise KubeconfigError(f"{where} has no current context; name one of: {', '.join(names) or 'none'}")
    chosen = _named(document, "contexts", name, "context", where)
    cluster = _named(document, "clusters", chosen.get("cluster"), "cluster", where)
    user = _named(document, "users", chosen["user"], "user", where) if chosen.get("user") else {}
    origin = f"context '{name}' of {where}"
    server = str(cluster.get("server") or "").rstrip("/")
    if not server:
        raise KubeconfigError(f"{origin}: its cluster '{chosen.get('cluster')}' names no server")
    return Target(
        server=server,
        origin=origin,
        ca_pem=data_of(cluster, "certificate-authority", origin),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=cluster.get("tls-server-name"),
        proxy_url=cluster.get("proxy-url"),
        default_namespace=str(chosen.get("namespace") or "default"),
        cluster=cluster,
        user=user,
        raw=document,
        context=str(name),
    )
