"""Runs in a Pod inside the cluster: a Valkey client as an application has it. Speaks JSON on its output.

python client.py write HOST FIRST COUNT    writes k<n> = v<n>; prints the numbers that were acknowledged
python client.py fill HOST COUNT SIZE      writes f<n> = SIZE random bytes, many at a time; prints how many
python client.py verify HOST               reads numbers from stdin; prints those whose value is not as written
python client.py count HOST                prints the number of keys on all primaries
python client.py connect HOST PORT         prints whether a connection opens within two seconds
python client.py record HOST FIRST EVERY_MS STOP WAIT
    writes k<n> = v<n>, one at a time, until the file STOP exists; a write that fails is tried again until it succeeds.
    WAIT: after each write WAIT that many replicas, for 1 s at most; only what they confirmed counts as acknowledged.
    Prints "started" on standard error with the first acknowledged write, and at the end
    {"first", "acknowledged", "unconfirmed", "gap_ms", "gap_at_s", "errors"}: numbers from `first` on.
"""

import importlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

FILL_BATCH = 500
LIBRARY_S = 60
PASSWORD = Path("/password") / os.environ.get("PASSWORD_KEY", "password")


def cluster(host: str) -> Any:
    from valkey.cluster import ValkeyCluster  # noqa: PLC0415 - only needed by some commands

    return ValkeyCluster(
        host=host,
        port=6379,
        password=PASSWORD.read_bytes().decode(),
        socket_timeout=5,
        socket_connect_timeout=5,
        decode_responses=True,
    )


def write(host: str, first: int, count: int) -> list[int]:
    client = cluster(host)
    return [number for number in range(first, first + count) if client.set(f"k{number}", f"v{number}")]


def fill(host: str, count: int, size: int) -> int:
    client = cluster(host)
    keys_of: dict[str, list[str]] = {}
    for number in range(count):
        key = f"f{number}"
        keys_of.setdefault(client.get_node_from_key(key).name, []).append(key)
    for name, keys in keys_of.items():
        node = client.get_valkey_connection(client.get_node(node_name=name))
        for at in range(0, len(keys), FILL_BATCH):
            with node.pipeline(transaction=False) as batch:
                for key in keys[at : at + FILL_BATCH]:
                    batch.set(key, os.urandom(size))
                batch.execute()
    return count


def verify(host: str, numbers: list[int]) -> list[int]:
    client = cluster(host)
    return [number for number in numbers if client.get(f"k{number}") != f"v{number}"]


def count(host: str) -> int:
    return cluster(host).dbsize(target_nodes="primaries")


def connect(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False


def record(host: str, first: int, every_ms: float, stop: str, wait: int) -> dict[str, Any]:
    from valkey.exceptions import ValkeyClusterException, ValkeyError  # noqa: PLC0415 - the first is none of the second

    client = cluster(host)
    number, errors, unconfirmed = first, dict[str, int](), list[int]()
    began = last = time.monotonic()
    gap_ms, gap_at_s = 0.0, 0.0
    while not Path(stop).exists():
        try:
            client.set(f"k{number}", f"v{number}")
            node = client.get_node_from_key(f"k{number}")
            if wait and client.execute_command("WAIT", wait, 1000, target_nodes=node) < wait:
                unconfirmed.append(number)
        except (ValkeyError, ValkeyClusterException, OSError, AttributeError) as error:
            errors[type(error).__name__] = errors.get(type(error).__name__, 0) + 1
            if isinstance(error, AttributeError):
                # So the library fails at an ASK to a node that it has never heard of; an application would start anew.
                client = cluster(host)
            time.sleep(0.005)
            continue
        now = time.monotonic()
        if number == first:
            sys.stderr.write("started\n")
            sys.stderr.flush()
        elif (now - last) * 1000 > gap_ms:
            gap_ms, gap_at_s = (now - last) * 1000, last - began
        last = now
        number += 1
        time.sleep(every_ms / 1000)
    # A writer that still waits when it is stopped has its gap, too.
    gap_ms = max(gap_ms, (time.monotonic() - last) * 1000 - every_ms)
    return {
        "first": first,
        "acknowledged": number - first,
        "unconfirmed": unconfirmed,
        "gap_ms": round(gap_ms, 1),
        "gap_at_s": round(gap_at_s, 1),
        "errors": errors,
    }


def library_is_there() -> None:
    """It is laid out while the Pod starts."""
    library = Path(os.environ["PYTHONPATH"])
    deadline = time.monotonic() + LIBRARY_S
    while not library.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    # A folder that wasn't there when Python started is believed missing.
    importlib.invalidate_caches()


def main(command: str, host: str, *rest: str) -> object:
    library_is_there()
    if command == "write":
        return write(host, int(rest[0]), int(rest[1]))
    if command == "fill":
        return fill(host, int(rest[0]), int(rest[1]))
    if command == "verify":
        return verify(host, json.load(sys.stdin))
    if command == "count":
        return count(host)
    if command == "record":
        return record(host, int(rest[0]), float(rest[1]), rest[2], int(rest[3]))
    return connect(host, int(rest[0]))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
