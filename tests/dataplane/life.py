"""A cluster through its life: formed, declared otherwise, disturbed, converged in part and as a whole, and checked."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

import valkey

from tests.dataplane import scenes
from tests.dataplane.faults import Faults
from tests.dataplane.kept import Kept
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet
from valkeyctl.dataplane import (
    SLOTS,
    Done,
    Migration,
    Role,
    SlotSet,
    Spec,
    Steps,
    View,
    apply,
    errors,
    plan,
    planned_layout,
)
from valkeyctl.dataplane.freshness import Freshness
from valkeyctl.dataplane.plan_replicas import in_sync
from valkeyctl.dataplane.slots import union

#: What a server has acknowledged is on its disk, so that one that is killed comes back with all of it.
DURABLE = {"appendonly": "yes", "appendfsync": "always"}
CONVERGE_S, BANNED_CONVERGE_S = 120.0, 10.0
REST_S = 10.0
IDLE_S = 1.0
"""A converge that is to end after some steps also ends when nothing was to be done for so long."""


def declared(shards: int, former: Spec | None = None, method: str = "auto") -> Spec:
    """A formed instance of so many shards with a replica each; slots stay where they are in a former one."""
    return Spec(
        "t",
        shards,
        1,
        planned_layout(shards, former.layout if former else None),
        formed=True,
        persistent=True,
        node_timeout_ms=NODE_TIMEOUT_MS,
        migration=former.migration if former else Migration(method=method),  # type: ignore[arg-type]
    )


class Life:
    """See the module. `tale` tells all that has happened, line by line; `broken` says that a converge failed."""

    def __init__(self, line: str, shards: int, method: str = "auto") -> None:
        self.tale: list[str] = [f"{shards} shards of {line}"]
        self.broken = False
        self._fleet = Fleet(replace(declared(shards, method=method), formed=False), line, DURABLE)
        self.faults = Faults(self._fleet, self.tale.append)
        self.kept = Kept(self._fleet)
        self._fleet.start()
        self.converge()
        self._fleet.spec = declared(shards, self._fleet.spec)

    def end(self) -> None:
        """Its servers end, and their disks go."""
        self._fleet.__exit__(None, None, None)

    def write(self, keys: list[str], *, delete: bool = False) -> None:
        """Clients write, or delete."""
        if self._fleet.directory():
            self.tale.append(f"{'delete' if delete else 'write'} {', '.join(keys)}")
            self.kept.write(keys, delete=delete)

    def declare(self, shards: int) -> None:
        """Another number of shards: new servers run, and those that aren't declared any more still do."""
        self.tale.append(f"declare {shards} shards")
        spec = declared(shards, self._fleet.spec)
        self._fleet.spec = spec
        new = [member for member in spec.members if member not in self._fleet.servers]
        if new:
            self._fleet.start(*new)
        self._fleet.spec = replace(spec, leaving=tuple(sorted(set(self._fleet.servers) - set(spec.members))))

    def converge_partly(self, most: int) -> None:
        """A converge that ends after so many steps, each planned anew."""
        self.tale.append(f"take {most} steps")
        taken_at: dict[object, float] = {}
        taken, idle_since, freshness = 0, time.monotonic(), Freshness()
        while taken < most and time.monotonic() - idle_since < IDLE_S:
            what = plan(self._fleet.spec, View(freshness.mark(self._look().outcomes)))
            now = time.monotonic()
            actions = what.actions if isinstance(what, Steps) else ()
            # What has to be called for for a while is left to a whole converge.
            due = [a for a in actions if not a.sure_in_s and now - taken_at.get(a, float("-inf")) >= a.settles_in_s]
            if not due:
                time.sleep(0.05)
                continue
            step, said = due[0], ""
            taken_at[step], idle_since, taken = now, now, taken + 1
            try:
                apply(step, self._fleet.directory(), self._fleet.dialer)
            except errors.ValkeyctlError as error:
                said = f" ({error})"
            self.tale.append(f"  {step.describe()}{said}")

    def converge(self, *, with_all: bool = True) -> None:
        """A whole converge, and what has to be true after it.

        Where not `with_all`, members that leave and were killed stay away, if another one of their shard answers.
        """
        self.broken = True
        try:
            self._converge(with_all=with_all)
        except BaseException as error:
            error.add_note("\n".join([*self.tale, "", *self._tables()]))
            raise
        self.broken = False

    def _converge(self, *, with_all: bool) -> None:
        spec = self._fleet.spec
        alone = {s for s in spec.leaving_shards if not any(map(self.faults.is_up, spec.shard_members(s)))}
        servers = sorted(self._fleet.servers)
        self.faults.resume([m for m in servers if with_all or m not in spec.leaving or m.shard in alone])
        self.tale.append("converge")
        while time.monotonic() < self.faults.banned_until:
            # What is right now isn't a moment later: somebody still tells the others whom to forget.
            with suppress(errors.ValkeyctlError):
                scenes.run(self._fleet, deadline_s=BANNED_CONVERGE_S)
            time.sleep(1.0)
        view = scenes.run(self._fleet, deadline_s=CONVERGE_S)
        scenes.assert_ready(self._fleet, view, spec)
        for member in spec.leaving:
            self._fleet.servers.pop(member).kill()
        self._fleet.spec = replace(spec, leaving=())
        self._check(self._at_rest())
        self.faults.all_is_right()

    def _check(self, view: View) -> None:
        """All slots covered evenly, each by one owner to everybody; replicas in sync; no key lost."""
        owned = {node.node_id: node.slots for node in view.nodes.values() if node.slots}
        sizes = [len(slots) for slots in owned.values()]
        assert union(owned.values()) == SlotSet.all()
        assert sum(sizes) == SLOTS
        assert max(sizes) - min(sizes) <= 1
        for node in view.nodes.values():
            told = {peer.node_id: peer.slots for peer in node.peers.values() if peer.slots}
            assert told | ({node.node_id: node.slots} if node.slots else {}) == owned, str(node.member)
            if node.role is Role.REPLICA:
                primary = view.nodes[view.member_of_id[node.primary_id]]
                assert primary.member.shard == node.member.shard
                assert in_sync(node, primary)
                assert node.keys == primary.keys
        self.kept.check()

    def _at_rest(self) -> View:
        """A look that shows that nothing is left to do. Links may fail for a moment; servers see to that themselves."""
        deadline = time.monotonic() + REST_S
        while (what := plan(self._fleet.spec, view := self._look())) != Done():
            assert isinstance(what, Steps), what
            assert not what.actions, what.describe()
            assert time.monotonic() < deadline, what.describe()
            time.sleep(0.1)
        return view

    def _look(self) -> View:
        return scenes.look(self._fleet)

    def _tables(self) -> list[str]:
        """What each server says of the others, for who has to find out why a converge failed."""
        told: list[str] = []
        for member in sorted(self._fleet.directory()):
            try:
                told += [f"{member} says:", str(self._fleet.ask(member, "CLUSTER", "NODES"))]
            except (valkey.ValkeyError, OSError) as error:
                told.append(f"{member}: {error}")
        return told
