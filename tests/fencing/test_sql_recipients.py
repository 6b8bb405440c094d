"""The SQL fence beside its marks: the trigger, rights, bad input, a missing table, unsuitable connections."""

from __future__ import annotations

import asyncio
import sqlite3
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql as identifiers
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from support.interleaving import schedules
from support.recipients import PlainPostgres, SqlAlchemyRecipient, StdlibSqlite
from worklease.errors import MarkUnavailable, StaleEpoch
from worklease.fencing import MAX_EPOCH, Token, sql, sqlite

LEASE = "payments/invoice-42"
TOKEN = Token(LEASE, 7)
SCRIPT = resources.files("worklease.fencing").joinpath("postgresql.sql").read_bytes()

BAD_TOKENS = [
    (LEASE, 0), (LEASE, -7), (LEASE, MAX_EPOCH + 1), (LEASE, None), (None, 7), ("", 7), ("invoice-42", 7),
    ("Payments/invoice-42", 7), ("a/b/c/d", 7), ("payments/", 7), ("/invoice-42", 7), ("pay.ments/x", 7),
    ("payments/invoice-42\n", 7), ("payments/..", 7), ("payments/" + "x" * 254, 7), ("n" * 64 + "/x", 7),
    ("c" * 254 + "/n/x", 7), ("payments/" + "x" * 10240, 7), ("payments/invo\u0456ce", 7), (" payments/x", 7),
]  # fmt: skip


def refusal(connection: psycopg.Connection[Any], query: str, *values: object) -> str | None:
    """The SQLSTATE with which a transaction of this one statement is refused, None when it passes."""
    try:
        with connection.transaction():
            connection.execute(query.encode(), values)
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.fixture
def connection(postgres: str) -> Any:
    """A connection to a database in which the fence is installed."""
    with psycopg.connect(postgres) as connection:
        connection.execute(SCRIPT)
        connection.commit()
        yield connection


@pytest.mark.parametrize(("lease", "epoch"), BAD_TOKENS, ids=lambda value: repr(value)[:40])
def test_the_function_refuses_what_is_no_token(connection: psycopg.Connection[Any], lease: Any, epoch: Any) -> None:
    """Values that cannot come from a lease are WL400, on a new lease and beside an existing mark."""
    assert refusal(connection, "SELECT worklease_fence(%s, 5)", LEASE) is None
    assert refusal(connection, "SELECT worklease_fence(%s, %s)", lease, epoch) == "WL400"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lease=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), epoch=st.integers(-5, 5))
def test_the_function_and_the_library_agree_on_what_a_token_is(
    connection: psycopg.Connection[Any], lease: str, epoch: int
) -> None:
    """Whatever the library refuses the function refuses too, and the other way round."""
    try:
        Token(lease, epoch)
        expected = None
    except ValueError:
        expected = "WL400"
    assert refusal(connection, "SELECT worklease_fence(%s, %s)", lease, epoch) == expected


def test_installing_again_keeps_the_marks(connection: psycopg.Connection[Any]) -> None:
    """The script can be applied again, after an upgrade, without letting anybody back in."""
    assert refusal(connection, "SELECT worklease_fence(%s, 7)", LEASE) is None
    connection.execute(SCRIPT)
    connection.commit()
    assert refusal(connection, "SELECT worklease_fence(%s, 6)", LEASE) == "WL412"


def test_the_statement_trigger_fences_programs_that_know_nothing_of_it(connection: psycopg.Connection[Any]) -> None:
    """With the trigger a write needs the session setting, and a stale one is refused whatever the program calls."""
    connection.execute("CREATE TABLE charge (amount int)")
    connection.execute(
        "CREATE TRIGGER fenced BEFORE INSERT OR UPDATE OR DELETE ON charge "
        "FOR EACH STATEMENT EXECUTE FUNCTION worklease_fence_trigger()"
    )
    connection.commit()

    def write(token: str | None, statement: str = "INSERT INTO charge VALUES (1)") -> str | None:
        try:
            with connection.transaction():
                if token is not None:
                    connection.execute("SELECT set_config('worklease.token', %s, true)", (token,))
                connection.execute(statement.encode())
        except psycopg.Error as error:
            return error.sqlstate
        return None

    assert write(None) == "WL428"
    assert write(str(TOKEN)) is None
    assert write(None) == "WL428", "the setting ends with its transaction"
    assert write(f"{LEASE}@8#claim-1") is None
    for statement in ("INSERT INTO charge VALUES (2)", "UPDATE charge SET amount = 3", "DELETE FROM charge"):
        assert write(str(TOKEN), statement) == "WL412"
    for malformed in (
        LEASE,
        f"{LEASE}@07",
        f"{LEASE}@8#",
        f"{LEASE}@8 ",
        "x@y@8",
        f"{LEASE}@8#a,b",
        f"{LEASE}@{MAX_EPOCH + 1}",
    ):
        assert write(malformed) == "WL400", malformed
    assert connection.execute("SELECT amount FROM charge").fetchall() == [(1,), (1,)]


def test_the_row_trigger_ties_the_token_to_the_row(connection: psycopg.Connection[Any]) -> None:
    """Where a column names the lease, a token for other work cannot write, change or take over the row."""
    connection.execute("CREATE TABLE charge (lease text, amount int)")
    connection.execute(
        "CREATE TRIGGER fenced BEFORE INSERT OR UPDATE OR DELETE ON charge "
        "FOR EACH ROW EXECUTE FUNCTION worklease_fence_trigger('lease')"
    )
    connection.execute("SELECT set_config('worklease.token', %s, false)", (str(TOKEN),))
    connection.commit()
    assert refusal(connection, "INSERT INTO charge VALUES (%s, 1)", LEASE) is None
    assert refusal(connection, "INSERT INTO charge VALUES ('payments/other', 1)") == "WL403"
    assert refusal(connection, "INSERT INTO charge VALUES (NULL, 1)") == "WL403"
    assert refusal(connection, "UPDATE charge SET amount = 2") is None
    assert refusal(connection, "UPDATE charge SET lease = 'payments/other'") == "WL403"
    connection.execute("SELECT set_config('worklease.token', 'payments/other@9', false)")
    connection.commit()
    assert refusal(connection, "UPDATE charge SET lease = 'payments/other'") == "WL403"
    assert refusal(connection, "DELETE FROM charge") == "WL403"
    connection.execute("SELECT set_config('worklease.token', %s, false)", (str(TOKEN),))
    connection.commit()
    assert refusal(connection, "DELETE FROM charge") is None


@pytest.mark.parametrize(
    "trigger",
    [
        "FOR EACH STATEMENT EXECUTE FUNCTION worklease_fence_trigger('lease')",
        "FOR EACH ROW EXECUTE FUNCTION worklease_fence_trigger('lease', 'amount')",
    ],
)
def test_a_trigger_that_would_not_compare_its_column_refuses(connection: psycopg.Connection[Any], trigger: str) -> None:
    """Whoever names a column means it to be compared: where that cannot be, nothing is written."""
    connection.execute("CREATE TABLE charge (lease text, amount int)")
    connection.execute(f"CREATE TRIGGER fenced BEFORE INSERT ON charge {trigger}".encode())
    connection.execute("SELECT set_config('worklease.token', %s, false)", (str(TOKEN),))
    connection.commit()
    assert refusal(connection, "INSERT INTO charge VALUES ('payments/other', 1)") == "22023"


def test_a_partition_cannot_be_written_past_the_fence(connection: psycopg.Connection[Any]) -> None:
    """A trigger of the statement would not see a write to a partition by name, so it refuses; one of the row does."""
    connection.execute("CREATE TABLE charge (lease text, amount int) PARTITION BY LIST (amount)")
    connection.execute("CREATE TABLE charge_1 PARTITION OF charge FOR VALUES IN (1)")
    trigger = "CREATE TRIGGER fenced BEFORE INSERT ON charge FOR EACH {} EXECUTE FUNCTION worklease_fence_trigger()"
    connection.execute(trigger.format("STATEMENT").encode())
    connection.commit()
    assert refusal(connection, "INSERT INTO charge VALUES ('payments/x', 1)") == "22023"
    connection.execute("DROP TRIGGER fenced ON charge")
    connection.execute(trigger.format("ROW").encode())
    connection.commit()
    for table in ("charge", "charge_1"):
        assert refusal(connection, f"INSERT INTO {table} VALUES ('payments/x', 1)") == "WL428"


def test_a_service_may_be_fenced_without_being_able_to_write_marks(
    connection: psycopg.Connection[Any], postgres: str
) -> None:
    """A role needs EXECUTE only; it can neither lower a mark nor put a table of its own in front of it."""
    role = identifiers.Identifier(f"service_{connection.info.dbname}")
    connection.execute(identifiers.SQL("CREATE ROLE {} LOGIN").format(role))
    connection.commit()
    service = f"{postgres} user=service_{connection.info.dbname}"
    assert refusal(connection, "SELECT worklease_fence(%s, 7)", LEASE) is None
    with psycopg.connect(service) as other:
        assert refusal(other, "SELECT worklease_fence(%s, 7)", LEASE) == "42501"
        connection.execute(identifiers.SQL("GRANT EXECUTE ON FUNCTION worklease_fence TO {}").format(role))
        connection.commit()
        assert refusal(other, "SELECT worklease_fence(%s, 7)", LEASE) is None
        assert refusal(other, "UPDATE worklease_mark SET epoch = 1") == "42501"
        other.execute("CREATE TEMPORARY TABLE own (amount int)")
        trigger = "CREATE TRIGGER t BEFORE INSERT ON own EXECUTE FUNCTION worklease_fence_trigger()"
        assert refusal(other, trigger) == "42501", "a trigger of its own would move any mark"
        other.execute(
            "CREATE TEMPORARY TABLE worklease_mark (lease text PRIMARY KEY, epoch bigint, moved_at timestamptz)"
        )
        assert refusal(other, "SELECT worklease_fence(%s, 6)", LEASE) == "WL412"
    connection.execute(identifiers.SQL("DROP OWNED BY {}").format(role))
    connection.execute(identifiers.SQL("DROP ROLE {}").format(role))
    connection.commit()


def test_a_missing_table_refuses_the_effect_and_says_what_to_do(
    postgres_engine: sqlalchemy.Engine, sqlite_engine: sqlalchemy.Engine, tmp_path: Path
) -> None:
    """Nothing passes where the marks are not installed, in any of the ways."""
    for engine in (postgres_engine, sqlite_engine):
        with (
            pytest.raises(MarkUnavailable, match="is missing, so the effect is refused"),
            engine.begin() as c,
        ):
            sql.fence(c, TOKEN)
    with postgres_engine.begin() as connection:
        sql.install(connection)
        connection.exec_driver_sql("DROP TABLE worklease_mark")
    with pytest.raises(MarkUnavailable, match="worklease_mark is missing"), postgres_engine.begin() as connection:
        sql.fence(connection, TOKEN)
    with sqlite3.connect(tmp_path / "empty.sqlite") as bare, pytest.raises(MarkUnavailable, match="is missing"):
        sqlite.fence(bare, TOKEN)
    bare.close()


def test_a_connection_that_commits_by_itself_is_refused(
    postgres_engine: sqlalchemy.Engine, sqlite_engine: sqlalchemy.Engine, tmp_path: Path
) -> None:
    """Check and effect in two transactions would be check-then-act, so autocommit is an error."""
    for engine in (postgres_engine, sqlite_engine):
        SqlAlchemyRecipient(engine)
        automatic = engine.execution_options(isolation_level="AUTOCOMMIT")
        with automatic.connect() as connection, pytest.raises(MarkUnavailable, match="commits by itself"):
            sql.fence(connection, TOKEN)
    bare = sqlite3.connect(tmp_path / "bare.sqlite", isolation_level=None)
    sqlite.install(bare)
    with pytest.raises(MarkUnavailable, match="commits by itself"):
        sqlite.fence(bare, TOKEN)
    bare.execute("BEGIN")
    sqlite.fence(bare, TOKEN)
    bare.close()


def test_another_database_is_refused_by_name() -> None:
    """No mark is kept where its locks have not been proven."""
    engine = sqlalchemy.create_mock_engine("mysql://", lambda *_: None)
    with pytest.raises(MarkUnavailable, match="no mark for mysql"):
        sql.fence(engine, TOKEN)  # type: ignore[arg-type]


def test_an_async_connection_and_an_orm_session_take_the_same_fence(
    postgres: str, sqlite_engine: sqlalchemy.Engine
) -> None:
    """The synchronous function is all there is: run_sync and Session.connection() reach it."""

    async def through_asyncio() -> None:
        engine = create_async_engine(
            "postgresql+psycopg://", async_creator=lambda: psycopg.AsyncConnection.connect(postgres)
        )
        async with engine.begin() as connection:
            await connection.run_sync(sql.install)
        async with engine.begin() as connection:
            await connection.run_sync(sql.fence, TOKEN)
        with pytest.raises(StaleEpoch, match="epoch 7 has been here"):
            async with engine.begin() as connection:
                await connection.run_sync(sql.fence, Token(LEASE, 6))
        await engine.dispose()

    asyncio.run(through_asyncio())
    SqlAlchemyRecipient(sqlite_engine).effect(TOKEN)
    with Session(sqlite_engine) as session, pytest.raises(StaleEpoch):
        sql.fence(session.connection(), Token(LEASE, 6))


def test_the_script_is_split_without_losing_anything() -> None:
    """The statements that are sent one at a time are the script, comments aside."""
    statements = sql.statements(SCRIPT.decode())
    assert [statement.split("(")[0].split()[0] for statement in statements] == [
        "CREATE", "COMMENT", "CREATE", "CREATE", "DO", "REVOKE",
    ]  # fmt: skip
    bare = "\n".join(line for line in SCRIPT.decode().splitlines() if not line.strip().startswith("--"))
    assert "".join("".join(statements).split()) == "".join(bare.split())


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.parametrize("checked", [True, False], ids=["fenced", "without-the-check"])
def test_no_order_of_two_sqlite_transactions_lets_a_stale_effect_through(
    tmp_path: Path, journal: str, checked: bool
) -> None:
    """In all orders of read, check, write and commit the epochs land in order; without the check they do not."""
    path = f"{tmp_path}/{journal}.sqlite"
    recipient = StdlibSqlite(path)
    recipient.connection.execute(f"PRAGMA journal_mode={journal}")
    slipped = False
    for number, schedule in enumerate(schedules(4, 4)):
        lease = f"payments/{number}"
        recipient.effect(Token(lease, 5))
        connections = [sqlite3.connect(path, timeout=0.0, isolation_level=None) for _ in range(2)]
        committed: list[int] = []
        failed: set[int] = set()
        steps = [_steps(connection, Token(lease, 5 + actor), checked) for actor, connection in enumerate(connections)]
        for actor in schedule:
            step = steps[actor].pop(0)
            if actor in failed:
                continue
            try:
                step()
            except (sqlite3.OperationalError, MarkUnavailable, StaleEpoch):
                failed.add(actor)
                connections[actor].close()
                continue
            if not steps[actor]:
                committed.append(5 + actor)
        assert committed, f"{schedule}: somebody gets through"
        slipped = slipped or committed == [6, 5]
        for connection in connections:
            connection.close()
    recipient.close()
    assert slipped is not checked


def _steps(connection: sqlite3.Connection, token: Token, checked: bool) -> list[Any]:
    def begin() -> None:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM effect").fetchall()

    return [
        begin,
        lambda: sqlite.fence(connection, token) if checked else None,
        lambda: connection.execute("INSERT INTO effect (lease, epoch) VALUES (?, ?)", (token.lease, token.epoch)),
        connection.commit,
    ]


def test_concurrent_processes_share_the_marks_of_a_database(postgres: str) -> None:
    """Two recipients on one database see each other's marks at once."""
    first = PlainPostgres(postgres)
    with psycopg.connect(postgres) as second:
        first.effect(Token(LEASE, 9))
        assert refusal(second, "SELECT worklease_fence(%s, 8)", LEASE) == "WL412"
    first.close()
