"""What one `up` tells of its work on an instance, whatever its architecture: lines, Events, and the status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from valkeyctl.dataplane import Condition, Phase, Progress
from valkeyctl.dataplane.errors import Interrupted, ValkeyctlError
from valkeyctl.dataplane.loop import READY
from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import KubeError, LeaseHeld
from valkeyctl.kube.events import Recorder
from valkeyctl.kube.status import Declared, InstanceStatus, write_status
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.props import Place

#: What stands in the line of a step that a person wants to be shouted at.
SHOUTED = ("TAKE OVER", "ARE DROPPED")
_BAD = (Phase.DEGRADED, Phase.FAILED, Phase.UNREACHABLE)


class ConvergeFailed(ValkeyctlError):  # noqa: N818 - reads as what happened
    """The declared state was not reached. Says why, which Pods are in trouble, and what to do."""


@dataclass
class Account:
    """Of one run. `tell` takes progress lines, each of which the next one replaces."""

    api: Api
    place: Place
    engine: Engine
    tell: Callable[[str], None]
    recorder: Recorder
    status: InstanceStatus = field(default_factory=lambda: InstanceStatus(str(Phase.INITIALIZING)))
    _done: tuple[str, ...] = ()
    _told: str = ""

    def begin(self, before: InstanceStatus | None, declared: Declared, *, formed: bool, finished: bool) -> None:
        """Says that the work begins. What was true of the instance before stays until it is known better."""
        # That it was paused is over, whatever comes next.
        rested = before is not None and before.phase == Phase.PAUSED
        phase = before.phase if before and formed and before.phase and not rested else str(Phase.INITIALIZING)
        self.status = InstanceStatus(
            phase=phase,
            conditions=before.conditions if before and not rested else (),
            layout=before.layout if before else {},
            primaries=before.primaries if before else {},
            server_version=before.server_version if before else "",
            formed=formed,
            finished=finished,
            handed_over=before.handed_over if before else "",
            declared=declared,
            observer=f"up of {self.place.owner}",
        )
        self.write()

    def keep(self, lines: Sequence[str]) -> None:
        """Keeps steps that were done: in the output, in Events, in the status."""
        for line in lines:
            (self.engine.warn if any(word in line for word in SHOUTED) else self.engine.info)(line)
            self.recorder.step(line)
        if lines:
            self._done = (*self._done, *lines)
            self.status = replace(self.status, done=self._done)
            self.write()

    def progress(self, now: Progress, prefix: str = "", *, more_to_do: bool = False) -> None:
        """Shows a line, and keeps each step that was done. `more_to_do`: that all is right isn't the end of it."""
        self.keep(now.new)
        if now.text == READY and more_to_do:
            return
        if now.text != self._told:
            self._told = now.text
            self.tell(f"{prefix}{now.text}")

    def record(
        self,
        phase: Phase,
        conditions: Sequence[Condition],
        *,
        formed: bool,
        primaries: Mapping[str, str],
        server_version: str,
        layout: Mapping[str, str] | None = None,
    ) -> None:
        """Takes note of what was seen at an end, for the status; nothing is written yet."""
        self.status = replace(
            self.status,
            phase=str(phase),
            conditions=tuple(conditions),
            layout=layout or self.status.layout,
            primaries=primaries,
            server_version=server_version or self.status.server_version,
            formed=formed,
        )

    def end_well(self, phase: Phase, summary: str) -> None:
        """Says that an `up` has come to its good end."""
        self.status = replace(self.status, finished=True)
        self.write()
        self.recorder.phase(str(phase), summary, bad=False)

    def end_badly(self, error: ValkeyctlError, phase: Phase, pods: Sequence[str], risk: str = "") -> ValkeyctlError:
        """Says why the declared state wasn't reached; returns what the user gets to read.

        `phase`: as it was seen in the end. `pods`: a line for each trouble of Pods. `risk`: what must not happen now.
        """
        told = phase if phase in _BAD else Phase.FAILED
        what = error.what + (f". Pods: {'; '.join(pods)}" if pods else "") + (f". {risk}" if risk else "")
        failure = f"{what}. {error.remedy}".rstrip()
        self.status = replace(self.status, phase=str(told), failure=failure, failure_of=self.status.observer)
        self.write()
        self.recorder.phase(str(told), what, bad=True)
        if isinstance(error, LeaseHeld | Interrupted):
            return error
        remedy = error.remedy or "Correct what is named here, and run it again; what was done is kept."
        return ConvergeFailed(f"{self.place.instance} is {told}: {what}", where=error.where, remedy=remedy)

    def write(self) -> None:
        """Writes the status. It tells people; that it cannot be told must not stop what is being done."""
        try:
            write_status(self.api, self.place.namespace, self.place.instance, self.place.owner, self.status)
        except KubeError as error:
            self.tell(f"the status could not be written: {error}")
