"""The mark in SQLite, by the standard library alone: checked and moved in the effect's own transaction.

SQLite has one writer at a time, and the check takes the write lock before it reads. So from the check until the
commit nobody else can move a mark or produce an effect, in any journal mode.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from worklease.errors import MarkUnavailable
from worklease.fencing.token import MAX_EPOCH, Token

SCHEMA: Final = f"""\
CREATE TABLE IF NOT EXISTS worklease_mark (
    lease TEXT NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL CHECK (typeof(epoch) = 'integer' AND epoch BETWEEN 1 AND {MAX_EPOCH})
) WITHOUT ROWID"""

MOVE: Final = (
    "INSERT INTO worklease_mark (lease, epoch) VALUES (?, ?) "
    "ON CONFLICT (lease) DO UPDATE SET epoch = excluded.epoch WHERE excluded.epoch > worklease_mark.epoch"
)
READ: Final = "SELECT epoch FROM worklease_mark WHERE lease = ?"

NO_TABLE: Final = "no such table: worklease_mark"
NOT_INSTALLED: Final = "the table worklease_mark is missing, so the effect is refused: run install() once at deployment"
NO_TRANSACTION: Final = (
    "this connection commits by itself, so the check and the effect would be two transactions: begin one first"
)


def install(connection: sqlite3.Connection) -> None:
    """Creates the table of the marks unless it is there."""
    connection.execute(SCHEMA)


def fence(connection: sqlite3.Connection, token: Token) -> None:
    """Lets this transaction go on if no later epoch has been here, else raises StaleEpoch: roll back.

    Whatever SQLite says instead is MarkUnavailable. Call it before the transaction's first read: one that has read
    an older state already is told "database is locked" (SQLITE_BUSY_SNAPSHOT) when somebody has written since.
    """
    try:
        connection.execute(MOVE, (token.lease, token.epoch))
        if not connection.in_transaction:
            raise MarkUnavailable(NO_TRANSACTION)
        reader = connection.cursor()
        reader.row_factory = None
        (mark,) = reader.execute(READ, (token.lease,)).fetchone() or (0,)
    except sqlite3.Error as error:
        raise unavailable(error) from error
    token.admitted_at(mark)


def unavailable(error: BaseException | None) -> MarkUnavailable:
    """What any error of SQLite, from a lock to a damaged file, means to a recipient."""
    if NO_TABLE in str(error):
        return MarkUnavailable(NOT_INSTALLED)
    return MarkUnavailable(f"the mark could not be moved, so the effect is refused: {error}")
