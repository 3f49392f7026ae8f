"""Docker archives: what `ctr images import` and `docker load` read. Written here, and read for their names."""

import hashlib
import io
import json
import platform
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import layer
from .recipes import Config

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def image_config(config: Config, digest: str) -> dict[str, Any]:
    """The image's configuration (OCI image specification) for one layer with this digest."""
    created = datetime.fromtimestamp(layer.epoch(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run: dict[str, Any] = {"Env": list(config.environment)}
    if config.entrypoint:
        run["Entrypoint"] = list(config.entrypoint)
    if config.command:
        run["Cmd"] = list(config.command)
    if config.ports:
        run["ExposedPorts"] = {port: {} for port in config.ports}
    if config.volumes:
        run["Volumes"] = {volume: {} for volume in config.volumes}
    if config.folder:
        run["WorkingDir"] = config.folder
    if config.user:
        run["User"] = config.user
    return {
        "created": created,
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": created, "created_by": "valkey-local"}],
    }


def write(target: Path, refs: tuple[str, ...], config: Config, layer_file: Path, digest: str) -> None:
    """Write an archive of one image with one layer, under all these names."""
    described = json.dumps(image_config(config, digest), sort_keys=True).encode()
    config_name = f"{hashlib.sha256(described).hexdigest()}.json"
    layer_name = f"{digest}/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": list(refs), "Layers": [layer_name]}]
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        # The names come first, so that reading them takes no look at the rest.
        _add(tar, "manifest.json", json.dumps(manifest).encode())
        _add(tar, config_name, described)
        entry = _entry(layer_name, layer_file.stat().st_size)
        with layer_file.open("rb") as content:
            tar.addfile(entry, content)


def refs(archive: Path) -> tuple[str, ...]:
    """The names in an archive, whoever wrote it. Raises ValueError if it isn't one."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name == "manifest.json" and (content := tar.extractfile(member)):
                images: list[dict[str, Any]] = json.load(content)
                return tuple(str(name) for image in images for name in image["RepoTags"] or ())
    raise ValueError(f"{archive} is no docker archive: it has no manifest.json")


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    tar.addfile(_entry(name, len(content)), io.BytesIO(content))


def _entry(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, layer.epoch()
    return info
