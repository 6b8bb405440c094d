"""What fencing costs: effects with and without the fence on the same database, middleware, and the authorizer.

With and without take turns in short rounds, so that whatever else the machine does meets both; the ratio is the
median of the rounds' ratios.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

import backends
from controlplane.ports import LOOPBACK, free_port
from worklease.fencing import Token, asgi, postgresql, sqlite, wsgi

from .figures import Table, percentile

ROUNDS, ROUND_SECONDS = 5, 1.0
CLIENTS = 8
CALLS = 3000
CONNECTIONS, LOAD_SECONDS = 32, 3.0

TABLES = """\
CREATE TABLE account (id INTEGER PRIMARY KEY, cents BIGINT NOT NULL);
CREATE TABLE charge (lease TEXT NOT NULL, account INTEGER NOT NULL, cents BIGINT NOT NULL);
"""
EFFECT = (
    "INSERT INTO charge SELECT '{lease}', {account}, 42",
    "UPDATE account SET cents = cents - 42 WHERE id = {account}",
)
"""A payment: a line in the ledger and the account's balance."""


@dataclass(frozen=True)
class Sample:
    """Effects per second, and the database's CPU time for each: what a busy machine cannot change."""

    rate: float
    cpu_seconds: float


def run() -> None:
    """Measures and prints everything."""
    _postgresql()
    _sqlite()
    _middleware()
    _authorizer()


def _postgresql() -> None:
    """pgbench, so that the figure is the server's and not a client library's."""
    table = Table("Effects in PostgreSQL, commits on disk, with the fence and without (aim: >= 0.85)")
    with backends.postgresql(durable=True) as conninfo, backends.directory() as home:
        with psycopg.connect(conninfo) as connection:
            connection.execute(postgresql.script().encode())
            connection.execute(TABLES.encode())
            connection.execute("INSERT INTO account SELECT number, 0 FROM generate_series(1, 1000) AS number")
        host = conninfo.split()[0].removeprefix("host=")
        server = int((Path(host) / "data/postmaster.pid").read_text().split()[0])
        own, same = "payments/invoice-:client_id", "payments/invoice-1"
        for what, clients, lease, joined in (
            ("1 client", 1, own, False),
            ("1 client, the fence in the effect's first statement", 1, own, True),
            (f"{CLIENTS} clients, each with its own lease", CLIENTS, own, False),
            (f"{CLIENTS} clients, the same in the first statement", CLIENTS, own, True),
            (f"{CLIENTS} clients under one lease", CLIENTS, same, False),
            (f"{CLIENTS} clients under one lease, in the first statement", CLIENTS, same, True),
        ):
            scripts = {name: home / f"{name}.sql" for name in ("without", "with")}
            lease = lease.replace(":client_id", "' || :client_id || '")
            fence = f"worklease_fence('{lease}', 1482)"
            charge, balance = (statement.format(lease=lease, account=":account") for statement in EFFECT)
            fenced = [f"{charge} FROM {fence}"] if joined else [f"SELECT {fence}", charge]
            for name, first in (("without", [charge]), ("with", fenced)):
                statements = ["BEGIN", *first, balance, "COMMIT"]
                scripts[name].write_text("\\set account random(1, 1000)\n" + "".join(f"{s};\n" for s in statements))
            pgbench = [
                str(backends.find("pgbench")), "--no-vacuum", "--protocol=prepared", f"--client={clients}", "--jobs=1",
                f"--time={ROUND_SECONDS:.0f}", f"--host={host}", "--username=admin", "postgres",
            ]  # fmt: skip

            def measure(name: str, command: list[str] = pgbench, files: dict[str, Path] = scripts) -> Sample:
                before = _cpu_seconds(server)
                answer = subprocess.run(
                    [*command, f"--file={files[name]}"], check=True, capture_output=True, text=True, timeout=60
                )
                count = int(answer.stdout.partition("actually processed: ")[2].split()[0].partition("/")[0])
                rate = float(answer.stdout.partition("tps = ")[2].split()[0])
                return Sample(rate, (_cpu_seconds(server) - before) / count)

            _compare(table, what, measure)


def _sqlite() -> None:
    table = Table("Effects in SQLite, WAL, commits on disk, with the fence and without (aim: >= 0.85)")
    token = Token("payments/invoice-42", 1482)
    with backends.directory() as home:
        connection = sqlite3.connect(home / "effects.sqlite")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(TABLES)
        connection.executemany("INSERT INTO account VALUES (?, 0)", [(number,) for number in range(1, 1001)])
        connection.commit()
        sqlite.install(connection)

        def measure(name: str) -> Sample:
            started_cpu = time.process_time()
            count, end = 0, time.perf_counter() + ROUND_SECONDS / 2
            while time.perf_counter() < end:
                with connection:
                    if name == "with":
                        sqlite.fence(connection, token)
                    for statement in EFFECT:
                        connection.execute(statement.format(lease=token.lease, account=1 + count % 1000))
                count += 1
            return Sample(count / (ROUND_SECONDS / 2), (time.process_time() - started_cpu) / count)

        _compare(table, "1 connection, standard library", measure)
        connection.close()


def _compare(table: Table, what: str, measure: Callable[[str], Sample]) -> None:
    measure("with")
    rounds = [(measure("without"), measure("with")) for _ in range(ROUNDS)]
    ratio = statistics.median(fenced.rate / without.rate for without, fenced in rounds)
    notes = []
    for name, samples in zip(("without", "with"), zip(*rounds, strict=True), strict=True):
        rate = statistics.median(sample.rate for sample in samples)
        cpu = statistics.median(sample.cpu_seconds for sample in samples) * 1e6
        notes.append(f"{name} {rate:,.0f}/s at {cpu:.0f} us of CPU")
    table.row(what, f"{ratio:.2f}", ", ".join(notes))


def _cpu_seconds(pid: int) -> float:
    """What a process and the children that it has waited for have used; nan where /proc does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _middleware() -> None:
    table = Table("Middleware, time added to a request that passes, p50 / p99 in us (aim: p50 <= 150)")
    pairs = [(name.lower().encode(), value.encode()) for name, value in Token("a/b", 1482, "c-1").to_headers().items()]
    padding = [(f"x-header-{number}".encode(), b"value") for number in range(12)]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": padding + pairs}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if fence := scope.get("worklease.fence"):
            fence(None)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def nothing(message: Any = None) -> Any:
        return None

    async def asgi_times(target: Any) -> list[float]:
        times = []
        for _ in range(CALLS):
            started = time.perf_counter()
            await target(dict(scope), nothing, nothing)
            times.append(time.perf_counter() - started)
        return times

    fenced_asgi = asgi.FenceMiddleware(app, lambda transaction, token: None)
    _added(table, "ASGI", asyncio.run(asgi_times(app)), asyncio.run(asgi_times(fenced_asgi)))

    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/"}
    environ |= {f"HTTP_{name.decode().upper().replace('-', '_')}": value.decode() for name, value in pairs}

    def wsgi_app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if fence := environ.get("worklease.fence"):
            fence(None)
        start_response("200 OK", [])
        return [b""]

    def wsgi_times(target: Any) -> list[float]:
        times = []
        for _ in range(CALLS):
            started = time.perf_counter()
            list(target(dict(environ), lambda status, headers: nothing))
            times.append(time.perf_counter() - started)
        return times

    _added(
        table, "WSGI", wsgi_times(wsgi_app), wsgi_times(wsgi.FenceMiddleware(wsgi_app, lambda transaction, token: None))
    )


def _added(table: Table, what: str, without: list[float], fenced: list[float]) -> None:
    added = [(percentile(fenced, percent) - percentile(without, percent)) * 1e6 for percent in (50, 99)]
    table.row(what, " / ".join(f"{value:.0f}" for value in added))


def _authorizer() -> None:
    """The authorizer has one core, the load another one where there are two."""
    table = Table("worklease-fence on one core, checks per second (aim: >= 2,000 with a durable mark)")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    pin = ["taskset", "-c", str(cores[0])] if len(cores) > 1 and shutil.which("taskset") else []
    with backends.directory() as home, backends.postgresql(durable=True) as conninfo:
        host = conninfo.split()[0].removeprefix("host=")
        for store in (f"sqlite:{home}/marks.sqlite", f"postgresql://admin@/postgres?host={host}"):
            http, grpc = free_port(), free_port()
            command = [
                *pin, sys.executable, "-m", "worklease.fencing.authorizer.command", "--store", store,
                "--http", f"{LOOPBACK}:{http}", "--grpc", f"{LOOPBACK}:{grpc}",
            ]  # fmt: skip
            with backends.running("worklease-fence", command, home / "log", partial(backends.listens, http)) as process:
                if pin:
                    os.sched_setaffinity(0, set(cores[1:]))
                try:
                    for what, load in (
                        ("HTTP, known epochs", _http_load(http, moving=False)),
                        ("HTTP, every check moves a mark", _http_load(http, moving=True)),
                        ("gRPC, known epochs", _grpc_load(grpc)),
                    ):
                        before = _cpu_seconds(process.pid)
                        count = asyncio.run(load)
                        note = f"{count / (_cpu_seconds(process.pid) - before):,.0f} per second of its CPU time"
                        table.row(f"{store.partition(':')[0]}, {what}", f"{count / LOAD_SECONDS:,.0f}", note)
                finally:
                    if pin:
                        os.sched_setaffinity(0, set(cores))


async def _http_load(port: int, moving: bool) -> int:
    count, end = 0, time.perf_counter() + LOAD_SECONDS

    async def sender(number: int) -> None:
        nonlocal count
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        epoch = 1482
        while time.perf_counter() < end:
            epoch += moving
            headers = "".join(f"{k}: {v}\r\n" for k, v in Token(f"load/number-{number}", epoch).to_headers().items())
            writer.write(f"GET /check HTTP/1.1\r\nHost: fence\r\n{headers}\r\n".encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(answer.decode())
            count += 1
        writer.close()

    await asyncio.gather(*map(sender, range(CONNECTIONS)))
    return count


async def _grpc_load(port: int) -> int:
    import grpc.aio

    from worklease.fencing.authorizer.ext_authz import SERVICE, messages

    pairs = [{"key": k.lower(), "value": v} for k, v in Token("load/number-1", 2**50).to_headers().items()]
    request = messages["CheckRequest"](attributes={"request": {"http": {"headers": pairs}}}).SerializeToString()
    count, end = 0, time.perf_counter() + LOAD_SECONDS
    async with grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel:
        check: Any = channel.unary_unary(f"/{SERVICE}/Check")

        async def sender() -> None:
            nonlocal count
            while time.perf_counter() < end:
                await check(request)
                count += 1

        await asyncio.gather(*(sender() for _ in range(CONNECTIONS)))
    return count
