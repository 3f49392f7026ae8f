"""Quantities of Kubernetes and memory values of the server."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.memory import default_maxmemory
from components.quantity import memory_bytes, quantity, size_bytes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1", 1),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("100m", Fraction(1, 10)),
        ("1u", Fraction(1, 10**6)),
        ("1n", Fraction(1, 10**9)),
        ("1k", 1000),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1Ki", 1024),
        ("128Mi", 134217728),
        ("1.5Gi", 1610612736),
        ("1Ei", 2**60),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(12, 10)),
    ],
)
def test_quantity(text: str, value: Fraction) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", " ", "1 Gi", "1gi", "1GB", "-1", "+1", "1,5", "Gi", "1e", "1e3Mi", "0x10", "1e99"]
)
def test_not_a_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity(text)


@given(st.integers(min_value=1, max_value=2**50), st.sampled_from(["", "k", "M", "G", "Ki", "Mi", "Gi"]))
def test_sizes_are_whole_numbers(number: int, unit: str) -> None:
    assert size_bytes(f"{number}{unit}") == quantity(f"{number}{unit}")


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("1b", 1), ("1k", 1000), ("1kb", 1024), ("100mb", 104857600), ("1GB", 2**30), ("1g", 10**9)],
)
def test_memory(text: str, value: int) -> None:
    assert memory_bytes(text) == value


@pytest.mark.parametrize("text", ["", "-1", "1.5gb", "1 gb", "1Mi", "gb", "1tb", "9223372036854775808"])
def test_not_memory(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a memory value|more than the server"):
        memory_bytes(text)


@given(st.integers(min_value=2**25, max_value=2**40), st.booleans())
def test_the_dataset_leaves_room_below_the_limit(limit: int, persistent: bool) -> None:  # noqa: FBT001
    share = default_maxmemory(limit, persistent=persistent)
    assert 0.59 * limit < share < 0.76 * limit
    assert default_maxmemory(limit, persistent=True) < default_maxmemory(limit, persistent=False)
