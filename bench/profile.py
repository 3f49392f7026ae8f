"""Where the time of an `up` goes: when each resource began and ended, from pulumi's event log."""

from collections.abc import Sequence

from tests.e2e.harness.events import Mark


def profile(marks: Sequence[Mark]) -> list[tuple[str, float, float]]:
    """(resource, begun, ended) in seconds since the command began, in the order of their beginning.

    Only what an update did counts; a refresh before it appears as a resource of its own, `refresh <resource>`.
    """
    begun: dict[str, float] = {}
    spans: dict[str, tuple[float, float]] = {}
    for mark in marks:
        word, _, rest = mark.text.partition(" ")
        operation, _, resource = rest.partition(" ")
        if word == "start":
            begun[resource] = mark.seconds
        elif word in ("end", "failed") and operation != "same":
            spans[resource] = (begun.pop(resource, mark.seconds), mark.seconds)
    return sorted(((name, first, last) for name, (first, last) in spans.items()), key=lambda span: span[1])


def chart(marks: Sequence[Mark], total_s: float, *, width: int = 60) -> str:
    """The profile as text: one bar a resource, then what was said about the topology."""
    lines = [f"{'resource':<44} {'from':>6} {'to':>6} {'took':>6}"]
    for name, first, last in profile(marks):
        left = round(first / total_s * width)
        bar = " " * left + "█" * max(1, round((last - first) / total_s * width))
        lines.append(f"{name:<44} {first:6.2f} {last:6.2f} {last - first:6.2f} |{bar:<{width}}|")
    lines.append(f"{'whole command':<44} {0:6.2f} {total_s:6.2f} {total_s:6.2f}")
    lines += [f"  {mark.seconds:6.2f}  {mark.text}" for mark in marks if mark.text.startswith("say Topology")]
    return "\n".join(lines)
