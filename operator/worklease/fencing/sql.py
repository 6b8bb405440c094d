"""The mark through SQLAlchemy, for PostgreSQL and SQLite: checked and moved in the effect's own transaction.

Works with any synchronous Connection. With an AsyncConnection: `await connection.run_sync(fence, token)`; with an
ORM session: `fence(session.connection(), token)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import resources
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, Engine, String, TextClause, bindparam, text
from sqlalchemy.exc import DBAPIError

from worklease.errors import MarkUnavailable, StaleEpoch
from worklease.fencing import sqlite
from worklease.fencing.token import Token

STALE: Final = "WL412"
_NOT_INSTALLED: Final = {
    "42883": "the function worklease_fence is missing",
    "42P01": "the table worklease_mark is missing",
    "42501": "this role may not execute worklease_fence",
    "3F000": "the schema of worklease_fence is missing",
}
_HIGHEST = re.compile(r"stale epoch [0-9]+ for \S+: epoch ([0-9]+) has been here")
_FENCE: Final[TextClause] = text("SELECT worklease_fence(:lease, :epoch)").bindparams(
    bindparam("lease", type_=String), bindparam("epoch", type_=BigInteger)
)


def install(connection: Connection) -> None:
    """Creates the table and, on PostgreSQL, the functions. Run it at deployment, as the role that owns the marks."""
    if _dialect(connection) == "sqlite":
        connection.exec_driver_sql(sqlite.SCHEMA)
        return
    script = resources.files("worklease.fencing").joinpath("postgresql.sql").read_text(encoding="utf-8")
    for statement in statements(script):
        connection.exec_driver_sql(statement.replace("%", "%%"))


def statements(script: str) -> list[str]:
    """The single statements of postgresql.sql: some drivers send one at a time. Dollar quotes are respected."""
    bare = re.sub(r"^\s*--.*$", "", script, flags=re.MULTILINE)
    return [match.group(0).strip() for match in re.finditer(r"(?:\$(\w+)\$.*?\$\1\$|[^;$])+;", bare, flags=re.DOTALL)]


def fence(connection: Connection, token: Token) -> None:
    """Lets this transaction go on if no later epoch has been here, else raises StaleEpoch.

    Call it first in the transaction, so that locks are always taken in the same order. Effects of one tenure run
    side by side; the first of the next tenure waits for them. A refusal has already aborted the transaction on
    PostgreSQL. Under REPEATABLE READ or SERIALIZABLE a mark that moved meanwhile is a serialization failure
    (40001), as for any row: try the transaction again.
    """
    dialect = _dialect(connection)
    driver = connection.connection.dbapi_connection
    if getattr(driver, "autocommit", None) is True:
        raise MarkUnavailable(sqlite.NO_TRANSACTION)
    try:
        if dialect == "postgresql":
            connection.execute(_FENCE, {"lease": token.lease, "epoch": token.epoch})
            return
        connection.exec_driver_sql(sqlite.MOVE, (token.lease, token.epoch))
        if not getattr(driver, "in_transaction", True):
            raise MarkUnavailable(sqlite.NO_TRANSACTION)
        highest = connection.exec_driver_sql(sqlite.READ, (token.lease,)).scalar_one()
    except DBAPIError as error:
        _explain(error, token)
        raise
    if highest > token.epoch:
        raise StaleEpoch(token.lease, token.epoch, highest)


def door(engine: Engine) -> Callable[[Token], None]:
    """Moves the mark in a transaction of its own: for effects outside this database. It does not order them."""

    def move(token: Token) -> None:
        with engine.begin() as connection:
            fence(connection, token)

    return move


def _explain(error: DBAPIError, token: Token) -> None:
    """Raises what the driver's error means to us; returns when it means nothing special, such as a deadlock."""
    state, words = _sqlstate(error.orig), str(error.orig)
    if state == STALE and (match := _HIGHEST.search(words)):
        raise StaleEpoch(token.lease, token.epoch, int(match[1])) from error
    if state in _NOT_INSTALLED or sqlite.NO_TABLE in words:
        what = _NOT_INSTALLED.get(state, "the table worklease_mark is missing")
        raise MarkUnavailable(
            f"{what}, so the effect is refused: see install() and the GRANT in postgresql.sql"
        ) from error


def _sqlstate(original: Any) -> str:
    """The five characters, from psycopg, asyncpg, psycopg2 or pg8000; empty when there are none."""
    for name in ("sqlstate", "pgcode"):
        if isinstance(state := getattr(original, name, None), str):
            return state
    details = original.args[0] if getattr(original, "args", None) else None
    return str(details.get("C", "")) if isinstance(details, dict) else ""


def _dialect(connection: Connection) -> str:
    name = connection.dialect.name
    if name not in ("postgresql", "sqlite"):
        raise MarkUnavailable(
            f"there is no mark for {name}: its locks have not been proven; PostgreSQL and SQLite have"
        )
    return name
