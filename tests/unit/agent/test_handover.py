"""Which replica is handed over to."""

from __future__ import annotations

import pytest

from valkeyctl.agent.handover import Copy, copies
from valkeyctl.agent.state import Phase, ServerState


def state(*lines: str) -> ServerState:
    return ServerState(1, Phase.SERVING, 0, 0, info="\r\n".join(("role:master", *lines)).encode())


def test_the_one_that_has_most_comes_first() -> None:
    told = state(
        "slave0:ip=10.0.0.1,port=6379,state=online,offset=90,lag=0",
        "slave1:ip=10.0.0.2,port=6379,state=online,offset=100,lag=1,type=replica",
    )
    assert copies(told) == [Copy("10.0.0.2", 6379, 100), Copy("10.0.0.1", 6379, 90)]


def test_an_address_of_any_family() -> None:
    assert copies(state("slave0:ip=fd00::1,port=6379,state=online,offset=1,lag=0")) == [Copy("fd00::1", 6379, 1)]


@pytest.mark.parametrize("how", ["wait_bgsave", "send_bulk", "handshake"])
def test_one_that_is_not_in_sync_is_none(how: str) -> None:
    assert copies(state(f"slave0:ip=10.0.0.1,port=6379,state={how},offset=0,lag=0")) == []
    assert copies(state("slave_read_only:1", "connected_slaves:0")) == []
