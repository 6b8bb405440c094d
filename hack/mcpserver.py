"""A shared MCP server on a free port, for as long as a context lasts; it has no credentials of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import IO

from controlplane.ports import LOOPBACK, free_port

UP_WITHIN_SECONDS = 60.0
STOPPED_WITHIN_SECONDS = 30.0
POLL_SECONDS = 0.1


@contextlib.contextmanager
def serving(
    api_server: str, authority: str, *flags: str, output: IO[bytes] | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Its URL and its process. It knows of the API server only where it is and by which CA."""
    address = f"{LOOPBACK}:{free_port()}"
    command = [sys.executable, "-m", "worklease.mcp", "--http", address, "--api-server", api_server]
    command += ["--certificate-authority", authority, *flags]
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {"HOME": "/nonexistent"}
    process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        deadline_monotonic = time.monotonic() + UP_WITHIN_SECONDS
        while not _is_up(address):
            assert process.poll() is None, f"the server ended with {process.returncode}"
            assert time.monotonic() < deadline_monotonic, f"waited {UP_WITHIN_SECONDS:g} s for the server to answer"
            time.sleep(POLL_SECONDS)
        yield f"http://{address}/mcp", process
    finally:
        process.terminate()
        try:
            process.wait(STOPPED_WITHIN_SECONDS)
        finally:
            process.kill()
            process.wait()


def _is_up(address: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
