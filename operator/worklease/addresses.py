"""HOST:PORT as the commands take it: where to listen, with IPv6 in brackets and every interface by :PORT."""

from __future__ import annotations

from argparse import ArgumentTypeError

MAX_PORT = 65535


def address(text: str) -> tuple[str | None, int]:
    """The host, None for every interface of both families, and the port. Raises ArgumentTypeError, for a flag."""
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    brackets = bare is not host
    well_formed = not set("[]") & set(bare) and (":" in bare) == brackets and ":" in text
    if not well_formed or not (port.isascii() and port.isdecimal() and int(port) <= MAX_PORT):
        raise ArgumentTypeError(
            f"an address is HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080, or :PORT, not {text[:80]!r}"
        )
    return bare or None, int(port)


def shown(host: str | None, port: int) -> str:
    """The address as a person writes it."""
    return f"[{host}]:{port}" if host and ":" in host else f"{host or ''}:{port}"
