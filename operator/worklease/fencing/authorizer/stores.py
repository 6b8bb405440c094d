"""Where the authorizer keeps its marks: moved many at a time, durable when `move` returns.

A SQLite file belongs to one process, which the file's lock enforces, so that process may answer from memory.
PostgreSQL may be shared by any number of replicas, so every check that would pass is read from there.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from worklease.errors import MarkUnavailable
from worklease.fencing import postgresql, sqlite

CONNECT_TIMEOUT_SECONDS: Final = 5
STATEMENT_TIMEOUT_MILLISECONDS: Final = 5000
LOCK_TIMEOUT_MILLISECONDS: Final = 2000
INSTALL_LOCK: Final = 1464618821


class Store(Protocol):
    """Used by one thread at a time."""

    exclusive: bool
    """Whether nobody else can move these marks while this process has them open."""

    def move(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Raises each lease's mark to at least the given epoch; gives the marks, which are then durable."""

    def close(self) -> None:
        """Lets go of the marks."""


class SqliteStore:
    """A file on a local disk, locked for as long as it is open."""

    exclusive = True

    def __init__(self, path: Path) -> None:
        try:
            self._connection = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise MarkUnavailable(f"{path} cannot be used: {error}") from error
        try:
            # In this mode the lock that the first transaction takes is kept until the connection is closed.
            for statement in (
                "PRAGMA locking_mode = EXCLUSIVE",
                "PRAGMA journal_mode = WAL",
                "PRAGMA synchronous = FULL",
                "BEGIN EXCLUSIVE",
                sqlite.SCHEMA,
                "COMMIT",
            ):
                answer = self._connection.execute(statement).fetchone()
                if answer == ("memory",):
                    raise sqlite3.OperationalError("its marks would be kept in memory only, and forgotten at the end")
        except sqlite3.Error as error:
            self._connection.close()
            if "locked" in str(error):
                raise MarkUnavailable(
                    f"{path} is open in another process; its marks can have one owner only"
                ) from error
            raise MarkUnavailable(f"{path} cannot be used: {error}") from error

    def move(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """One transaction for all of them."""
        marks: dict[str, int] = {}
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            for lease, epoch in wanted.items():
                execute(sqlite.MOVE, (lease, epoch))
                (marks[lease],) = execute(sqlite.READ, (lease,)).fetchone()
            execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                execute("ROLLBACK")
            raise MarkUnavailable(f"the marks could not be moved: {error}") from error
        return marks

    def close(self) -> None:
        """Closes the file, which unlocks it."""
        self._connection.close()


class PostgresStore:
    """The table of postgresql.sql. A connection that is lost is made again for the next batch."""

    exclusive = False

    def __init__(self, conninfo: str) -> None:
        import psycopg

        self._conninfo = conninfo
        self._connect = psycopg.connect
        self._error = psycopg.Error
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        with self._refusing():
            self._install(self._open())

    def move(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """One transaction for all of them; without a write when no mark has to move."""
        with self._refusing():
            connection = self._connection
            if connection is None or connection.closed:
                connection = self._open()
            with connection.transaction():
                return self._move(connection, wanted)

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """The driver's errors, which may name hosts and users, end here; the connection is made anew next time."""
        try:
            yield
        except self._error as error:
            self.close()
            state = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
            raise MarkUnavailable(f"PostgreSQL refused or could not be reached{state}") from error

    def _move(self, connection: Any, wanted: Mapping[str, int]) -> dict[str, int]:
        read = "SELECT lease, epoch FROM worklease_mark WHERE lease = ANY(%s)"
        marks: dict[str, int] = dict(connection.execute(read, (list(wanted),)).fetchall())
        lower = sorted(lease for lease, epoch in wanted.items() if marks.get(lease, 0) < epoch)
        if lower:
            connection.execute(
                "INSERT INTO worklease_mark AS mark (lease, epoch) SELECT * FROM unnest(%s::text[], %s::bigint[]) "
                "ON CONFLICT (lease) DO UPDATE SET epoch = excluded.epoch, moved_at = now() "
                "WHERE mark.epoch < excluded.epoch",
                (lower, [wanted[lease] for lease in lower]),
            )
            marks.update(connection.execute(read, (lower,)).fetchall())
        return marks

    def _open(self) -> Any:
        self._connection = self._connect(
            self._conninfo,
            autocommit=True,
            target_session_attrs="read-write",  # A standby may lag behind a later epoch's mark.
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            options=f"-c synchronous_commit=on -c statement_timeout={STATEMENT_TIMEOUT_MILLISECONDS} "
            f"-c lock_timeout={LOCK_TIMEOUT_MILLISECONDS} -c default_transaction_isolation=read\\ committed",
        )
        return self._connection

    def _install(self, connection: Any) -> None:
        """Only when the process starts: a table that disappears later must be noticed, not replaced by an empty one."""
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (INSTALL_LOCK,))
            (missing,) = connection.execute("SELECT to_regclass('worklease_mark') IS NULL").fetchone()
            if missing:
                connection.execute(postgresql.script().encode())

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            with contextlib.suppress(self._error):
                self._connection.close()
        self._connection = None


def open_store(url: str) -> Store:
    """The store that `sqlite:PATH` or a libpq URL (`postgresql://...`) names."""
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite" and rest:
        return SqliteStore(Path(rest))
    if scheme in ("postgresql", "postgres"):
        return PostgresStore(url)
    raise MarkUnavailable("a store is sqlite:PATH or postgresql://HOST/DATABASE")
