"""The mark in PostgreSQL through any DB-API cursor with %s parameters: psycopg, psycopg2, Django's.

The function itself, its table and the trigger are in postgresql.sql, for every language.
"""

from __future__ import annotations

import inspect
import re
from importlib import resources
from typing import Any, Final, Protocol

from worklease.errors import MarkUnavailable, StaleEpoch
from worklease.fencing.token import Token

STALE: Final = "WL412"
NOT_INSTALLED: Final = {
    "42883": "the function worklease_fence is missing",
    "42P01": "the table worklease_mark is missing",
    "42501": "this role may not execute worklease_fence",
    "3F000": "the schema of worklease_fence is missing",
}
IN_TRANSACTION: Final = 2  # PQTRANS_INTRANS of libpq.
NO_TRANSACTION: Final = (
    "this connection commits by itself, so the check and the effect would be two transactions: begin one first"
)
NOT_RUN: Final = (
    "the check was sent but has not been run, so the effect is refused: call it on an ordinary cursor, "
    "not on a named (server-side) one and not in pipeline mode"
)
_HIGHEST = re.compile(r"stale epoch [0-9]+ for \S+: epoch ([0-9]+) has been here")


class Cursor(Protocol):
    """A cursor, or a psycopg connection."""

    def execute(self, query: Any, params: Any = ..., /) -> Any:
        """Runs one statement."""


def script() -> str:
    """postgresql.sql: the table, the function and the trigger, to be applied once per database."""
    return resources.files("worklease.fencing").joinpath("postgresql.sql").read_text(encoding="utf-8")


def fence(cursor: Cursor, token: Token) -> None:
    """Lets the cursor's transaction go on if no later epoch has been here, else raises StaleEpoch.

    Call it first in a transaction that is open. A connection that commits by itself is MarkUnavailable where the
    driver tells, as psycopg and psycopg2 do: the mark would be a transaction of its own. So is a cursor that
    has not run the check when `execute` returns: a server-side one, or one in pipeline mode. Errors that mean
    something else, such as a serialization failure, pass through as the driver raised them.
    """
    try:
        result = cursor.execute("SELECT worklease_fence(%s, %s)", (token.lease, token.epoch))
    except Exception as error:
        explain(error, token)
        raise
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("this cursor is asynchronous, so nothing was checked: give a synchronous one")
    if getattr(result if hasattr(result, "rowcount") else cursor, "rowcount", None) != 1:
        raise MarkUnavailable(NOT_RUN)
    if not _in_transaction(getattr(cursor, "connection", cursor)):
        raise MarkUnavailable(NO_TRANSACTION)


def _in_transaction(connection: Any) -> bool:
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    if status is not None:
        return bool(status == IN_TRANSACTION)
    return getattr(connection, "autocommit", None) is not True


def explain(error: BaseException, token: Token) -> None:
    """Raises what a driver's error means to a recipient; returns when it means nothing special."""
    original = error.__cause__ if isinstance(error.__cause__, Exception) else error  # Django wraps the driver's.
    state = sqlstate(original)
    if state == STALE and (match := _HIGHEST.search(str(original))):
        raise StaleEpoch(token.lease, token.epoch, int(match[1])) from error
    if what := NOT_INSTALLED.get(state):
        raise MarkUnavailable(f"{what}, so the effect is refused: apply postgresql.sql and its GRANT") from error


def sqlstate(original: Any) -> str:
    """The five characters, from psycopg, asyncpg, psycopg2 or pg8000; empty when there are none."""
    for name in ("sqlstate", "pgcode"):
        if isinstance(state := getattr(original, name, None), str):
            return state
    details = original.args[0] if getattr(original, "args", None) else None
    return str(details.get("C", "")) if isinstance(details, dict) else ""
