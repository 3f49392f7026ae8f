"""Pulling from a registry that is real but for what it holds: a real containerd, real HTTP, one image."""

import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from local import packages
from local.images import archive, layer, registry
from local.images.recipes import Config
from local.progress import Progress


@dataclass(frozen=True)
class Registry:
    """A registry on this machine with one image, valkey/valkey:9.1.2."""

    host: str
    ref: str


def _blobs(folder: Path) -> dict[str, tuple[str, bytes]]:
    """What the registry serves, by the end of its path: media type and content.

    As with public images, the tag stands for several platforms; of the others nothing must be asked for.
    """
    root = folder / "root"
    root.mkdir()
    (root / "hello").write_text("hello")
    digest = layer.write(root, folder / "layer.tar")
    content = (folder / "layer.tar").read_bytes()
    config = json.dumps(archive.image_config(Config(command=("/hello",)), digest)).encode()

    def described(media_type: str, data: bytes) -> dict[str, Any]:
        return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}

    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    layers = [described("application/vnd.oci.image.layer.v1.tar", content)]
    manifest = {
        "schemaVersion": 2,
        "mediaType": manifest_type,
        "config": described("application/vnd.oci.image.config.v1+json", config),
        "layers": layers,
    }
    top = json.dumps(manifest).encode()
    served = {described("", data)["digest"]: ("application/octet-stream", data) for data in (content, config)}
    served[described("", top)["digest"]] = (manifest_type, top)
    index_type = "application/vnd.oci.image.index.v1+json"
    here = archive.image_config(Config(), digest)["architecture"]
    platforms = [
        {**described(manifest_type, top), "platform": {"os": "linux", "architecture": here}},
        {**described(manifest_type, b"elsewhere"), "platform": {"os": "linux", "architecture": "s390x"}},
    ]
    index = json.dumps({"schemaVersion": 2, "mediaType": index_type, "manifests": platforms}).encode()
    served[described("", index)["digest"]] = served["9.1.2"] = (index_type, index)
    return served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Registry]:
    blobs = _blobs(tmp_path)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self, *, body: bool = True) -> None:
            found = blobs.get(self.path.rsplit("/", 1)[-1])
            if found is None:
                self.send_error(404)
                return
            media_type, content = found
            self.send_response(200)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(content).hexdigest()}")
            self.end_headers()
            if body:
                self.wfile.write(content)

        def do_HEAD(self) -> None:
            self.do_GET(body=False)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"localhost:{server.server_address[1]}"
    yield Registry(host, f"{host}/valkey/valkey:9.1.2")
    server.shutdown()
    server.server_close()


def test_a_pulled_image_is_an_archive_under_all_its_names(served: Registry, tmp_path: Path) -> None:
    packages.ensure(Progress())
    target = tmp_path / "image.tar"
    names = (served.ref, f"{served.host}/valkey/valkey:9.1")
    registry.pull(served.ref, names, target, options=("--plain-http",))
    assert sorted(archive.refs(target)) == sorted(names)
    (tmp_path / "node").mkdir()
    with registry._containerd(tmp_path / "node") as node:
        ctr = ["ctr", "--address", str(node), "images"]
        subprocess.run([*ctr, "import", target], check=True, capture_output=True)
        listed = subprocess.run([*ctr, "list", "-q"], check=True, capture_output=True, text=True).stdout
    assert sorted(listed.split()) == sorted(names)


def test_an_image_that_the_registry_lacks_is_an_error_that_says_so(served: Registry, tmp_path: Path) -> None:
    packages.ensure(Progress())
    missing = f"{served.host}/valkey/valkey:9.9.9"
    with pytest.raises(registry.PullError, match=r"9\.9\.9"):
        registry.pull(missing, (missing,), tmp_path / "image.tar", options=("--plain-http",))
    assert not (tmp_path / "image.tar").exists()
