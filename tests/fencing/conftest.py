"""Real PostgreSQL and Redis servers, one each for a test process, and a fresh database for each test."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import redis
import sqlalchemy

import backends
from support.availability import required
from support.recipients import PlainPostgres, Recipient, RedisRecipient, SqlAlchemyRecipient, StdlibSqlite

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The conninfo of a PostgreSQL server's administrator."""
    with required(), backends.postgresql() as conninfo:
        yield conninfo


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The socket of a Redis server."""
    with required(), backends.redis() as path:
        yield str(path)


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """The conninfo of a fresh database, which goes with its server."""
    name = f"test_{next(NUMBERS)}"
    with psycopg.connect(postgres_server, autocommit=True) as administrator:
        administrator.execute(f"CREATE DATABASE {name}")
    return postgres_server.replace("dbname=postgres", f"dbname={name}")


@pytest.fixture
def redis_client(redis_server: str) -> Iterator[redis.Redis]:
    """A client of an emptied Redis."""
    with redis.Redis(unix_socket_path=redis_server) as client:
        client.flushall()
        yield client


@pytest.fixture
def postgres_engine(postgres: str) -> Iterator[sqlalchemy.Engine]:
    """An engine on a fresh database."""
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(postgres), pool_size=8)
    yield engine
    engine.dispose()


@pytest.fixture
def sqlite_engine(tmp_path: Any) -> Iterator[sqlalchemy.Engine]:
    """An engine on a fresh file."""
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/effects.sqlite", connect_args={"timeout": 20.0})
    yield engine
    engine.dispose()


@pytest.fixture(params=["sqlalchemy-postgresql", "sqlalchemy-sqlite", "postgresql", "sqlite3", "redis"])
def recipient(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Recipient]:
    """A system that receives effects, in each of the ways in which it can keep its marks."""
    make: dict[str, Callable[[], Recipient]] = {
        "sqlalchemy-postgresql": lambda: SqlAlchemyRecipient(request.getfixturevalue("postgres_engine")),
        "sqlalchemy-sqlite": lambda: SqlAlchemyRecipient(request.getfixturevalue("sqlite_engine")),
        "postgresql": lambda: PlainPostgres(request.getfixturevalue("postgres")),
        "sqlite3": lambda: StdlibSqlite(f"{tmp_path}/stdlib.sqlite"),
        "redis": lambda: RedisRecipient(request.getfixturevalue("redis_client")),
    }
    with contextlib.closing(make[request.param]()) as recipient:
        yield recipient
