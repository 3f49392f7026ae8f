"""A kube-proxy that gave up is started anew, and only where it has had its time."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from local.cluster import mending
from local.cluster.cluster import Cluster
from local.cluster.health import Fault
from local.cluster.layout import DNS_SERVICE

SILENT = f"kubernetes.default.svc.cluster.local isn't found through {DNS_SERVICE}: timed out"


class Machine:
    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[tuple[str, bool]] = []

    def enabled(self) -> dict[str, bool]:
        return {"kube-proxy": True, "kubelet": True}

    def enable(self, service: str, *, on: bool) -> None:
        self.told.append((service, on))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(mending, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def test_only_a_node_that_stays_silent_gets_its_proxy_anew_and_again(clock: SimpleNamespace) -> None:
    machines = [Machine(f"node{number}") for number in (1, 2, 3)]
    mend = mending.Mender(cast("Cluster", cast("Any", SimpleNamespace(machines=machines))))
    both = [Fault(SILENT, "node2"), Fault(SILENT, "node3"), Fault("kubelet doesn't run", "node1")]
    mend(both)
    clock.s = 5.0
    mend(both[1:])  # node2 came by itself
    clock.s = 11.0
    mend(both)
    anew = [("kube-proxy", False), ("kube-proxy", True)]
    assert [machine.told for machine in machines] == [[], [], anew]
    clock.s = 20.0
    mend(both[1:])
    assert machines[2].told == anew, "it has its time again"
    clock.s = 22.0
    mend(both[1:])
    assert machines[2].told == anew * 2
    assert machines[1].told == []
