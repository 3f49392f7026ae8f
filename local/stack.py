"""`pulumi up` and `pulumi destroy` of the local stack, and how to connect to what it made.

The platform knows nothing of the product: it runs the same two commands that a person would type, in the same
environment that `make env` prints, and shows what they say.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import LocalError
from .progress import Progress

CHECKOUT = Path(__file__).resolve().parent.parent
UP_TIMEOUT_S = 900.0
DESTROY_TIMEOUT_S = 300.0


def up(stack: str, environment: Mapping[str, str], progress: Progress) -> None:
    """Create the stack in the local backend if it is new, and bring it up. Idempotent; resumes what was interrupted.

    `environment`: what `make env` exports, with this process's own variables. Raises LocalError when pulumi fails;
    what pulumi said stands above it on the terminal.
    """
    _pulumi(["stack", "select", "--create", stack], environment, timeout_s=60, quiet=True)
    if _interrupted(stack, environment):
        # A killed pulumi leaves its lock in the file backend. Nobody else can hold it: the platform's own lock is ours.
        progress.say(f"the last update of stack {stack} was interrupted: releasing its lock, then resuming it")
        _pulumi(["cancel", "--yes", stack], environment, timeout_s=60, quiet=True)
    with progress.step(f"pulumi up of stack {stack}"):
        _pulumi(["up", "--yes", "--skip-preview", "--stack", stack], environment, timeout_s=UP_TIMEOUT_S)


def destroy(stack: str, environment: Mapping[str, str], progress: Progress) -> None:
    """Destroy the stack's resources. Idempotent: a stack that was never made is destroyed already.

    Raises LocalError when pulumi fails or takes longer than DESTROY_TIMEOUT_S.
    """
    if stack not in _stacks(environment):
        return
    if _interrupted(stack, environment):
        _pulumi(["cancel", "--yes", stack], environment, timeout_s=60, quiet=True)
    with progress.step(f"pulumi destroy of stack {stack}"):
        _pulumi(["destroy", "--yes", "--skip-preview", "--stack", stack], environment, timeout_s=DESTROY_TIMEOUT_S)


def forget(stack: str, environment: Mapping[str, str], progress: Progress) -> None:
    """Drop what the backend knows of a stack whose cluster is gone with all that it made. Idempotent."""
    if stack in _stacks(environment):
        progress.say(f"The stack {stack} went with the former cluster")
        _pulumi(["stack", "rm", "--force", "--preserve-config", "--yes", stack], environment, timeout_s=60, quiet=True)


def others(stack: str, environment: Mapping[str, str]) -> list[str]:
    """The other stacks in the local backend, made by hand in the environment of `make env`."""
    return sorted(set(_stacks(environment)) - {stack})


def table(environment: Mapping[str, str]) -> None:
    """Print the status table that `make status` prints. Raises nothing where it fails: it says so itself."""
    subprocess.run([sys.executable, "-m", "valkeyctl", "status"], cwd=CHECKOUT, env=dict(environment), check=False)


def how_to_connect(stack: str, environment: Mapping[str, str]) -> str:
    """Commands, to be pasted, that lead a person to each instance of the stack."""
    text = _pulumi(["stack", "output", "--json", "--stack", stack], environment, timeout_s=60, quiet=True)
    outputs: dict[str, Any] = json.loads(text)
    lines = ["", 'A shell for the local stack and cluster:   eval "$(make -s env)"', ""]
    for name, instance in sorted(outputs.items()):
        if isinstance(instance, dict) and "secretName" in instance:
            lines += _connect_to(name, instance)
    return "\n".join(lines)


def _connect_to(name: str, instance: Mapping[str, Any]) -> list[str]:
    namespace, secret, key = instance["namespace"], instance["secretName"], instance["secretKey"]
    pod = next(iter(instance["primaries"].values()))
    return [
        f"Instance {name}: inside the cluster at {instance['endpoints']['uri']}",
        "A prompt on it, signed in:",
        f"  kubectl -n {namespace} exec -it {pod} -c server -- sh /etc/valkey/cli.sh",
        f"Its password, which only the Secret {secret} has:",
        f"  kubectl -n {namespace} get secret {secret} -o jsonpath='{{.data.{key}}}' | base64 -d",
        "",
    ]


def _stacks(environment: Mapping[str, str]) -> list[str]:
    listed = json.loads(_pulumi(["stack", "ls", "--json"], environment, timeout_s=60, quiet=True))
    # A file backend lists stacks as organization/project/stack or by the bare name, after its layout.
    return [str(entry["name"]).rsplit("/", 1)[-1] for entry in listed]


def _interrupted(stack: str, environment: Mapping[str, str]) -> bool:
    """Whether a lock of the file backend is left from a pulumi that is gone."""
    url = environment.get("PULUMI_BACKEND_URL", "")
    if not url.startswith("file://"):
        return False
    locks = Path(url.removeprefix("file://").partition("?")[0]) / ".pulumi" / "locks"
    return any(path.is_file() and f"/{stack}/" in f"{path}" for path in locks.rglob("*.json"))


def _pulumi(arguments: list[str], environment: Mapping[str, str], *, timeout_s: float, quiet: bool = False) -> str:
    command = ["pulumi", *arguments, "--non-interactive"]
    try:
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            env=dict(environment),
            timeout=timeout_s,
            check=False,
            text=True,
            capture_output=quiet,
        )
    except subprocess.TimeoutExpired as error:
        raise LocalError(
            f"`{' '.join(command)}` took longer than {timeout_s:.0f} s and was ended; the next `make up` resumes it."
        ) from error
    if done.returncode:
        said = f":\n{done.stdout}{done.stderr}" if quiet else "; it says above why"
        raise LocalError(f"`{' '.join(command)}` ended with exit code {done.returncode}{said}")
    return done.stdout or ""
