"""The mark through SQLAlchemy, for PostgreSQL and SQLite: checked and moved in the effect's own transaction.

Works with any synchronous Connection. With an AsyncConnection: `await connection.run_sync(fence, token)`; with an
ORM session: `fence(session.connection(), token)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sqlalchemy import BigInteger, Connection, Engine, String, TextClause, bindparam, text
from sqlalchemy.exc import DBAPIError

from worklease.errors import MarkUnavailable
from worklease.fencing import postgresql, sqlite
from worklease.fencing.token import Token

_FENCE: Final[TextClause] = text("SELECT worklease_fence(:lease, :epoch)").bindparams(
    bindparam("lease", type_=String), bindparam("epoch", type_=BigInteger)
)


def install(connection: Connection) -> None:
    """Creates the table and, on PostgreSQL, the functions. Run it at deployment, as the role that owns the marks."""
    if _dialect(connection) == "sqlite":
        connection.exec_driver_sql(sqlite.SCHEMA)
        return
    percent = "%%" if connection.dialect.paramstyle in ("format", "pyformat") else "%"
    for statement in statements(postgresql.script()):
        connection.exec_driver_sql(statement.replace("%", percent))


def statements(script: str) -> list[str]:
    """The single statements of postgresql.sql: some drivers send one at a time. Dollar quotes are respected."""
    bare = re.sub(r"^\s*--.*$", "", script, flags=re.MULTILINE)
    return [match.group(0).strip() for match in re.finditer(r"(?:\$(\w+)\$.*?\$\1\$|[^;$])+;", bare, flags=re.DOTALL)]


def fence(connection: Connection, token: Token) -> None:
    """Lets this transaction go on if no later epoch has been here, else raises StaleEpoch.

    Call it first in the transaction, so that locks are always taken in the same order. Effects of one tenure run
    side by side; the first of the next tenure waits for them. A refusal has already aborted the transaction on
    PostgreSQL. Under REPEATABLE READ or SERIALIZABLE a mark that moved meanwhile is a serialization failure
    (40001), as for any row: try the transaction again. On SQLite whatever the database says is MarkUnavailable.
    """
    dialect = _dialect(connection)
    pooled = connection.connection
    if getattr(pooled.dbapi_connection, "autocommit", None) is True:
        raise MarkUnavailable(sqlite.NO_TRANSACTION)
    try:
        if dialect == "postgresql":
            # A cursor of the server, as a connection may be set to use, checks nothing before it is read.
            values, now = {"lease": token.lease, "epoch": token.epoch}, {"stream_results": False}
            mark = connection.execute(_FENCE, values, execution_options=now).scalar()
        else:
            connection.exec_driver_sql(sqlite.MOVE, (token.lease, token.epoch))
            if not getattr(pooled.driver_connection, "in_transaction", False):
                raise MarkUnavailable(sqlite.NO_TRANSACTION)
            mark = connection.exec_driver_sql(sqlite.READ, (token.lease,)).scalar()
    except DBAPIError as error:
        if dialect == "sqlite":
            raise sqlite.unavailable(error.orig) from error
        if error.orig is not None:
            postgresql.explain(error.orig, token)
        raise
    token.admitted_at(mark or 0)


def door(engine: Engine) -> Callable[[Token], None]:
    """Moves the mark in a transaction of its own: for effects outside this database. It does not order them."""

    def move(token: Token) -> None:
        with engine.begin() as connection:
            fence(connection, token)

    return move


def _dialect(connection: Connection) -> str:
    name = connection.dialect.name
    if name not in ("postgresql", "sqlite"):
        raise MarkUnavailable(
            f"there is no mark for {name}: its locks have not been proven; PostgreSQL and SQLite have"
        )
    return name
