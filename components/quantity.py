"""Kubernetes quantities and the server's memory values, read exactly."""

from __future__ import annotations

import re
from fractions import Fraction

_QUANTITY = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MEMORY = re.compile(r"(\d+)(b|kb?|mb?|gb?)?", re.IGNORECASE)
_MEMORY_UNITS = {"b": 1, "k": 10**3, "kb": 2**10, "m": 10**6, "mb": 2**20, "g": 10**9, "gb": 2**30}
#: What the server can hold in the type that it keeps memory values in.
MAX_MEMORY = 2**63 - 1


def quantity(text: str) -> Fraction:
    """The value of a quantity: "100m" is 1/10, "1Gi" is 1073741824.

    Raises ValueError, saying how one is written. Follows Kubernetes' own serialisation format for quantities; there are
    no negative ones here.
    """
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError("not a quantity; written like 100m, 0.5, 128Mi, 1Gi")
    number, exponent, suffix = Fraction(match[1]), match[2], match[3]
    if exponent:
        if abs(int(exponent[1:])) > 30:
            raise ValueError("not a quantity that Kubernetes can hold")
        return number * Fraction(10) ** int(exponent[1:])
    if suffix in _BINARY:
        return number * 2 ** _BINARY[suffix]
    return number * Fraction(10) ** _DECIMAL.get(suffix or "", 0)


def size_bytes(text: str) -> int:
    """The bytes that a quantity of memory or storage stands for.

    Raises ValueError when it is none, and when it is less than a byte (`128m`: m means a thousandth).
    """
    value = quantity(text)
    if value < 1:
        hint = f"; m means a thousandth, did you mean {text[:-1]}Mi?" if text.endswith("m") else ""
        raise ValueError(f"less than one byte{hint}")
    return int(value)


def memory_bytes(text: str) -> int:
    """The bytes that a memory value of the server's configuration stands for: "100mb", "1gb", "1048576".

    Raises ValueError. In the server's own way k, m and g are powers of 1000, and kb, mb and gb of 1024.
    """
    match = _MEMORY.fullmatch(text)
    if not match:
        hint = " (the server has no Mi and Gi: mb and gb are powers of 1024)" if text.endswith("i") else ""
        raise ValueError(f"not a memory value of the server; written like 100mb, 1gb, 1048576{hint}")
    value = int(match[1]) * _MEMORY_UNITS[(match[2] or "b").lower()]
    if value > MAX_MEMORY:
        raise ValueError("more than the server can hold")
    return value
