"""The command worklease-fence: opens the store, serves HTTP and gRPC, ends in an orderly way on SIGTERM and SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from worklease.errors import MarkUnavailable
from worklease.fencing.authorizer.checker import Checker
from worklease.fencing.authorizer.stores import Store, open_store

STORE_VARIABLE = "WORKLEASE_FENCE_STORE"
GRACE_SECONDS = 5
EXIT_USAGE, EXIT_STORE, EXIT_PORT = 2, 3, 4
MAX_CONNECTIONS = 4096

log = logging.getLogger("worklease-fence")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until it is told to stop; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="worklease-fence",
        description="Refuses requests of leases that have passed on, for proxies: nginx auth_request, Envoy ext_authz.",
    )
    parser.add_argument(
        "--store",
        help=f"sqlite:PATH, owned by this process alone, or postgresql://..., for any number of replicas; "
        f"by default the environment's {STORE_VARIABLE}, where a password belongs",
    )
    parser.add_argument("--http", default="127.0.0.1:9412", help="HOST:PORT, by default %(default)s")
    parser.add_argument("--grpc", default="", help="HOST:PORT for ext_authz over gRPC; off by default")
    options = parser.parse_args(arguments)
    url = options.store or os.environ.get(STORE_VARIABLE)
    if not url:
        parser.error(f"say where the marks are kept: --store or {STORE_VARIABLE}")
    host, _, port = options.http.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        parser.error(f"--http is HOST:PORT, not {options.http[:80]!r}")
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        store = open_store(url)
    except MarkUnavailable as error:
        print(f"worklease-fence: {error}", file=sys.stderr)
        return EXIT_STORE
    try:
        listening = socket.create_server((host, int(port)), backlog=MAX_CONNECTIONS)
    except OSError as error:
        print(f"worklease-fence: cannot listen on {host}:{port}: {error.strerror}", file=sys.stderr)
        store.close()
        return EXIT_PORT
    with _runner() as runner:
        return runner.run(_serve(store, listening, options.grpc))


def _runner() -> asyncio.Runner:
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _serve(store: Store, listening: socket.socket, grpc_address: str) -> int:
    checker = Checker(store)
    grpc_server = None
    try:
        http_server = _http_server(checker)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, setattr, http_server, "should_exit", True)
        if grpc_address:
            grpc_server = await _start_grpc(checker, grpc_address)
        log.info("listening on %s:%d%s", *listening.getsockname()[:2], grpc_address and f", for gRPC {grpc_address}")
        await http_server.serve(sockets=[listening])
    except RuntimeError as error:  # How grpc reports an address that it cannot have.
        log.error("cannot listen on %s: %s", grpc_address, error)
        return EXIT_PORT
    finally:
        if grpc_server is not None:
            await grpc_server.stop(GRACE_SECONDS)
        await checker.close()
    return 0


def _http_server(checker: Checker) -> Any:
    import uvicorn

    from worklease.fencing.authorizer.http import application

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Both servers stop together, so the signals are ours."""
            yield

    return Server(
        uvicorn.Config(
            application(checker),
            access_log=False,
            lifespan="off",
            ws="none",
            log_config=None,
            server_header=False,
            date_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )


async def _start_grpc(checker: Checker, address: str) -> Any:
    import grpc.aio

    from worklease.fencing.authorizer.ext_authz import handler

    server = grpc.aio.server(maximum_concurrent_rpcs=MAX_CONNECTIONS)
    server.add_generic_rpc_handlers((handler(checker),))
    server.add_insecure_port(address)
    await server.start()
    return server


if __name__ == "__main__":
    sys.exit(main())
