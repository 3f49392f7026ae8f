"""Pulling an image where a registry answers: through a containerd of our own that lives as long as the pull."""

import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from ..packages import SYSTEM_PATH

_ANSWER_TIMEOUT_S = 3.0
_START_TIMEOUT_S = 15.0
_PULL_TIMEOUT_S = 300
# The names in references say one thing, the addresses of the registries another.
_ADDRESSES = {"docker.io": "registry-1.docker.io"}


class PullError(Exception):
    """A registry answered, but the image couldn't be had from it."""


@cache
def answers(host: str) -> bool:
    """Whether a registry speaks the distribution API under this name. Asked once; never takes long."""
    address = _ADDRESSES.get(host, host)
    try:
        with urllib.request.urlopen(f"https://{address}/v2/", timeout=_ANSWER_TIMEOUT_S) as response:
            return bool(response.status == 200)
    except urllib.error.HTTPError as error:
        # 401 is the answer of a registry that wants a token first, and gives one to everybody for a public image.
        return error.code == 401 and error.headers.get("WWW-Authenticate", "").startswith("Bearer")
    except (OSError, ValueError):
        return False


def host_of(ref: str) -> str:
    """The registry in a fully qualified reference."""
    return ref.partition("/")[0]


def pull(ref: str, refs: tuple[str, ...], target: Path, *, options: tuple[str, ...] = ()) -> None:
    """Pull an image and write it to an archive under all these names. Raises PullError."""
    with tempfile.TemporaryDirectory(prefix="valkey-local-pull-") as folder, _containerd(Path(folder)) as socket_path:
        _ctr(socket_path, "pull", *options, ref)
        for other in refs:
            if other != ref:
                _ctr(socket_path, "tag", ref, other)
        _ctr(socket_path, "export", str(target), *dict.fromkeys((ref, *refs)))


def _ctr(socket_path: Path, *arguments: str) -> None:
    command = ["ctr", "--address", str(socket_path), "images", *arguments]
    try:
        done = subprocess.run(
            command, check=False, env=_environment(), capture_output=True, text=True, timeout=_PULL_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise PullError(f"{' '.join(command)} took more than {_PULL_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise PullError(f"{' '.join(command)}: {done.stderr.strip()}")


@contextmanager
def _containerd(folder: Path) -> Generator[Path]:
    socket_path = folder / "containerd.sock"
    config = folder / "config.toml"
    config.write_text(
        f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
        f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{socket_path}"\n'
    )
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            ["containerd", "--config", config],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(socket_path, process)
        yield socket_path
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(socket_path: Path, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise PullError(f"containerd ended with exit code {process.returncode}")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(socket_path))
            except OSError:
                time.sleep(0.05)
            else:
                return
    raise PullError(f"containerd didn't answer within {_START_TIMEOUT_S:.0f} s")


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"}
