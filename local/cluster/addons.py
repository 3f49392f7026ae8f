"""The objects that a new cluster is given. Pure."""

from pathlib import Path
from string import Template
from typing import Any

import yaml

from .layout import DNS_SERVICE, STORAGE_CLASS, VOLUME_PROVISIONER, Layout

_MANIFESTS = Path(__file__).with_name("addons.yaml")


def manifests(layout: Layout) -> list[dict[str, Any]]:
    text = Template(_MANIFESTS.read_text()).substitute(
        dns_service=str(DNS_SERVICE),
        dns_endpoint=str(layout.control_plane_address),
        storage_class=STORAGE_CLASS,
        volume_provisioner=VOLUME_PROVISIONER,
    )
    return list(yaml.safe_load_all(text))
