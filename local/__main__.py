"""`python -m local`: the command line of the local platform.

Exit codes: 0 all is well; 1 something isn't, said in words; 2 the command itself is wrong; 130 interrupted.
"""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated

import typer

from . import environment, images, packages, paths, stack, tools
from .cache import exclusive
from .cluster import bring_up, faults, health, teardown
from .cluster.cluster import Cluster, current
from .cluster.layout import Node
from .cluster.network import api_side
from .errors import LocalError
from .progress import Progress
from .status import table

app = typer.Typer(
    help="A real Kubernetes and a real Pulumi on this machine, in namespaces of their own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
node_app = typer.Typer(help="Play the faults of nodes.", no_args_is_help=True)
app.add_typer(node_app, name="node")

LOCAL_STACK = "local"
NodeArgument = Annotated[int, typer.Argument(metavar="N", help="The node's number.")]
NearArgument = Annotated[str, typer.Argument(metavar="A", help="node1, 1, control-plane or api (all of it but DNS)")]
FarArgument = Annotated[str, typer.Argument(metavar="B", help="as A, or others (all other nodes), or all")]


@app.command()
def up(
    stack_name: Annotated[str | None, typer.Option("--stack", metavar="NAME", help="Bring up this stack too.")] = None,
) -> None:
    """Set up whatever is missing: packages, tools, images, the cluster. Changes nothing where all is in order."""
    progress = Progress()
    with _alone(progress) as cluster:
        packages.ensure(progress)
        built = tools.ensure(progress)
        new = bring_up.ensure(cluster, built, images.ensure(progress), progress)
        progress.say("The cluster is in order")
        variables = environment.merged(_exports(cluster, built))
        if new:
            stack.forget(stack_name or LOCAL_STACK, variables, progress)
        if stack_name is not None:
            stack.up(stack_name, variables, progress)
            print(stack.how_to_connect(stack_name, variables), flush=True)
            stack.table(variables)


@app.command()
def down(
    stack_name: Annotated[str, typer.Option("--stack", metavar="NAME", help="Destroy this stack first.")] = LOCAL_STACK,
) -> None:
    """Remove the cluster and everything that it made, in whatever state it is. The cache of tools and images stays."""
    progress = Progress()
    with _alone(progress) as cluster:
        kept = _destroy(cluster, stack_name, progress)
        teardown.remove(cluster, progress, keep=environment.PULUMI_FOLDERS if kept else ())
        stacks = f", and the Pulumi state of {', '.join(kept)} in {cluster.layout.state / 'pulumi'}" if kept else ""
        progress.say(f"Nothing is left but the cache{stacks}")


@app.command()
def env() -> None:
    """Print the exports for a shell: eval "$(python -m local env)"."""
    cluster = current()
    print(environment.as_shell(_exports(cluster, tools.ensure(Progress()))))


@app.command()
def status() -> None:
    """Show the machines of the cluster, and whether all is in order (exit code 0) or not (1)."""
    cluster = current()
    record = cluster.record()
    if record is None:
        raise LocalError("there is no local cluster; `python -m local up` makes one")
    found = health.faults(cluster, record)
    table(cluster, record, found)
    if found:
        raise typer.Exit(1)


@node_app.command("stop")
def node_stop(n: NodeArgument) -> None:
    """End the kubelet in good order. The containers run on, and nobody watches over them."""
    _play(n, faults.stop_kubelet, "kubelet stopped")


@node_app.command("kill")
def node_kill(n: NodeArgument) -> None:
    """As if the power failed: the network, the kubelet and all containers are gone at once."""
    _play(n, faults.power_off, "power lost")


@node_app.command("freeze")
def node_freeze(n: NodeArgument) -> None:
    """Let all its processes stand still, as in a paused virtual machine."""
    _play(n, faults.freeze, "frozen")


@node_app.command("start")
def node_start(n: NodeArgument) -> None:
    """Bring it back from any of these, with its data, and wait until it is in order. Cuts stay."""
    progress = Progress()
    with _alone(progress) as cluster:
        node = cluster.layout.node(n)
        with progress.step(f"Starting {node.name}"):
            left = faults.start(cluster, node)
        if left:
            raise LocalError("\n".join([f"{node.name} isn't in order:", *(f"  {fault}" for fault in left)]))


@app.command()
def cut(
    a: NearArgument,
    b: FarArgument,
    *,
    loss: Annotated[int, typer.Option(metavar="PERCENT", min=1, max=100, help="How many packets are lost.")] = 100,
    one_way: Annotated[bool, typer.Option("--one-way", help="Lose only what A sends to B.")] = False,
) -> None:
    """Cut the network between two machines and their Pods, or make it lose packets. Stays until healed."""
    with _alone(Progress()) as cluster:
        faults.cut(cluster, a, b, percent=loss, one_way=one_way)


@app.command()
def heal(
    a: Annotated[str | None, typer.Argument(metavar="A")] = None,
    b: Annotated[str | None, typer.Argument(metavar="B")] = None,
) -> None:
    """Undo the cuts between two machines; without arguments, all cuts."""
    with _alone(Progress()) as cluster:
        if a is None:
            faults.heal_all(cluster)
        elif b is None:
            raise LocalError("heal takes two machines, or nothing at all")
        else:
            faults.heal(cluster, a, b)


@contextmanager
def _alone(progress: Progress) -> Generator[Cluster]:
    """The cluster, with no other command at work on it."""
    _must_be_root()
    cluster = current()
    lock = paths.cache_dir() / "locks" / cluster.layout.id
    waiting = f"Another command is at work on the cluster; waiting for it (lock {lock})"
    with exclusive(lock, waiting=lambda: progress.say(waiting)):
        yield cluster


def _must_be_root() -> None:
    if os.geteuid() != 0:
        raise LocalError("nodes need namespaces, mounts and control groups, which only root can make; run this as root")


def _play(n: int, fault: Callable[[Cluster, Node], None], done: str) -> None:
    progress = Progress()
    with _alone(progress) as cluster:
        node = cluster.layout.node(n)
        fault(cluster, node)
        progress.say(f"{node.name}: {done}; `python -m local node start {n}` brings it back")


def _exports(cluster: Cluster, built: tools.Tools) -> dict[str, str]:
    record = cluster.record()
    if record is None:
        raise LocalError("there is no local cluster yet; `make up` (or `python -m local up`) makes one")
    return environment.exports(built, str(api_side(record.host_link).ip))


def _destroy(cluster: Cluster, stack_name: str, progress: Progress) -> list[str]:
    """Destroy the stack where there is one and a cluster to destroy it on; what then is left goes with the cluster.

    Returns the other stacks of the backend: whatever they describe may be on a cluster that stays.
    """
    record = cluster.record()
    if record is None or not (cluster.layout.state / "pulumi").is_dir():
        return []
    variables = environment.merged(_exports(cluster, tools.ensure(progress)))
    try:
        if not health.faults(cluster, record):
            stack.destroy(stack_name, variables, progress)
    except LocalError as error:
        progress.say(f"The stack {stack_name} isn't destroyed, and goes with the cluster: {error}")
    return stack.others(stack_name, variables)


def main() -> None:
    try:
        app(prog_name="python -m local")
    except LocalError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command again goes on from here\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
