"""`dns_probe.py SERVER NAME` prints the first address that this server has for a name, or why there is none."""

import secrets
import socket
import struct
import sys

_TIMEOUT_S = 3.0


def question(name: str, number: int) -> bytes:
    """A query for the IPv4 address of a name (RFC 1035)."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", 1, 1)


def address(answer: bytes, asked: bytes) -> str | None:
    """The first address in an answer; None when it has none. The server repeats the question, then answers it."""
    count = struct.unpack("!H", answer[6:8])[0]
    if answer[3] & 0x0F or count == 0:
        return None
    at = len(asked)
    for _ in range(count):
        at += 2 if answer[at] >= 0xC0 else answer.index(b"\0", at) - at + 1
        kind, _, _, length = struct.unpack("!2HIH", answer[at : at + 10])
        at += 10
        if kind == 1:
            return socket.inet_ntoa(answer[at : at + 4])
        at += length
    return None


def main() -> None:
    server, name = sys.argv[1:]
    asked = question(name, secrets.randbits(16))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(_TIMEOUT_S)
        try:
            udp.connect((server, 53))
            udp.send(asked)
            answer = udp.recv(4096)
        except OSError as error:
            sys.exit(f"{server} doesn't answer: {error}")
    print(address(answer, asked) or f"{server} doesn't know the name")


if __name__ == "__main__":
    main()
