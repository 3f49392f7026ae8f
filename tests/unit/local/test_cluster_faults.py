"""Which machines a cut is between, and the packet filter that it comes to."""

from pathlib import Path

import pytest

from local.cluster.faults import Loss, ends, rules
from local.cluster.layout import CONTROL_PLANE, Layout
from local.errors import LocalError

LAYOUT = Layout(Path("/somewhere"))


@pytest.mark.parametrize(
    ("near", "far", "pairs"),
    [
        ("node1", "node2", [("node1", "node2", False)]),
        ("1", "3", [("node1", "node3", False)]),
        ("2", "others", [("node2", "node1", False), ("node2", "node3", False)]),
        ("2", "all", [("node2", "node1", False), ("node2", "node3", False), ("node2", CONTROL_PLANE, False)]),
        ("2", "api", [("node2", CONTROL_PLANE, True)]),
        ("api", "2", [(CONTROL_PLANE, "node2", True)]),
        ("2", "control-plane", [("node2", CONTROL_PLANE, False)]),
        (
            "api",
            "others",
            [(CONTROL_PLANE, "node1", True), (CONTROL_PLANE, "node2", True), (CONTROL_PLANE, "node3", True)],
        ),
    ],
)
def test_ends(near: str, far: str, pairs: list[tuple[str, str, bool]]) -> None:
    assert ends(LAYOUT, near, far) == pairs


@pytest.mark.parametrize(("near", "far"), [("node4", "1"), ("1", "node9"), ("others", "1"), ("1", "1"), ("1", "")])
def test_what_is_no_machine_is_refused(near: str, far: str) -> None:
    with pytest.raises(LocalError):
        ends(LAYOUT, near, far)


def test_a_cut_drops_all_that_the_other_sends() -> None:
    text = rules(LAYOUT, "node2", [Loss("node1", "node2", 100), Loss("node2", "node1", 100)])
    assert text.splitlines() == [
        "*raw",
        ":VALKEY-LOCAL-CUT - [0:0]",
        "-A VALKEY-LOCAL-CUT -s 10.201.0.11 -j DROP",
        "-A VALKEY-LOCAL-CUT -s 10.244.1.0/24 -j DROP",
        "COMMIT",
    ]


def test_a_loss_drops_a_share() -> None:
    text = rules(LAYOUT, "node2", [Loss(CONTROL_PLANE, "node2", 25)])
    assert "-s 10.201.0.1 -m statistic --mode random --probability 0.25 -j DROP" in text


def test_names_are_still_answered_when_only_the_api_server_is_cut_off() -> None:
    at_node = rules(LAYOUT, "node2", [Loss(CONTROL_PLANE, "node2", 100, keep_dns=True)]).splitlines()
    assert at_node[2:4] == [
        "-A VALKEY-LOCAL-CUT -s 10.201.0.1 -p udp --sport 53 -j RETURN",
        "-A VALKEY-LOCAL-CUT -s 10.201.0.1 -p tcp --sport 53 -j RETURN",
    ]
    at_control_plane = rules(LAYOUT, CONTROL_PLANE, [Loss("node2", CONTROL_PLANE, 100, keep_dns=True)])
    assert "-s 10.244.2.0/24 -p udp --dport 53 -j RETURN" in at_control_plane


def test_without_losses_the_chain_is_emptied() -> None:
    assert rules(LAYOUT, "node1", []).splitlines() == ["*raw", ":VALKEY-LOCAL-CUT - [0:0]", "COMMIT"]
