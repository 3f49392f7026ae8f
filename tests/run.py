"""Runs the test suite in stages and tells how each went: `python -m tests.run [paths …]`, which `make test` calls.

Stages are folders of tests with the same needs: `unit`, `dataplane` and `agent` need nothing, `e2e` and `platform` need
the local Kubernetes, which is brought up beside the others. A stage that fails hides nobody's results: all that can run
do run, and the summary at the end and the exit code tell. Each stage has a deadline; results are kept in
`tests/.results/`.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.failures import failures

CHECKOUT = Path(__file__).resolve().parent.parent
RESULTS = CHECKOUT / "tests" / ".results"
PLATFORM_DEADLINE_S = 45 * 60  # tools built from nothing on two slow cores, and the boot
DOWN_DEADLINE_S = 10 * 60
GRACE_S = 90.0  # from the request to end until a stage is killed: pytest ends its fixtures and writes its summary


@dataclass(frozen=True)
class Stage:
    """One pytest run. The longest `folder` that fits a path takes it; `options` are pytest's."""

    name: str
    folder: str
    deadline_s: float
    options: tuple[str, ...]
    needs_platform: bool = False
    #: Runs beside the next one, which leaves it the processors (if that needs no platform); told of at its end.
    beside: bool = False


STAGES = (
    Stage("unit", "tests/unit", 30 * 60, ("-n", "3"), beside=True),
    # Servers and their timeouts are waited for most of the time: even four at a time leave the processors idle.
    Stage("dataplane", "tests/dataplane", 25 * 60, ("-n", "4", "--dist", "worksteal")),
    # Six servers and six agents a test, and how soon they act is judged: no more than two at a time.
    Stage("agent", "tests/agent", 20 * 60, ("-n", "2", "--dist", "worksteal")),
    # End-to-end tests partly wait for others; three of them keep two cores busy. Groups share a fixture's instance.
    Stage("e2e", "tests/e2e", 55 * 60, ("-n", "3", "--dist", "loadgroup"), needs_platform=True),
    # Faults of nodes disturb whoever runs beside them, so these have the local cluster for themselves.
    Stage("platform", "tests/e2e/platform", 20 * 60, ("-p", "no:xdist"), needs_platform=True),
)


@dataclass(frozen=True)
class Outcome:
    """How a stage ended: `verdict` is one of passed, failed, no tests, deadline, interrupted, not run."""

    stage: str
    verdict: str
    seconds: float

    @property
    def good(self) -> bool:
        # A stage that found no tests has proven nothing.
        return self.verdict == "passed"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stages that `argv` names; returns the exit code: 0 when every one of them passed."""
    arguments = _arguments(argv)
    try:
        chosen = select(arguments.paths)
    except ValueError as error:
        _say(str(error))
        return 2
    started = time.monotonic()
    platform = Platform(keep=arguments.keep) if any(stage.needs_platform for stage, _ in chosen) else None
    outcomes: list[Outcome] = []
    begun: list[Running] = []
    try:
        if platform:
            platform.begin()
        for number, (stage, paths) in enumerate(chosen, 1):
            if stage.needs_platform and platform and not platform.ready():
                outcomes.append(Outcome(stage.name, "not run", 0))
                continue
            begun.append(Running(stage, paths, arguments.pytest))
            if stage.beside and number < len(chosen) and not chosen[number][0].needs_platform:
                continue
            while begun and not _interrupted(outcomes):
                outcomes.append(begun.pop(0).finish())
            if _interrupted(outcomes):
                break
    finally:
        for running in begun:
            running.end()
        if platform:
            platform.end()
    _summary(outcomes, platform, time.monotonic() - started)
    return 0 if all(outcome.good for outcome in outcomes) else 1


def _interrupted(outcomes: Sequence[Outcome]) -> bool:
    return any(outcome.verdict == "interrupted" for outcome in outcomes)


def select(paths: Sequence[str]) -> list[tuple[Stage, list[str]]]:
    """The stages, in their order, that have something to do for `paths`, each with its own of them.

    A path is a file, a folder or `file::test`; none means all tests.
    Raises ValueError for a path that does not exist or belongs to no stage.
    """
    wanted: dict[str, list[str]] = {stage.name: [] for stage in STAGES}
    for path in paths or ["tests"]:
        file = Path(path.split("::", maxsplit=1)[0])
        relative = os.path.relpath(file if file.is_absolute() else CHECKOUT / file, CHECKOUT)
        if not (CHECKOUT / relative).exists():
            raise ValueError(f"No such tests: {path}")
        selector = relative + path[len(str(file)) :] if "::" in path else relative
        stages = [stage for stage in STAGES if (CHECKOUT / stage.folder).is_dir()]
        inside = [stage for stage in stages if stage.folder == relative or stage.folder.startswith(f"{relative}/")]
        around = [stage for stage in stages if relative.startswith(f"{stage.folder}/")]
        if not inside and not around:
            raise ValueError(f"{path} belongs to none of the stages {', '.join(stage.name for stage in STAGES)}")
        for stage in inside:
            wanted[stage.name].append(stage.folder)
        if around and not any(stage.folder == relative for stage in inside):
            wanted[max(around, key=lambda stage: len(stage.folder)).name].append(selector)
    return [(stage, wanted[stage.name]) for stage in STAGES if wanted[stage.name]]


class Platform:
    """The local Kubernetes for the tests: brought up in the background, taken down at the end if it was made here."""

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._was_up = False
        self._up: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._started = 0.0
        self.seconds = 0.0

    def begin(self) -> None:
        """Start to bring it up; returns at once. Its progress goes to the terminal line by line."""
        self._was_up = _local("status", timeout_s=60) == 0
        state = "up already; checking it" if self._was_up else "bringing it up beside the first stages"
        _say(f"local Kubernetes: {state}")
        self._started = time.monotonic()
        self._up = subprocess.Popen(
            [sys.executable, "-m", "local", "up"],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._forward, daemon=True)
        self._reader.start()

    def ready(self) -> bool:
        """Wait until it is up; False when it failed or took longer than its deadline. May be asked again."""
        assert self._up is not None
        left = PLATFORM_DEADLINE_S - (time.monotonic() - self._started)
        try:
            code = self._up.wait(timeout=max(left, 1))
        except subprocess.TimeoutExpired:
            _say(f"local Kubernetes: not up after {PLATFORM_DEADLINE_S / 60:.0f} min; giving up")
            _end(self._up)
            code = -1
        if self._reader:
            self._reader.join(timeout=5)
        self.seconds = self.seconds or time.monotonic() - self._started
        return code == 0

    def end(self) -> None:
        """Take it down if this run made it and nobody asked to keep it. Also when it came up only half."""
        if self._up and self._up.poll() is None:
            _end(self._up)
        if self._was_up or self._keep:
            return
        _say("local Kubernetes: taking down what this run made")
        if _local("down", timeout_s=DOWN_DEADLINE_S, quiet=False):
            _say("local Kubernetes: `make down` did not end well; run it again")

    def _forward(self) -> None:
        assert self._up is not None
        assert self._up.stdout is not None
        for line in self._up.stdout:
            _say(f"local Kubernetes │ {line.rstrip()}")


class Running:
    """A stage that has been begun."""

    def __init__(self, stage: Stage, paths: Sequence[str], extra: Sequence[str]) -> None:
        self.stage = stage
        self._quiet = RESULTS / f"{stage.name}.log" if stage.beside else None
        beside = ", beside the next one" if stage.beside else ""
        _say(f"stage {stage.name}: {' '.join(paths)} (deadline {stage.deadline_s / 60:.0f} min{beside})")
        RESULTS.mkdir(parents=True, exist_ok=True)
        report = RESULTS / f"{stage.name}.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", *stage.options, f"--junit-xml={report}", "--durations=8"]
        command += [*extra, *paths]
        # The longer folder is a stage of its own.
        command += [f"--ignore={other.folder}" for other in STAGES if other.folder.startswith(f"{stage.folder}/")]
        self._started = time.monotonic()
        with self._quiet.open("wb") if self._quiet else nullcontext() as out:
            self._process = subprocess.Popen(
                command, cwd=CHECKOUT, start_new_session=True, stdout=out, stderr=subprocess.STDOUT if out else None
            )
        self._ended = 0.0
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def finish(self) -> Outcome:
        """Wait for its end, and show what it said if it was quiet; one that takes too long is ended."""
        stage = self.stage
        try:
            code = self._process.wait(timeout=max(self._started + stage.deadline_s - time.monotonic(), 1))
            verdict = {0: "passed", 5: "no tests"}.get(code, "failed")
        except subprocess.TimeoutExpired:
            _say(f"stage {stage.name}: its deadline of {stage.deadline_s / 60:.0f} min has passed; ending it")
            self.end()
            verdict = "deadline"
        except KeyboardInterrupt:
            self.end()
            verdict = "interrupted"
        self._watcher.join(timeout=5)
        seconds = (self._ended or time.monotonic()) - self._started
        if self._quiet:
            sys.stdout.write(self._quiet.read_text(errors="replace"))
        _say(f"stage {stage.name}: {verdict} after {seconds:.0f} s")
        return Outcome(stage.name, verdict, seconds)

    def _watch(self) -> None:
        """It may end while another one is waited for."""
        self._process.wait()
        self._ended = time.monotonic()

    def end(self) -> None:
        """End it, as Ctrl-C does. Also right when it has ended."""
        if self._process.poll() is None:
            _end(self._process)


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Ask a stage (a process group of its own) to end as Ctrl-C does, and kill it when it does not."""
    for number, patience_s in ((signal.SIGINT, GRACE_S), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=patience_s)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        else:
            return


def _local(command: str, *, timeout_s: float, quiet: bool = True) -> int:
    try:
        return subprocess.run(
            [sys.executable, "-m", "local", command],
            cwd=CHECKOUT,
            timeout=timeout_s,
            check=False,
            stdout=subprocess.DEVNULL if quiet else None,
            stderr=subprocess.DEVNULL if quiet else None,
        ).returncode
    except subprocess.TimeoutExpired:
        return -1


def _summary(outcomes: Sequence[Outcome], platform: Platform | None, seconds: float) -> None:
    _say("summary")
    if platform:
        _say(f"  {'local Kubernetes':<18} {'':<12} {platform.seconds:7.0f} s (beside the first stages)")
    for outcome in outcomes:
        _say(f"  {outcome.stage:<18} {outcome.verdict:<12} {outcome.seconds:7.0f} s")
        if not outcome.good:
            for line in failures(RESULTS / f"{outcome.stage}.xml"):
                _say(f"    {line}")
    _say(f"  {'all':<18} {'passed' if all(o.good for o in outcomes) else 'FAILED':<12} {seconds:7.0f} s")


def _say(text: str) -> None:
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description="Run the tests in stages.")
    parser.add_argument("paths", nargs="*", help="files or folders of tests; all of them by default")
    parser.add_argument("--keep", action="store_true", help="leave the local Kubernetes up")
    parser.add_argument("--pytest", action="append", default=[], metavar="OPTION", help="one more option for pytest")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
