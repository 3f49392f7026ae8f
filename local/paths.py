"""Where the local platform keeps what it makes.

Two folders, after the XDG base directory specification: a *cache* (built tools, images; keyed by their recipe, safe to
delete at any time, shared by all checkouts of a user) and a *state* (the one local cluster of this user: certificates,
data of etcd and containerd, logs, kubeconfig). Everything is computed anew on each call, so that a test or a script
can point both elsewhere through the environment.
"""

import os
from pathlib import Path

KUBE_CONTEXT = "valkey-local"
"""Name of the context in the kubeconfig of the local cluster."""


def cache_dir() -> Path:
    """Folder of everything that can be built again: `$XDG_CACHE_HOME/valkey-local`. Not created here."""
    return _base("XDG_CACHE_HOME", ".cache") / "valkey-local"


def state_dir() -> Path:
    """Folder of the local cluster: `$XDG_STATE_HOME/valkey-local`. Not created here."""
    return _base("XDG_STATE_HOME", ".local/state") / "valkey-local"


def builds_dir() -> Path:
    """Built tools, one folder for each tool and version (`<name>-<key>/`), complete or absent."""
    return cache_dir() / "builds"


def images_dir() -> Path:
    """Image archives, one file for each image and recipe (`<name>-<key>.tar`), complete or absent."""
    return cache_dir() / "images"


def bin_dir(key: str) -> Path:
    """The one folder to put on PATH for the tools of this checkout; `key` stands for all their versions."""
    return cache_dir() / f"bin-{key}"


def kubeconfig() -> Path:
    """Kubeconfig of the local cluster's administrator, with the context `KUBE_CONTEXT`."""
    return state_dir() / "kubeconfig"


def _base(variable: str, default: str) -> Path:
    # The specification says that a relative path in these variables is to be ignored.
    value = os.environ.get(variable, "")
    return Path(value) if value.startswith("/") else Path.home() / default
