"""What a dataset's member tells, on its way to another."""

from __future__ import annotations

import pytest

from tests.unit.agent.dataset.tales import LOG, ME, SECOND, down, primary, replica
from valkeyctl.agent.dataset.tale import DatasetTale


@pytest.mark.parametrize("tale", [down(), down(data=LOG), replica(SECOND, linked=True), primary(ME)])
def test_what_is_told_is_heard(tale: DatasetTale) -> None:
    assert DatasetTale.decode(tale.encode()) == tale


def test_what_a_later_version_adds_is_passed_over_and_what_lacks_has_its_default() -> None:
    assert DatasetTale.decode(b'{"member": "s0-1", "later": 1}') == DatasetTale(SECOND)


@pytest.mark.parametrize(
    "text",
    [
        b"nonsense",
        b"[]",
        b"{}",
        b'{"member": "s0-1", "held": 1}',
        b'{"member": "s0-1", "upstream": "x"}',
        b'{"member": "s0-1", "data": {"offset": "1"}}',
        b'{"member": "s0-1", "role": "king"}',
    ],
)
def test_nonsense_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        DatasetTale.decode(text)
