"""The command worklease-fence: opens the store, serves HTTP and gRPC, ends in an orderly way on SIGTERM and SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from worklease import __version__
from worklease.addresses import address, shown
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
    parser.add_argument("--version", action="version", version=f"worklease-fence {__version__}")
    parser.add_argument(
        "--http",
        default="127.0.0.1:9412",
        metavar="HOST:PORT",
        type=address,
        help="where to answer; IPv6 as [::1]:9412, every interface as :9412. Default: %(default)s",
    )
    parser.add_argument(
        "--grpc", metavar="HOST:PORT", type=address, help="where to answer ext_authz over gRPC; off by default"
    )
    options = parser.parse_args(arguments)
    url = options.store or os.environ.get(STORE_VARIABLE)
    if not url:
        parser.error(f"say where the marks are kept: --store or {STORE_VARIABLE}")
    if missing := _missing(grpc=options.grpc is not None, postgresql=url.startswith("postgres")):
        print(f"worklease-fence: {missing} is missing: pip install 'worklease[fence]'", file=sys.stderr)
        return EXIT_USAGE
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        store = open_store(url)
    except MarkUnavailable as error:
        print(f"worklease-fence: {error}", file=sys.stderr)
        return EXIT_STORE
    try:
        listening = _listen(*options.http)
    except OSError as error:
        print(f"worklease-fence: cannot listen on {shown(*options.http)}: {error.strerror}", file=sys.stderr)
        store.close()
        return EXIT_PORT
    with listening, _runner() as runner:
        return runner.run(_serve(store, listening, options.grpc))


def _missing(*, grpc: bool, postgresql: bool) -> str | None:
    """The first module that is needed and not installed."""
    for module in (
        "uvicorn",
        *(("grpc", "google.protobuf") if grpc else ()),
        *(("psycopg",) if postgresql else ()),
    ):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            return error.name
    return None


def _listen(host: str | None, port: int) -> socket.socket:
    if host is None and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=MAX_CONNECTIONS)
    family = socket.AF_INET6 if host and ":" in host else socket.AF_INET
    return socket.create_server((host or "", port), family=family, backlog=MAX_CONNECTIONS)


def _runner() -> asyncio.Runner:
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _serve(store: Store, listening: socket.socket, grpc_address: tuple[str | None, int] | None) -> int:
    checker = Checker(store)
    grpc_server = None
    try:
        http_server = _http_server(checker)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, setattr, http_server, "should_exit", True)
        if grpc_address:
            try:
                grpc_server = await _start_grpc(checker, *grpc_address)
            except RuntimeError as error:  # How grpc reports an address that it cannot have.
                log.error("cannot listen on %s: %s", shown(*grpc_address), error)
                return EXIT_PORT
        over_grpc = f", for gRPC {shown(*grpc_address)}" if grpc_address else ""
        log.info("listening on %s%s", shown(*listening.getsockname()[:2]), over_grpc)
        await http_server.serve(sockets=[listening])
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


async def _start_grpc(checker: Checker, host: str | None, port: int) -> Any:
    import grpc.aio

    from worklease.fencing.authorizer.ext_authz import handler

    server = grpc.aio.server(maximum_concurrent_rpcs=MAX_CONNECTIONS)
    server.add_generic_rpc_handlers((handler(checker),))
    server.add_insecure_port(shown(host or "::", port))  # Which is every interface, of IPv4 alone where that is all.
    await server.start()
    return server


if __name__ == "__main__":
    sys.exit(main())
