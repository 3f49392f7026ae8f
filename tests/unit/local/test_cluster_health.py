"""What a node's own words say about it, and how an answer of DNS is read."""

import struct
from typing import Any

import pytest

from local.cluster.dns_probe import address, question
from local.cluster.health import node_faults
from local.cluster.layout import Node

NODE = Node(2)


def _item(**changes: Any) -> dict[str, Any]:
    item: dict[str, Any] = {
        "metadata": {
            "name": "node2",
            "labels": {"topology.kubernetes.io/zone": "zone2", "kubernetes.io/hostname": "node2"},
        },
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True", "message": ""}]},
    }
    return item | changes


def test_a_node_in_order_has_no_faults() -> None:
    assert node_faults(NODE, _item()) == []


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (_item(metadata={"name": "node2", "labels": {"kubernetes.io/hostname": "node2"}}), "lacks its labels"),
        (_item(status={"conditions": []}), "no status yet"),
        (_item(status={"conditions": [{"type": "Ready", "status": "Unknown", "message": "silent"}]}), "silent"),
        (_item(spec={"taints": [{"key": "node.kubernetes.io/unreachable"}]}), "node.kubernetes.io/unreachable"),
    ],
)
def test_what_is_wrong_with_a_node_is_said(item: dict[str, Any], said: str) -> None:
    (fault,) = node_faults(NODE, item)
    assert fault.where == "node2"
    assert said in fault.what


def _answer(asked: bytes, *, code: int = 0, records: tuple[bytes, ...] = ()) -> bytes:
    return asked[:2] + struct.pack("!5H", 0x8180 | code, 1, len(records), 0, 0) + asked[12:] + b"".join(records)


def _record(kind: int, data: bytes, name: bytes = b"\xc0\x0c") -> bytes:
    return name + struct.pack("!2HIH", kind, 1, 30, len(data)) + data


def test_the_first_address_of_an_answer_is_found() -> None:
    asked = question("kubernetes.default.svc", 7)
    alias = _record(5, b"\x01a\x00")
    assert address(_answer(asked, records=(alias, _record(1, bytes([10, 96, 0, 1])))), asked) == "10.96.0.1"
    spelled = _record(1, bytes([10, 96, 0, 2]), name=b"\x03abc\x00")
    assert address(_answer(asked, records=(spelled,)), asked) == "10.96.0.2"


def test_an_answer_without_an_address_is_none() -> None:
    asked = question("nowhere", 7)
    assert address(_answer(asked, code=3), asked) is None
    assert address(_answer(asked), asked) is None
