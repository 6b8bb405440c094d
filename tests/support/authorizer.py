"""The authorizer as a process, as it is run in front of a service, and a service that counts what reaches it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from backends import listens
from controlplane.ports import LOOPBACK, free_port
from controlplane.process import Process
from support.waiting import wait_for

STOPPED_WITHIN_SECONDS = 15.0


@dataclass
class Authorizer:
    """A running worklease-fence."""

    process: Process
    http_port: int
    grpc_port: int


def command(store: str, http_port: int, grpc_port: int) -> list[str]:
    """What a person types."""
    return [
        sys.executable, "-m", "worklease.fencing.authorizer.command",
        "--store", store, "--http", f"{LOOPBACK}:{http_port}", "--grpc", f"{LOOPBACK}:{grpc_port}",
    ]  # fmt: skip


@contextlib.contextmanager
def authorizer(store: str, directory: Path) -> Iterator[Authorizer]:
    """The authorizer on free ports, ready; stopped at the end."""
    http_port, grpc_port = free_port(), free_port()
    process = Process("worklease-fence", command(store, http_port, grpc_port), directory / f"fence-{http_port}.log")
    try:
        wait_for(
            lambda: process.exit_code is not None or (listens(http_port) and listens(grpc_port)), "worklease-fence"
        )
        assert process.exit_code is None, process.last_lines()
        yield Authorizer(process, http_port, grpc_port)
    finally:
        process.stop(STOPPED_WITHIN_SECONDS)


@dataclass
class Upstream:
    """A service that knows nothing of leases: the paths that reached it."""

    port: int
    received: list[str] = field(default_factory=list)


@contextlib.contextmanager
def upstream() -> Iterator[Upstream]:
    """Answers every request with 200 and takes note of it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            service.received.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Length", "7")
            self.end_headers()
            self.wfile.write(b"charged")

        do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    service = Upstream(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield service
    server.shutdown()
    thread.join()
    server.server_close()


def environment() -> dict[str, str]:
    """The environment of a child that shall import what we import."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
