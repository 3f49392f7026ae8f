"""Runs in a Pod inside the cluster: a Valkey client as an application has it. Speaks JSON on its output.

HOST is the name of a cluster's Service; or `one:NAME`, a Service or a Pod with a single server behind it; or
`sentinel:SERVICE/NAME`, the primary that the Sentinels behind SERVICE call NAME.

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
python client.py rivals HOST,HOST,… FIRST EVERY_MS STOP
    writes to each of these servers at its own address, all at a time, until the file STOP exists. Prints "started" on
    standard error at once, and at the end for each HOST [[number, sent, acknowledged], …] of the writes that it took,
    with times in seconds of the machine's own clock, which all Pods on all nodes here share.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

FILL_BATCH = 500
PASSWORD = Path("/password") / os.environ.get("PASSWORD_KEY", "password")
SENTINELS_PASSWORD = Path("/sentinel/password")
PATIENCE_S = 5


def client_of(host: str) -> Any:
    kind, colon, rest = host.partition(":")
    if not colon:
        return cluster(host)
    return single(rest) if kind == "one" else watched(*rest.split("/"))


def single(host: str) -> Any:
    from valkey import Valkey  # noqa: PLC0415 - only needed by some commands

    return Valkey(host=host, port=6379, **_options())


def watched(host: str, name: str) -> Any:
    from valkey.sentinel import Sentinel  # noqa: PLC0415 - only needed by some commands

    asking = {"password": SENTINELS_PASSWORD.read_bytes().decode(), "socket_timeout": PATIENCE_S}
    return Sentinel([(host, 26379)], sentinel_kwargs=asking, **_options()).master_for(name)


def _options() -> dict[str, Any]:
    return {
        "password": PASSWORD.read_bytes().decode(),
        "socket_timeout": PATIENCE_S,
        "socket_connect_timeout": PATIENCE_S,
        "decode_responses": True,
    }


def cluster(host: str) -> Any:
    from valkey.cluster import ValkeyCluster  # noqa: PLC0415 - only needed by some commands

    return ValkeyCluster(host=host, port=6379, **_options())


def write(host: str, first: int, count: int) -> list[int]:
    client = client_of(host)
    return [number for number in range(first, first + count) if client.set(f"k{number}", f"v{number}")]


def fill(host: str, count: int, size: int) -> int:
    client = client_of(host)
    names = [f"f{number}" for number in range(count)]
    if ":" in host:
        _fill(client, names, size)
        return count
    keys_of: dict[str, list[str]] = {}
    for key in names:
        keys_of.setdefault(client.get_node_from_key(key).name, []).append(key)
    for name, keys in keys_of.items():
        _fill(client.get_valkey_connection(client.get_node(node_name=name)), keys, size)
    return count


def _fill(node: Any, keys: list[str], size: int) -> None:
    for at in range(0, len(keys), FILL_BATCH):
        with node.pipeline(transaction=False) as batch:
            for key in keys[at : at + FILL_BATCH]:
                batch.set(key, os.urandom(size))
            batch.execute()


def verify(host: str, numbers: list[int]) -> list[int]:
    client = client_of(host)
    return [number for number in numbers if client.get(f"k{number}") != f"v{number}"]


def count(host: str) -> int:
    return client_of(host).dbsize(**({} if ":" in host else {"target_nodes": "primaries"}))


def connect(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False


def record(host: str, first: int, every_ms: float, stop: str, wait: int) -> dict[str, Any]:
    from valkey.exceptions import ValkeyClusterException, ValkeyError  # noqa: PLC0415 - the first is none of the second

    client = client_of(host)
    number, errors, unconfirmed = first, dict[str, int](), list[int]()
    began = last = time.monotonic()
    gap_ms, gap_at_s = 0.0, 0.0
    while not Path(stop).exists():
        try:
            client.set(f"k{number}", f"v{number}")
            if wait and _confirmed(client, host, f"k{number}", wait) < wait:
                unconfirmed.append(number)
        except (ValkeyError, ValkeyClusterException, OSError, AttributeError) as error:
            errors[type(error).__name__] = errors.get(type(error).__name__, 0) + 1
            # An AttributeError: so the library fails at an ASK to a node that it has never heard of. And the single
            # server that a connection leads to may have become a replica. An application would start anew.
            if ":" in host or isinstance(error, AttributeError):
                client = client_of(host)
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


def rivals(hosts: list[str], first: int, every_ms: float, stop: str) -> dict[str, list[tuple[int, float, float]]]:
    sys.stderr.write("started\n")
    sys.stderr.flush()
    with ThreadPoolExecutor(len(hosts)) as pool:
        ranges = [first + place * 1_000_000 for place in range(len(hosts))]
        found = pool.map(lambda host, start: _taken(host, start, every_ms, stop), hosts, ranges)
        return dict(zip(hosts, found, strict=True))


def _taken(host: str, first: int, every_ms: float, stop: str) -> list[tuple[int, float, float]]:
    """What a server took of what was written to it, one at a time."""
    from valkey import Valkey  # noqa: PLC0415 - only needed by some commands
    from valkey.exceptions import ValkeyError  # noqa: PLC0415

    # Whom nobody hears is to be tried again soon.
    client = Valkey(host=host, port=6379, **{**_options(), "socket_timeout": 1, "socket_connect_timeout": 1})
    number, taken = first, list[tuple[int, float, float]]()
    while not Path(stop).exists():
        sent = time.monotonic()
        try:
            client.set(f"k{number}", f"v{number}")
        except (ValkeyError, OSError):
            time.sleep(0.02)
        else:
            taken.append((number, sent, time.monotonic()))
            time.sleep(every_ms / 1000)
        number += 1
    return taken


def _confirmed(client: Any, host: str, key: str, wait: int) -> int:
    """How many replicas have what was written to the server of `key`; waits for 1 s at most."""
    whom = {} if ":" in host else {"target_nodes": client.get_node_from_key(key)}
    return client.execute_command("WAIT", wait, 1000, **whom)


COMMANDS: dict[str, Callable[..., object]] = {
    "write": lambda host, first, count: write(host, int(first), int(count)),
    "fill": lambda host, count, size: fill(host, int(count), int(size)),
    "verify": lambda host: verify(host, json.load(sys.stdin)),
    "count": count,
    "connect": lambda host, port: connect(host, int(port)),
    "record": lambda host, first, every_ms, stop, wait: record(host, int(first), float(every_ms), stop, int(wait)),
    "rivals": lambda hosts, first, every_ms, stop: rivals(hosts.split(","), int(first), float(every_ms), stop),
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
