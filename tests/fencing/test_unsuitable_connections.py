"""Where a driver would let the check go unread, or a database cannot answer, the effect is refused."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import class_row, dict_row
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from support.recipients import PlainPostgres, SqlAlchemyRecipient, StdlibSqlite
from worklease.errors import MarkUnavailable, StaleEpoch
from worklease.fencing import Token, postgresql, sql, sqlite

LEASE = "payments/invoice-42"
STALE, TOKEN = Token(LEASE, 6), Token(LEASE, 7)

Fence = Callable[[Token], None]


@pytest.fixture(params=["sqlite3", "sqlalchemy"])
def sqlite_fence(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Fence, Path]]:
    """A fenced transaction in a SQLite file that does not wait for locks, by both modules, and the file."""
    path = tmp_path / "effects.sqlite"
    StdlibSqlite(str(path)).close()
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0.0})

    def bare(token: Token) -> None:
        connection = sqlite3.connect(path, timeout=0.0)
        try:
            with connection:
                sqlite.fence(connection, token)
        finally:
            connection.close()

    def through_sqlalchemy(token: Token) -> None:
        with engine.begin() as connection:
            sql.fence(connection, token)

    yield {"sqlite3": bare, "sqlalchemy": through_sqlalchemy}[request.param], path
    engine.dispose()


def test_a_locked_file_is_a_store_that_cannot_answer(sqlite_fence: tuple[Fence, Path]) -> None:
    """Another writer's lock is MarkUnavailable by either module, and so 503 over HTTP, never another error."""
    fence, path = sqlite_fence
    fence(TOKEN)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(MarkUnavailable, match="the effect is refused: database is locked"):
        fence(TOKEN)
    other.close()
    fence(TOKEN)


@pytest.mark.parametrize("content", [b"no database at all " * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_is_a_store_that_cannot_answer(sqlite_fence: tuple[Fence, Path], content: bytes) -> None:
    """A file that is no database (any more) is MarkUnavailable too."""
    fence, path = sqlite_fence
    path.write_bytes(content)
    with pytest.raises(MarkUnavailable, match="the effect is refused"):
        fence(TOKEN)


@pytest.mark.parametrize("event", ["INSERT", "UPDATE"])
def test_a_mark_that_does_not_move_lets_nothing_through(sqlite_fence: tuple[Fence, Path], event: str) -> None:
    """What the database quietly leaves undone is found when the mark is read."""
    fence, path = sqlite_fence
    if event == "UPDATE":
        fence(STALE)
    other = sqlite3.connect(path)
    other.execute(f"CREATE TRIGGER t BEFORE {event} ON worklease_mark BEGIN SELECT RAISE(IGNORE); END")
    other.close()
    with pytest.raises(MarkUnavailable, match="was to move to 7 and has not"):
        fence(TOKEN)


def test_rows_of_another_shape_do_not_matter(tmp_path: Path) -> None:
    """A connection whose rows are dictionaries is fenced as any other."""
    recipient = StdlibSqlite(f"{tmp_path}/rows.sqlite")
    recipient.connection.row_factory = lambda cursor, row: {"epoch": row[0]}
    sqlite.fence(recipient.connection, TOKEN)
    with pytest.raises(StaleEpoch):
        sqlite.fence(recipient.connection, STALE)
    recipient.close()


def test_a_connection_that_streams_its_results_is_fenced(postgres_engine: sqlalchemy.Engine) -> None:
    """With stream_results a SELECT only declares a cursor until somebody reads it: the fence does."""
    SqlAlchemyRecipient(postgres_engine).effect(TOKEN)
    streaming = postgres_engine.execution_options(stream_results=True)
    with streaming.begin() as connection:
        sql.fence(connection, TOKEN)
    with streaming.begin() as connection, pytest.raises(StaleEpoch):
        sql.fence(connection, STALE)


@pytest.fixture
def plain(postgres: str) -> Iterator[str]:
    """The conninfo of a database where epoch 7 has been."""
    recipient = PlainPostgres(postgres)
    recipient.effect(TOKEN)
    yield postgres
    recipient.close()


def test_a_cursor_of_the_server_is_refused(plain: str) -> None:
    """A named cursor runs the check when it is read, which may be never."""
    refused = pytest.raises(MarkUnavailable, match="has not been run")
    with psycopg.connect(plain) as connection, connection.cursor("named") as cursor, refused:
        postgresql.fence(cursor, STALE)


def test_pipeline_mode_is_refused(plain: str) -> None:
    """There the answer comes later, when the effect may have been sent as well."""
    with psycopg.connect(plain) as connection, pytest.raises((MarkUnavailable, StaleEpoch)), connection.pipeline():
        postgresql.fence(connection, TOKEN)


def test_autocommit_is_refused_outside_of_a_transaction(plain: str) -> None:
    """psycopg tells whether a transaction is open, on the connection and on a cursor of it."""
    with psycopg.connect(plain, autocommit=True) as connection:
        for cursor in (connection, connection.cursor()):
            with pytest.raises(MarkUnavailable, match="commits by itself"):
                postgresql.fence(cursor, TOKEN)
            with connection.transaction():
                postgresql.fence(cursor, TOKEN)


def test_any_row_factory_will_do(plain: str) -> None:
    """The fence reads no row by its shape."""
    factories: list[Any] = [dict_row, class_row(dict)]
    for factory in factories:
        with psycopg.connect(plain, row_factory=factory) as connection:
            postgresql.fence(connection, TOKEN)
            with pytest.raises(StaleEpoch):
                postgresql.fence(connection.cursor(), STALE)


def test_an_asynchronous_cursor_is_an_error(plain: str) -> None:
    """What it returns would have to be awaited; that nobody does must not pass for an admission."""

    async def fenced() -> None:
        async with await psycopg.AsyncConnection.connect(plain) as connection:
            with pytest.raises(TypeError, match="this cursor is asynchronous"):
                postgresql.fence(connection, STALE)

    asyncio.run(fenced())


def run_async(engine: AsyncEngine, scenario: Callable[[AsyncEngine], Any]) -> None:
    """Runs a scenario and closes the engine in the same loop."""

    async def whole() -> None:
        try:
            await scenario(engine)
        finally:
            await engine.dispose()

    asyncio.run(whole())


def asyncpg_engine(conninfo: str, **options: Any) -> AsyncEngine:
    """SQLAlchemy's asynchronous engine with asyncpg."""
    host, user, database = (part.split("=")[1] for part in conninfo.split())
    return create_async_engine(f"postgresql+asyncpg://{user}@/{database}?host={host}", **options)


def test_asyncpg_is_fenced(postgres: str) -> None:
    """A driver with numbered parameters installs the same functions, is refused by them, and streams safely."""

    async def scenario(engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            await connection.run_sync(sql.install)
        async with engine.begin() as connection:
            await connection.run_sync(sql.fence, TOKEN)
        for options in ({}, {"stream_results": True}):
            with pytest.raises(StaleEpoch, match="stale epoch 6 for payments/invoice-42: epoch 7 has been here"):
                async with engine.begin() as connection:
                    await (await connection.execution_options(**options)).run_sync(sql.fence, STALE)

    run_async(asyncpg_engine(postgres), scenario)
    bare = r"regexp_replace(prosrc, '--[^\n]*|\s', '', 'g')"
    functions = f"SELECT {bare} FROM pg_proc WHERE proname ~ 'worklease' ORDER BY proname"
    with psycopg.connect(postgres) as connection:
        installed = connection.execute(functions.encode()).fetchall()
        connection.execute(postgresql.script().encode())
        assert connection.execute(functions.encode()).fetchall() == installed


@pytest.mark.parametrize("driver", ["asyncpg", "aiosqlite"])
def test_asynchronous_drivers_that_commit_by_themselves_are_refused(driver: str, postgres: str, tmp_path: Path) -> None:
    """Through SQLAlchemy's adapters too it is seen that no transaction is open."""
    automatic = {"isolation_level": "AUTOCOMMIT"}
    url = f"sqlite+aiosqlite:///{tmp_path}/async.sqlite"
    engine = asyncpg_engine(postgres, **automatic) if driver == "asyncpg" else create_async_engine(url, **automatic)

    async def scenario(engine: AsyncEngine) -> None:
        async with engine.connect() as connection:
            await connection.run_sync(sql.install)
            with pytest.raises(MarkUnavailable, match="commits by itself"):
                await connection.run_sync(sql.fence, TOKEN)

    run_async(engine, scenario)


@pytest.mark.parametrize(
    ("paramstyle", "percent"),
    [("pyformat", "%%"), ("format", "%%"), ("numeric_dollar", "%"), ("qmark", "%"), ("named", "%")],
)
def test_a_percent_sign_is_doubled_where_the_driver_reads_it(paramstyle: str, percent: str) -> None:
    """What reaches the database is the script, whatever marks parameters for the driver."""
    connection = Mock()
    connection.dialect.name, connection.dialect.paramstyle = "postgresql", paramstyle
    sql.install(connection)
    sent = "".join(call.args[0] for call in connection.exec_driver_sql.call_args_list)
    assert f"'stale epoch {percent}s for {percent}s: epoch {percent}s has been here'" in sent
