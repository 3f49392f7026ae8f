"""Units sent through a network of arcs with limited room, each along the cheapest path that is left.

Successive shortest paths: whatever was sent before is rerouted where that is cheaper, so that after each unit the whole
costs as little as it can for what was sent.
"""

from __future__ import annotations

from collections import deque

_FAR = 1 << 62


class Network:
    """Points are numbered from 0, arcs as they were drawn. Costs are whole numbers, none of them negative."""

    def __init__(self, points: int) -> None:
        self._from: list[list[int]] = [[] for _ in range(points)]
        # An arc and its way back stand side by side: `arc ^ 1` is the other one.
        self._head: list[int] = []
        self._room: list[int] = []
        self._cost: list[int] = []

    def draw(self, tail: int, head: int, *, room: int = 1, cost: int = 0) -> int:
        """An arc from `tail` to `head`; returns its number."""
        arc = len(self._head)
        for point, to, units, each in ((tail, head, room, cost), (head, tail, 0, -cost)):
            self._from[point].append(len(self._head))
            self._head.append(to)
            self._room.append(units)
            self._cost.append(each)
        return arc

    def widen(self, arc: int) -> None:
        """Makes room for one more unit. Only where nothing costs anything: what was sent stays where it is, and would
        have cheaper ways then.
        """
        self._room[arc] += 1

    def is_full(self, arc: int) -> bool:
        """Whether no more fits through."""
        return self._room[arc] == 0

    def send(self, source: int, sink: int) -> bool:
        """One unit more, along the cheapest path; False, and nothing changed, where there is none."""
        by = self._paths(source)
        if by[sink] < 0:
            return False
        point = sink
        while point != source:
            arc = by[point]
            self._room[arc] -= 1
            self._room[arc ^ 1] += 1
            point = self._head[arc ^ 1]
        return True

    def _paths(self, source: int) -> list[int]:
        """By point, the arc by which the cheapest path comes to it (Bellman and Ford, with a queue); -1 without one."""
        far, by = [_FAR] * len(self._from), [-1] * len(self._from)
        waits = [False] * len(self._from)
        far[source] = 0
        queue = deque((source,))
        while queue:
            point = queue.popleft()
            waits[point] = False
            for arc in self._from[point]:
                head, reached = self._head[arc], far[point] + self._cost[arc]
                if self._room[arc] and reached < far[head]:
                    far[head], by[head] = reached, arc
                    if not waits[head]:
                        waits[head] = True
                        queue.append(head)
        return by
