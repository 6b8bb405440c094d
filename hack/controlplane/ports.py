"""Free ports on the loopback address, outside the range that outgoing connections take theirs from."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
LOWEST = 10240
ATTEMPTS = 200


def free_port() -> int:
    """A port that nothing listens on. Somebody may still be faster, so whoever uses it has to be ready to retry."""
    for _ in range(ATTEMPTS):
        port = random.randrange(LOWEST, _first_ephemeral())
        with socket.socket() as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port on {LOOPBACK} after {ATTEMPTS} attempts")


def _first_ephemeral() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768
    return first if first > LOWEST + 1000 else 65536
