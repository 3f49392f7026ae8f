"""`python -m valkeyctl …`: what runs, without Pulumi. Needs only a kubeconfig."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from valkeyctl.dataplane import Phase, Status
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.kube.access import Api, connect, path_of
from valkeyctl.kube.forward import PORT_FORWARD
from valkeyctl.kube.overview import Found, MemberOverview, Overview, find_instances, overviews, wrong

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

_COLOURS = {"Ready": "green", "Initializing": "yellow", "Rebalancing": "yellow", "Degraded": "yellow", "Paused": "cyan"}
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
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="0: all are Ready, or Paused. 1: one isn't. 2: none found, or no look taken."),
    ] = False,
) -> None:
    """Show each instance: phase, conditions, members, what is wrong, and what to do about it.

    Exits with 1 where it could not look, else with 0, whatever it saw; `--exit-code` has it tell what it saw.
    """
    try:
        api = connect(kubeconfig, context)
        every = find_instances(api, namespace, instance)
        found = [one for one in every if stack is None or one.is_of(stack)]
        seen = overviews(api, found, transport)
    except ValkeyctlError as error:
        Console(stderr=True, soft_wrap=True).print(Text(f"error: {error}", style="red"))
        raise typer.Exit(_NOTHING if exit_code else 1) from None
    if as_json:
        sys.stdout.write(json.dumps([_camel(asdict(one)) for one in seen], indent=2) + "\n")
    else:
        _print(seen, nothing=_nothing(api, every, namespace, instance, stack))
    if exit_code:
        raise typer.Exit(code_of(seen))


#: Exit codes of `status --exit-code`.
_READY, _NOT_READY, _NOTHING = 0, 1, 2


def code_of(seen: Sequence[Overview]) -> int:
    """The exit code that tells of these instances."""
    if not seen:
        return _NOTHING
    return _READY if all(one.phase in (Phase.READY, Phase.PAUSED) for one in seen) else _NOT_READY


def _print(seen: Sequence[Overview], nothing: str) -> None:
    # A terminal wraps long lines, and a pipe gets them whole; only the table knows about widths.
    console = Console(soft_wrap=True)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    if not seen:
        console.print(Text(nothing))
    for one in seen:
        _show(console, one)


def _nothing(api: Api, every: Sequence[Found], namespace: str | None, instance: str | None, stack: str | None) -> str:
    """That nothing was found, and what there is instead: most likely a name was mistyped."""
    where = f"namespace {namespace}" if namespace else "any namespace that can be seen"
    of_stack, named = f" of stack {stack}" if stack else "", f" {instance}" if instance else ""
    lines = [f"No instance{named}{of_stack} in {where} ({api.target.origin})."]
    if stack and every:
        owners = sorted({one.owner.rpartition("/")[0] or "no stack" for one in every})
        lines.append(f"Instances there are of {', '.join(owners)}.")
    elif namespace and _is_missing(api, namespace):
        lines.append("There is no such namespace.")
    return " ".join(lines)


def _is_missing(api: Api, namespace: str) -> bool:
    with suppress(ValkeyctlError):
        return api.find(path_of("v1", "namespaces", None, namespace)) is None
    return False


def _camel(value: Any) -> Any:
    """The same with the keys in camelCase, as a stack's outputs have them."""
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        return {re.sub(r"_([a-z])", lambda m: m[1].upper(), key): _camel(part) for key, part in known.items()}
    if isinstance(value, list | tuple):
        return [_camel(part) for part in cast("Sequence[Any]", value)]
    return value


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
        remarks.append((f"{_whose(one.failure_of)}: {one.failure}", "red"))
    if one.advice:
        remarks.append(("what to do:", "cyan"))
        remarks += [(f"  {line}", "cyan") for line in one.advice]
    if one.busy:
        remarks.append((f"being worked on by {one.busy}", "cyan"))
    elif one.todo:
        remarks.append(("`pulumi up` would:", "cyan"))
        remarks += [(f"  {line}", "cyan") for line in one.todo[:_TODO_SHOWN]]
        if len(one.todo) > _TODO_SHOWN:
            remarks.append((f"  … and {len(one.todo) - _TODO_SHOWN} more", "cyan"))
    return remarks


def _whose(failure_of: str) -> str:
    """The beginning of the sentence about a failure."""
    if not failure_of:
        return "the last work on it failed"
    return "the last `up` failed" if failure_of.startswith("up ") else f"{failure_of} could not heal it"
