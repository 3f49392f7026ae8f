"""Kubeconfigs: one for each component, which names its files, and the user's, which carries them."""

import base64
from pathlib import Path
from typing import Any

import yaml

from .layout import API_PORT, Layout


def of_component(layout: Layout, user: str) -> str:
    """For a component that runs in a machine. Its key stays in the one file that holds it."""
    pki = layout.pki
    cluster = {
        "server": f"https://{layout.control_plane_address}:{API_PORT}",
        "certificate-authority": str(pki / "ca.crt"),
    }
    credentials = {"client-certificate": str(pki / f"{user}.crt"), "client-key": str(pki / f"{user}.key")}
    return _kubeconfig(user, cluster, credentials)


def of_user(pki: Path, api_address: str, context: str) -> str:
    """For the administrator on the host; complete in itself, so that it can be copied or put into a variable."""
    cluster = {
        "server": f"https://{api_address}:{API_PORT}",
        "certificate-authority-data": _base64(pki / "ca.crt"),
    }
    credentials = {
        "client-certificate-data": _base64(pki / "admin.crt"),
        "client-key-data": _base64(pki / "admin.key"),
    }
    return _kubeconfig(context, cluster, credentials)


def _kubeconfig(name: str, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(config, sort_keys=False)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
