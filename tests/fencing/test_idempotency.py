"""An effect that is sent again is answered as the first time, also by a successor, and happens once."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy

from support.recipients import SqlAlchemyRecipient
from worklease.errors import EffectMismatch, MalformedToken, MarkUnavailable, StaleEpoch
from worklease.fencing import Token, idempotency

LEASE = "payments/invoice-42"
OLD, NEW = Token(LEASE, 7), Token(LEASE, 9)
CHARGED = "SELECT count(*) FROM effect"


@pytest.fixture(params=["postgres_engine", "sqlite_engine"])
def engine(request: pytest.FixtureRequest) -> sqlalchemy.Engine:
    """A database with a fence, a table of effects and one of their answers."""
    engine: sqlalchemy.Engine = request.getfixturevalue(request.param)
    SqlAlchemyRecipient(engine)
    with engine.begin() as connection:
        idempotency.install(connection)
    return engine


def charge(
    engine: sqlalchemy.Engine, token: Token, effect_id: str = "charge-1", request: bytes = b"100", answer: str = "ok"
) -> idempotency.Answer:
    """Charges once, in a transaction."""
    with engine.begin() as connection:

        def perform() -> str:
            connection.exec_driver_sql(f"INSERT INTO effect (lease, epoch) VALUES ('{token.lease}', {token.epoch})")
            return answer

        return idempotency.once(connection, token, effect_id, request, perform)


def count(engine: sqlalchemy.Engine) -> int:
    """How many charges there are."""
    with engine.begin() as connection:
        return int(connection.exec_driver_sql(CHARGED).scalar_one())


def test_a_successor_that_sends_again_gets_the_first_answer(engine: sqlalchemy.Engine) -> None:
    """Case 29: the effect whose outcome was unknown is sent again by the next tenure, and happens once."""
    assert charge(engine, OLD, answer="receipt 1") == idempotency.Answer("receipt 1", replayed=False)
    assert charge(engine, NEW, answer="receipt 2") == idempotency.Answer("receipt 1", replayed=True)
    assert count(engine) == 1


def test_the_old_tenure_is_refused_even_for_an_effect_that_happened(engine: sqlalchemy.Engine) -> None:
    """The fence comes first: a stale sender learns that it is stale, not what was answered."""
    charge(engine, OLD)
    charge(engine, NEW)
    with pytest.raises(StaleEpoch):
        charge(engine, OLD)


def test_an_id_means_one_request(engine: sqlalchemy.Engine) -> None:
    """The same id with another request is an error, not the answer to something else."""
    charge(engine, OLD, request=b"100")
    with pytest.raises(EffectMismatch, match="charge-1 of payments/invoice-42 was a different request"):
        charge(engine, OLD, request=b"999")
    assert count(engine) == 1


def test_ids_belong_to_their_lease(engine: sqlalchemy.Engine) -> None:
    """Another work item may use the same id."""
    charge(engine, OLD)
    assert not charge(engine, Token("payments/invoice-43", 1)).replayed


def test_an_effect_that_failed_may_be_sent_again(engine: sqlalchemy.Engine) -> None:
    """What perform raises rolls everything back, the id included."""

    def fail() -> str:
        raise OSError("the bank is closed")

    with pytest.raises(OSError, match="closed"), engine.begin() as connection:
        idempotency.once(connection, OLD, "charge-1", b"100", fail)
    assert not charge(engine, OLD).replayed


def test_a_failure_that_was_committed_is_not_an_answer(engine: sqlalchemy.Engine) -> None:
    """Whoever catches what perform raised and commits has left an effect of which nobody knows whether it happened."""

    def fail() -> str:
        raise OSError("the bank is closed")

    with engine.begin() as connection, contextlib.suppress(OSError):
        idempotency.once(connection, OLD, "charge-1", b"100", fail)
    with pytest.raises(MarkUnavailable, match="charge-1 of payments/invoice-42 was begun and has no answer"):
        charge(engine, NEW)
    assert count(engine) == 0


@pytest.mark.parametrize("effect_id", ["", "a b", "x" * 65, "\0", "é", "a\n"])
def test_an_id_is_bounded_and_visible(sqlite_engine: sqlalchemy.Engine, effect_id: str) -> None:
    """What cannot be an effect's id is refused before anything is read."""
    with pytest.raises(MalformedToken), sqlite_engine.begin() as connection:
        idempotency.once(connection, OLD, effect_id, b"", lambda: "")


def test_an_answer_is_bounded(engine: sqlalchemy.Engine) -> None:
    """An answer too long to keep refuses the effect rather than being cut."""
    with pytest.raises(ValueError, match="longer than"):
        charge(engine, OLD, answer="x" * 65537)
    assert count(engine) == 0


def test_of_two_at_once_one_performs(engine: sqlalchemy.Engine) -> None:
    """Senders that race under one id get the same answer, and the effect happens once."""

    def send(number: int) -> idempotency.Answer:
        return charge(engine, OLD, answer=f"receipt {number}")

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(send, range(6)))
    assert len({answer.result for answer in answers}) == 1
    assert [answer.replayed for answer in answers].count(False) == 1
    assert count(engine) == 1
