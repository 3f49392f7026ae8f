"""Runs in a Pod inside the cluster: a Valkey client as an application has it. Speaks JSON on its output.

python client.py write HOST FIRST COUNT    writes k<n> = v<n>; prints the numbers that were acknowledged
python client.py verify HOST               reads numbers from stdin; prints those whose value is not as written
python client.py count HOST                prints the number of keys on all primaries
python client.py connect HOST PORT         prints whether a connection opens within two seconds
"""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

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


def main(command: str, host: str, *rest: str) -> object:
    if command == "write":
        return write(host, int(rest[0]), int(rest[1]))
    if command == "verify":
        return verify(host, json.load(sys.stdin))
    if command == "count":
        return count(host)
    return connect(host, int(rest[0]))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
