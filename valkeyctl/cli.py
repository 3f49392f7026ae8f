"""`python -m valkeyctl …`: what runs, without Pulumi. Needs only a kubeconfig."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from valkeyctl.dataplane import Status
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.kube.access import connect
from valkeyctl.kube.forward import PORT_FORWARD
from valkeyctl.kube.overview import MemberOverview, Overview, find_instances, overviews, wrong

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

_COLOURS = {"Ready": "green", "Initializing": "yellow", "Rebalancing": "yellow", "Degraded": "yellow"}
_TODO_SHOWN = 8


@app.callback()
def main() -> None:
    """Valkey on Kubernetes: look at what runs."""


@app.command()
def status(
    *,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only this namespace.")] = None,
    instance: Annotated[str | None, typer.Option(help="Only the instance of this name.")] = None,
    stack: Annotated[str | None, typer.Option(help="Only instances of this stack of Pulumi's.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="Path of the kubeconfig. Default: as kubectl's.")] = None,
    transport: Annotated[str, typer.Option(help="portForward, or direct from inside the cluster.")] = PORT_FORWARD,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show each instance: phase, conditions, members, what is wrong, and what to do about it.

    Exits with 1 where it could not look, else with 0, whatever it saw.
    """
    try:
        api = connect(kubeconfig, context)
        found = [one for one in find_instances(api, namespace, instance) if stack is None or one.is_of(stack)]
        seen = overviews(api, found, transport)
    except ValkeyctlError as error:
        Console(stderr=True, soft_wrap=True).print(Text(f"error: {error}", style="red"))
        raise typer.Exit(1) from None
    if as_json:
        sys.stdout.write(json.dumps([asdict(one) for one in seen], indent=2) + "\n")
        return
    # A terminal wraps long lines, and a pipe gets them whole; only the table knows about widths.
    console = Console(soft_wrap=True)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    if not seen:
        where = f"namespace {namespace}" if namespace else "any namespace that can be seen"
        of_stack = f" of stack {stack}" if stack else ""
        named = f" {instance}" if instance else ""
        console.print(Text(f"No instance{named}{of_stack} in {where} ({api.target.origin})."))
    for one in seen:
        _show(console, one)


_PIPED_WIDTH = 160


def _show(console: Console, one: Overview) -> None:
    line = Text.assemble((f"{one.namespace}/{one.instance}", "bold"), "  ", (one.phase, _COLOURS.get(one.phase, "red")))
    line.append(f"  {one.architecture}")
    if one.server_version:
        line.append(f"  Valkey {one.server_version}")
    console.print(line)
    amiss = wrong(one.conditions)
    if good := [condition for condition in one.conditions if condition not in amiss]:
        holds = ", ".join(f"{'' if each.status is Status.TRUE else 'not '}{each.type}" for each in good)
        console.print(Text(f"  in order: {holds}", style="dim"))
    if one.members:
        console.print(_table(one.members))
    for text, style in _remarks(one):
        console.print(Text(f"  {text}", style=style))
    console.print()


def _table(members: Sequence[MemberOverview]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 1))
    for column in ("pod", "role"):
        table.add_column(column, no_wrap=True)
    # Only the shards of a cluster have slots.
    if sharded := any(member.slots for member in members):
        table.add_column("slots", no_wrap=True)
    for column in ("keys", "lag"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("node", "zone", "version"):
        table.add_column(column, no_wrap=True)
    if remarkable := any(member.problem for member in members):
        table.add_column("remark", overflow="fold")
    for member in members:
        remark = [Text(member.problem, style="yellow")] if remarkable else []
        table.add_row(
            member.pod,
            Text(member.role, style="" if member.role in ("primary", "replica") else "red"),
            *([member.slots] if sharded else []),
            "" if member.keys is None else f"{member.keys:,}",
            "" if member.lag is None else f"{member.lag:,} B",
            member.node,
            member.zone,
            member.version,
            *remark,
        )
    return table


def _remarks(one: Overview) -> list[tuple[str, str]]:
    """What is wrong, most telling first, and what to do."""
    remarks: list[tuple[str, str]] = []
    if one.problem:
        remarks.append((one.problem, "red"))
    for condition in wrong(one.conditions):
        message = f": {condition.message}" if condition.message else ""
        remarks.append((f"{condition.type} is {condition.status} ({condition.reason}){message}", "yellow"))
    if one.failure:
        remarks.append((f"the last `up` failed: {one.failure}", "red"))
    if one.busy:
        remarks.append((f"being worked on by {one.busy}", "cyan"))
    elif one.todo:
        remarks.append(("`pulumi up` would:", "cyan"))
        remarks += [(f"  {line}", "cyan") for line in one.todo[:_TODO_SHOWN]]
        if len(one.todo) > _TODO_SHOWN:
            remarks.append((f"  … and {len(one.todo) - _TODO_SHOWN} more", "cyan"))
    return remarks
