"""Small systems that receive effects: each writes one row per effect, behind the fence that it is named after."""

from __future__ import annotations

import sqlite3
from typing import Protocol

import psycopg
import redis
import sqlalchemy

from worklease.fencing import Token, postgresql, sql, sqlite
from worklease.fencing.redis import Fence

TABLE = "CREATE TABLE effect (number INTEGER PRIMARY KEY, lease TEXT NOT NULL, epoch BIGINT NOT NULL)"
POSTGRES_TABLE = TABLE.replace("INTEGER PRIMARY KEY", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
EFFECTS = "SELECT lease, epoch FROM effect ORDER BY number"

Effects = list[tuple[str, int]]


class Recipient(Protocol):
    """Receives effects."""

    def effect(self, token: Token) -> None:
        """Produces one effect or raises what the fence raises."""

    def effects(self) -> Effects:
        """The effects that happened, in order."""

    def close(self) -> None:
        """Lets go of connections."""


class SqlAlchemyRecipient:
    """Behind worklease.fencing.sql."""

    def __init__(self, engine: sqlalchemy.Engine) -> None:
        self.engine = engine
        with engine.begin() as connection:
            sql.install(connection)
            connection.exec_driver_sql(POSTGRES_TABLE if engine.dialect.name == "postgresql" else TABLE)

    def effect(self, token: Token) -> None:
        """One transaction: the check, the effect."""
        with self.engine.begin() as connection:
            sql.fence(connection, token)
            connection.execute(
                sqlalchemy.text("INSERT INTO effect (lease, epoch) VALUES (:lease, :epoch)"),
                {"lease": token.lease, "epoch": token.epoch},
            )

    def effects(self) -> Effects:
        """All rows."""
        with self.engine.begin() as connection:
            return [(lease, epoch) for lease, epoch in connection.exec_driver_sql(EFFECTS)]

    def close(self) -> None:
        """Closes the pool."""
        self.engine.dispose()


class PlainPostgres:
    """Behind the SQL function, called as any language would."""

    def __init__(self, conninfo: str) -> None:
        self.connection = psycopg.connect(conninfo)
        self.connection.execute(postgresql.script().encode())
        self.connection.execute(POSTGRES_TABLE.encode())
        self.connection.commit()

    def effect(self, token: Token) -> None:
        """One transaction: the check, the effect."""
        with self.connection.transaction():
            postgresql.fence(self.connection, token)
            self.connection.execute("INSERT INTO effect (lease, epoch) VALUES (%s, %s)", (token.lease, token.epoch))

    def effects(self) -> Effects:
        """All rows."""
        with self.connection.transaction():
            return [(lease, epoch) for lease, epoch in self.connection.execute(EFFECTS.encode())]

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()


class StdlibSqlite:
    """Behind worklease.fencing.sqlite, without SQLAlchemy."""

    def __init__(self, path: str) -> None:
        self.connection = sqlite3.connect(path)
        sqlite.install(self.connection)
        self.connection.execute(TABLE)

    def effect(self, token: Token) -> None:
        """One transaction: the check, the effect."""
        with self.connection:
            sqlite.fence(self.connection, token)
            self.connection.execute("INSERT INTO effect (lease, epoch) VALUES (?, ?)", (token.lease, token.epoch))

    def effects(self) -> Effects:
        """All rows."""
        return [(lease, epoch) for lease, epoch in self.connection.execute(EFFECTS)]

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()


class RedisRecipient:
    """Behind the script, with a list for the effects."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.fence = Fence(client)

    def effect(self, token: Token) -> None:
        """One script: the check, the effect."""
        self.fence.run(token, [("RPUSH", "effects", f"{token.lease} {token.epoch}")], keys=["effects"])

    def effects(self) -> Effects:
        """All items."""
        found: list[bytes] = self.client.lrange("effects", 0, -1)  # type: ignore[assignment]
        items = [item.decode().split() for item in found]
        return [(lease, int(epoch)) for lease, epoch in items]

    def close(self) -> None:
        """Nothing is held."""
