"""Carry out steps at Sentinels and servers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.dial import Credentials
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.sentinel import steps, wire
from valkeyctl.dataplane.sentinel.handing import Handing
from valkeyctl.dataplane.sentinel.model import Sentinel
from valkeyctl.dataplane.sentinel.steps import Action
from valkeyctl.dataplane.session import Command, Session

SENTINEL_COMMANDS_NEEDED: tuple[str, ...] = (
    "info",
    "sentinel|ckquorum",
    "sentinel|failover",
    "sentinel|master",
    "sentinel|monitor",
    "sentinel|myid",
    "sentinel|remove",
    "sentinel|replicas",
    "sentinel|reset",
    "sentinel|sentinels",
    "sentinel|set",
)
"""The rights that the operating user needs at the Sentinels, and no more."""
SERVER_COMMANDS_NEEDED: tuple[str, ...] = ("config|get", "config|set", "failover", "info", "replconf")
"""The rights that it needs at the servers for this, and no more."""

Failures = Mapping[Action, errors.ValkeyctlError]
# What is answered when a step had taken effect already, or is being carried out: it isn't a failure then.
_TOOK_EFFECT: Mapping[type[Action], tuple[str, ...]] = {
    steps.Monitor: ("Duplicate master name", "Duplicate primary name"),
    steps.Remove: ("No such master",),
    steps.Drop: ("No such master",),
    steps.Follow: ("INPROG",),
}


class Hands:
    """Carries out steps, over connections that stay open."""

    def __init__(self, sentinels: Links, servers: Links, monitor_as: Credentials) -> None:
        """`monitor_as` is with what the Sentinels sign in at the servers; it is told to nobody but them."""
        self._sentinels = sentinels
        self._servers = servers
        self._handing = Handing(sentinels, servers)
        self._monitor_as = monitor_as

    def carry_out(
        self,
        todo: Sequence[Action],
        sentinels: Mapping[Member, Endpoint],
        servers: Mapping[Member, Endpoint],
    ) -> Failures:
        """Take steps at all their places at once, those of one place in order. Returns those that failed, and why.

        A handover comes last and by itself, so that nothing else waits for it.
        """
        handovers = [step for step in todo if isinstance(step, steps.HandOver | steps.Coordinate)]
        others = [step for step in todo if not isinstance(step, steps.HandOver | steps.Coordinate)]
        at_sentinels = [step for step in others if isinstance(step.member, Sentinel)]
        at_servers = [step for step in others if not isinstance(step.member, Sentinel)]
        failed = {
            **self._all(self._sentinels, at_sentinels, sentinels),
            **self._all(self._servers, at_servers, servers),
        }
        for step in handovers:
            error = self._handing.hand_over(step, sentinels, servers)
            failed.update({step: error} if error is not None else {})
        return failed

    def _all(self, links: Links, todo: Sequence[Action], endpoints: Mapping[Member, Endpoint]) -> Failures:
        by_member: dict[Member, list[Action]] = defaultdict(list)
        failed: dict[Action, errors.ValkeyctlError] = {}
        for step in todo:
            if step.member in endpoints:
                by_member[step.member].append(step)
            else:
                failed[step] = errors.ConnectFailed(f"{step.member} has no Pod with an address", where=step.describe())

        def talk(session: Session) -> Failures:
            return self._one(session, by_member[session.endpoint.member])

        for member, told in links.each({member: endpoints[member] for member in by_member}, talk).items():
            failed.update(dict.fromkeys(by_member[member], told) if isinstance(told, errors.ValkeyctlError) else told)
        return failed

    def _one(self, session: Session, todo: Sequence[Action]) -> Failures:
        commands = [(step, command) for step in todo for command in commands_of(step, self._monitor_as)]
        replies = session.ask([command for _, command in commands])
        failed: dict[Action, errors.ValkeyctlError] = {}
        for (step, command), reply in zip(commands, replies, strict=True):
            if (
                isinstance(reply, errors.ValkeyctlError)
                and step not in failed
                and not _took_effect(step, command, reply)
            ):
                failed[step] = _in_our_words(reply)
        return failed


def commands_of(step: Action, monitor_as: Credentials) -> list[Command]:  # noqa: PLR0911  (one case a step)
    """What a step comes down to. Contains the password of `monitor_as` where the Sentinel needs it."""
    match step:
        case steps.MonitorAnew(name=name):
            return [("SENTINEL", "REMOVE", name), *_monitor(step, monitor_as)]
        case steps.Monitor():
            return _monitor(step, monitor_as)
        case steps.Remove(name=name) | steps.Drop(name=name):
            return [("SENTINEL", "REMOVE", name)]
        case steps.SetParameters(name=name, parameters=parameters):
            return [("SENTINEL", "SET", name, *_flat(wire.set_parameters(parameters)))]
        case steps.SetQuorum(name=name, quorum=quorum):
            return [("SENTINEL", "SET", name, "quorum", quorum)]
        case steps.SetAuth(name=name):
            return _sign_in(name, monitor_as)
        case steps.Reset(name=name):
            return [("SENTINEL", "RESET", name)]
        case steps.SetPriority(priority=priority):
            return [("CONFIG", "SET", "replica-priority", priority)]
        case steps.Follow(name=name):
            return [("SENTINEL", "FAILOVER", name)]
        case steps.HandOver() | steps.Coordinate():
            raise AssertionError("a handover goes on between servers and a Sentinel, and is no command to one")


def _monitor(step: steps.Monitor, monitor_as: Credentials) -> list[Command]:
    """A Sentinel that was told only the first of these is told the rest by the next plan."""
    return [
        ("SENTINEL", "MONITOR", step.name, step.address.host, step.address.port, step.quorum),
        *_sign_in(step.name, monitor_as),
        ("SENTINEL", "SET", step.name, *_flat(wire.set_parameters(step.parameters))),
    ]


def _sign_in(name: str, monitor_as: Credentials) -> list[Command]:
    """One command, so that no Sentinel signs in as the new user with the old password. Servers never log it."""
    if monitor_as.password is None:
        return []
    user: Command = ("auth-user", monitor_as.user or "")
    return [("SENTINEL", "SET", name, *user, "auth-pass", monitor_as.password)]


def _flat(options: Mapping[str, int]) -> Command:
    return tuple(part for pair in options.items() for part in pair)


def _in_our_words(reply: errors.ValkeyctlError) -> errors.ValkeyctlError:
    """A name may take DNS a while: who can't be found yet isn't a refusal, which would count."""
    if "Invalid IP address or hostname" not in reply.what:
        return reply
    return errors.ConnectFailed(
        "it doesn't find the primary's name",
        where=reply.where,
        remedy="See that DNS has the name, and that the Sentinel is started with `sentinel resolve-hostnames yes`.",
    )


def _took_effect(step: Action, command: Command, reply: errors.ValkeyctlError) -> bool:
    if isinstance(step, steps.MonitorAnew):
        return command[1] == "REMOVE" and "No such master" in reply.what
    return any(text in reply.what for text in _TOOK_EFFECT.get(type(step), ()))
