"""A project laid out for one test, and real pulumi on it.

The checkout's program runs from a folder of the test's own: pulumi writes stack configs and needs a writable project,
and tests must not write into the checkout.
"""

import atexit
import compileall
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.harness.environment import CHECKOUT, environment
from tests.e2e.harness.events import EventLog
from tests.e2e.harness.processes import all_processes, command_line, descendants, session_of

UP_TIMEOUT_S = 180.0
CONTEXT = "valkey-local"
PROVIDER = "pulumi.dynamic"
"""What the command line of the process that runs our dynamic providers contains."""


@cache
def sources() -> Path:
    """A copy of the checkout's program: what is tested stays the same while somebody edits the checkout."""
    folder = Path(tempfile.mkdtemp(prefix="valkey-e2e-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("components", "valkeyctl"):
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Pulumi.yaml", "settings.py", "__main__.py"):
        shutil.copy(CHECKOUT / name, folder)
    # Once here instead of in every run, where Python may not write bytecode.
    assert compileall.compile_dir(folder, quiet=2)
    return folder


def lay_out(folder: Path, main: str | None = None) -> Path:
    """Make `folder` a project: the checkout's program, or another one with the source `main`.

    Packages are linked, what pulumi may write is copied.
    """
    (folder / "stacks").mkdir(parents=True)
    if main is None:
        for name in ("components", "valkeyctl"):
            (folder / name).symlink_to(sources() / name)
        for name in ("Pulumi.yaml", "settings.py", "__main__.py"):
            shutil.copy(sources() / name, folder)
    else:
        project = {**yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text()), "name": "other", "config": {}}
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project))
        (folder / "__main__.py").write_text(main)
        (folder / "components.py").write_text('NAME = "cache"\n')
    return folder


@dataclass(frozen=True)
class Result:
    """How a pulumi command ended. `output` is what a person saw on both streams; `log` its events."""

    arguments: tuple[str, ...]
    code: int
    output: str
    seconds: float
    log: EventLog

    def changes(self) -> dict[str, str]:
        """Operations on resources other than `same`."""
        return {name: op for name, op in self.log.operations().items() if op != "same"}


class PulumiError(AssertionError):
    """A pulumi command ended otherwise than the test expects; the message holds all that it said."""


class Running:
    """A pulumi command that is still at work."""

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str], scratch: Path) -> None:
        self.arguments = tuple(command[1:])
        self.log = EventLog(scratch.with_suffix(".events"))
        self._file = scratch.with_suffix(".out")
        self._started = time.monotonic()
        with self._file.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "--event-log", str(self.log.path)] if _tells_events(command) else list(command),
                cwd=folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def until(self, wanted: Callable[[str], bool], *, timeout_s: float = 120) -> str:
        """Wait for the first mark that `wanted` accepts and return it; PulumiError if the command ends before."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            over = self.process.poll() is not None
            for mark in self.log.read():
                if wanted(mark.text):
                    return mark.text
            if over:
                break
            time.sleep(0.01)
        told = [mark.text for mark in self.log.marks]
        raise PulumiError(
            f"`pulumi {' '.join(self.arguments)}` never came to the mark; it came to {told}\n{self.output()}"
        )

    def output(self) -> str:
        return self._file.read_text(errors="replace")

    def finish(self, *, timeout_s: float = UP_TIMEOUT_S) -> Result:
        """Wait for its end; one that takes too long is killed, with all its plugins, and fails the test."""
        deadline = self._started + timeout_s
        while self.process.poll() is None and time.monotonic() < deadline:
            self.log.read()
            time.sleep(0.02)
        if self.process.poll() is None:
            self.kill_all()
            raise PulumiError(
                f"`pulumi {' '.join(self.arguments)}` took longer than {timeout_s:.0f} s\n{self.output()}"
            )
        self.log.read()
        seconds = time.monotonic() - self._started
        return Result(self.arguments, self.process.returncode, self.output(), seconds, self.log)

    def kill(self) -> None:
        """SIGKILL to the pulumi process alone: its plugins become orphans, as after a crash."""
        self.process.kill()
        self.process.wait(timeout=10)
        self.log.read()

    def kill_provider(self, *, timeout_s: float = 30) -> int:
        """SIGKILL to the process that runs the dynamic providers, as soon as there is one; returns its id."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.process.poll() is None:
            for pid in descendants(self.process.pid):
                if PROVIDER in command_line(pid) and "python" in command_line(pid):
                    os.kill(pid, signal.SIGKILL)
                    return pid
            time.sleep(0.02)
        raise PulumiError(f"no provider process to kill\n{self.output()}")

    def kill_all(self) -> None:
        """SIGKILL to it and everything it started. Also right when it has ended."""
        for pid in [*descendants(self.process.pid), self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(timeout=10)


class Stack:
    """One stack of a project, in a file backend of its own."""

    def __init__(self, project: Path, name: str, *, backend: Path, namespace: str) -> None:
        backend.mkdir(parents=True, exist_ok=True)
        self.project, self.name, self.namespace, self.backend = project, name, namespace, backend
        self.env = {
            **environment(),
            # Without files of attributes, which pulumi writes in place: killed then, it leaves an unreadable state.
            "PULUMI_BACKEND_URL": f"file://{backend}?metadata=skip",
            "PULUMI_CONFIG_PASSPHRASE": "a passphrase for tests",
            "PULUMI_DEBUG_COMMANDS": "true",  # gives --event-log
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        self.results: list[Result] = []
        self._running: list[Running] = []
        self._config: dict[str, Any] = {}

    @property
    def config_file(self) -> Path:
        return self.project / "stacks" / f"Pulumi.{self.name}.yaml"

    def init(self) -> None:
        """Create the stack, without resources."""
        self.run("stack", "init", self.name, stack=False)

    def configure(self, instances: Mapping[str, Any], **more: Any) -> None:
        """Write the whole stack config: these instances, and further keys (`kubernetes={…}`) over the test's own."""
        kubernetes = {"context": CONTEXT, "namespace": self.namespace}
        known: dict[str, Any] = yaml.safe_load(self.config_file.read_text()) if self.config_file.exists() else {}
        values = {"kubernetes": kubernetes, "instances": dict(instances), **more}
        known["config"] = {f"valkey:{key}": value for key, value in values.items() if value is not None}
        self.config_file.write_text(yaml.safe_dump(known))

    def start(self, *arguments: str, stack: bool = True, env: Mapping[str, str] | None = None) -> Running:
        """Begin a pulumi command."""
        command = ["pulumi", *arguments, "--non-interactive", "--color", "never"]
        if stack:
            command += ["--stack", self.name]
        scratch = self.backend.parent / f"{self.backend.name}-{len(self._running):02d}-{arguments[0]}"
        running = Running(command, self.project, {**self.env, **(env or {})}, scratch)
        self._running.append(running)
        return running

    def run(
        self, *arguments: str, expect: int | None = 0, stack: bool = True, timeout_s: float = UP_TIMEOUT_S, **env: str
    ) -> Result:
        """A whole pulumi command; raises PulumiError when its exit code is not `expect` (None takes any)."""
        return self.finish(self.start(*arguments, stack=stack, env=env), expect=expect, timeout_s=timeout_s)

    def finish(self, running: Running, *, expect: int | None = 0, timeout_s: float = UP_TIMEOUT_S) -> Result:
        """Wait for a begun command, and judge its exit code; -1 stands for any that is not zero."""
        result = running.finish(timeout_s=timeout_s)
        self.results.append(result)
        wrong = result.code == 0 if expect == -1 else expect is not None and result.code != expect
        if wrong:
            command = f"`pulumi {' '.join(result.arguments)}`"
            raise PulumiError(f"{command} ended with {result.code} after {result.seconds:.1f} s\n{result.output}")
        return result

    def up(self, *options: str, expect: int | None = 0, timeout_s: float = UP_TIMEOUT_S) -> Result:
        return self.run("up", "--yes", "--skip-preview", *options, expect=expect, timeout_s=timeout_s)

    def destroy(self, *options: str, expect: int | None = 0, timeout_s: float = UP_TIMEOUT_S) -> Result:
        return self.run("destroy", "--yes", "--skip-preview", *options, expect=expect, timeout_s=timeout_s)

    def cancel(self) -> Result:
        """What the documentation says to do after a killed pulumi: release its lock on a file backend."""
        return self.run("cancel", "--yes", stack=True)

    def valkeyctl(self, *arguments: str) -> str:
        """Run `python -m valkeyctl` as a person does; returns what it shows, and fails when it does."""
        done = subprocess.run(
            [sys.executable, "-m", "valkeyctl", *arguments],
            cwd=self.project,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if done.returncode:
            raise PulumiError(f"valkeyctl {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def outputs(self) -> dict[str, Any]:
        return json.loads(self.run("stack", "output", "--json").output)

    def export(self) -> dict[str, Any]:
        return json.loads(self.run("stack", "export").output)

    def resources(self) -> list[dict[str, Any]]:
        """The resources in the state."""
        return self.export()["deployment"].get("resources", [])

    def close(self) -> None:
        """End every process that was begun here and still runs, also orphans of a killed pulumi."""
        for running in self._running:
            if running.process.poll() is None:
                running.kill_all()
        for pid in all_processes():
            # Orphaned plugins have another parent by now, but still the session of the pulumi that began them.
            if session_of(pid) in {running.process.pid for running in self._running}:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue


def _tells_events(command: Sequence[str]) -> bool:
    return command[1] in ("up", "preview", "refresh", "destroy")
