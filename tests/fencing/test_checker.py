"""The authorizer's checks: nothing is allowed before its mark is durable, and marks move many at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worklease.errors import FencingError, MarkUnavailable, StaleEpoch
from worklease.fencing import Token
from worklease.fencing.authorizer import checker as module
from worklease.fencing.authorizer.checker import Checker
from worklease.fencing.authorizer.stores import PostgresStore, SqliteStore, open_store

LEASE = "payments/invoice-42"


class Memory:
    """A store that can be held up, made to fail, and asked what it was told."""

    def __init__(self, exclusive: bool = True) -> None:
        self.exclusive = exclusive
        self.marks: dict[str, int] = {}
        self.moves: list[dict[str, int]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.asked = threading.Event()
        self.broken = False

    def move(self, wanted: Mapping[str, int]) -> dict[str, int]:
        self.moves.append(dict(wanted))
        self.asked.set()
        assert self.go_on.wait(30)
        if self.broken:
            raise MarkUnavailable("disk full")
        for lease, epoch in wanted.items():
            self.marks[lease] = max(epoch, self.marks.get(lease, 0))
        return {lease: self.marks[lease] for lease in wanted}

    def close(self) -> None:
        pass


async def outcome(checker: Checker, epoch: int, lease: str = LEASE) -> str:
    """How one check ends."""
    try:
        await checker.check(Token(lease, epoch))
    except FencingError as error:
        return type(error).__name__
    return "allowed"


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a scenario with a bound."""
    asyncio.run(asyncio.wait_for(scenario, 60))


def test_nothing_is_allowed_before_its_mark_is_durable() -> None:
    """While the commit is under way its checks wait; those that come meanwhile share the next commit."""
    store = Memory()

    async def scenario() -> None:
        checker = Checker(store)
        store.go_on.clear()
        first = asyncio.create_task(outcome(checker, 5))
        await asyncio.to_thread(store.asked.wait, 30)
        others = [asyncio.create_task(outcome(checker, 6, f"payments/{number}")) for number in range(100)]
        done, _ = await asyncio.wait([first, *others], timeout=0.05)
        assert not done
        store.go_on.set()
        assert {await task for task in [first, *others]} == {"allowed"}
        assert len(store.moves) == 2, "a hundred checks, one commit"
        await checker.close()

    run(scenario())


def test_of_two_tenures_in_one_batch_only_the_later_is_allowed() -> None:
    """The mark that a batch leaves behind decides all its checks."""

    async def scenario() -> None:
        checker = Checker(Memory())
        assert await asyncio.gather(*(outcome(checker, epoch) for epoch in (5, 7, 6, 7))) == [
            "StaleEpoch", "allowed", "StaleEpoch", "allowed",
        ]  # fmt: skip
        await checker.close()

    run(scenario())


def test_a_store_that_fails_refuses_the_checks_and_is_tried_again() -> None:
    """A failed commit allows nothing and remembers nothing."""
    store = Memory()

    async def scenario() -> None:
        checker = Checker(store)
        store.broken = True
        assert await outcome(checker, 5) == "MarkUnavailable"
        store.broken = False
        assert await outcome(checker, 4) == "allowed"
        await checker.close()

    run(scenario())


def test_a_defect_of_the_store_refuses_its_checks_and_stops_nothing() -> None:
    """Nobody waits for ever for a batch that ended in an unexpected way, and the next one is tried."""

    class Defective(Memory):
        def move(self, wanted: Mapping[str, int]) -> dict[str, int]:
            if self.broken:
                raise ZeroDivisionError
            return super().move(wanted)

    store = Defective()

    async def scenario() -> None:
        checker = Checker(store)
        store.broken = True
        assert await outcome(checker, 5) == "MarkUnavailable"
        store.broken = False
        assert await outcome(checker, 5) == "allowed"
        await checker.close()

    run(scenario())


@pytest.mark.parametrize("given", [{}, {LEASE: 4}])
def test_a_mark_that_did_not_move_admits_nothing(given: dict[str, int]) -> None:
    """A store that gives back no mark, or a lower one than was asked for, has not made this epoch durable."""

    class Forgetful(Memory):
        def move(self, wanted: Mapping[str, int]) -> dict[str, int]:
            return given

    async def scenario() -> None:
        checker = Checker(Forgetful())
        assert await outcome(checker, 5) == "MarkUnavailable"
        assert await outcome(checker, 5) == "MarkUnavailable"
        await checker.close()

    run(scenario())


def test_a_database_that_cannot_be_written_admits_nothing(postgres: str) -> None:
    """A standby may lag behind: the marks there are not believed, also where none would have to move."""
    store = PostgresStore(postgres)
    store.move({LEASE: 7})
    store.close()
    with psycopg.connect(postgres, autocommit=True) as administrator:
        name = administrator.info.dbname
        administrator.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        with pytest.raises(MarkUnavailable):
            store.move({LEASE: 7})
        administrator.execute("SET default_transaction_read_only = off")
        administrator.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
    assert store.move({LEASE: 5}) == {LEASE: 7}
    store.close()


@pytest.mark.parametrize(("exclusive", "asked"), [(True, 1), (False, 3)])
def test_only_a_sole_owner_allows_from_memory(exclusive: bool, asked: int) -> None:
    """A store that others write too is asked before every pass; a refusal may always come from memory."""
    store = Memory(exclusive)

    async def scenario() -> None:
        checker = Checker(store)
        for _ in range(3):
            assert await outcome(checker, 5) == "allowed"
        assert await outcome(checker, 4) == "StaleEpoch"
        assert len(store.moves) == asked
        if not exclusive:
            store.marks[LEASE] = 9  # Another replica.
            assert await outcome(checker, 5) == "StaleEpoch"
        await checker.close()

    run(scenario())


def test_a_flood_is_refused_not_queued_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks beyond the bound are refused at once while the store is slow."""
    monkeypatch.setattr(module, "MAX_WAITING", 10)
    store = Memory()

    async def scenario() -> None:
        checker = Checker(store)
        store.go_on.clear()
        tasks = [asyncio.create_task(outcome(checker, 5, f"payments/{number}")) for number in range(100)]
        assert await asyncio.to_thread(store.asked.wait, 30)
        store.go_on.set()
        results = [await task for task in tasks]
        assert 10 <= results.count("allowed") <= 20
        assert results.count("MarkUnavailable") == 100 - results.count("allowed")
        await checker.close()

    run(scenario())


def test_what_is_forgotten_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory is bounded; a lease that fell out of it is checked against the store."""
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    store = Memory()

    async def scenario() -> None:
        checker = Checker(store)
        for number in range(5):
            assert await outcome(checker, 5, f"payments/{number}") == "allowed"
        assert await outcome(checker, 4, "payments/0") == "StaleEpoch"
        assert store.moves[-1] == {"payments/0": 4}
        await checker.close()

    run(scenario())


def test_a_sender_that_goes_away_does_not_disturb_the_others() -> None:
    """A cancelled check leaves its batch to the rest."""
    store = Memory()

    async def scenario() -> None:
        checker = Checker(store)
        store.go_on.clear()
        gone, stays = (asyncio.create_task(outcome(checker, 5)) for _ in range(2))
        assert await asyncio.to_thread(store.asked.wait, 30)
        gone.cancel()
        store.go_on.set()
        assert await stays == "allowed"
        await checker.close()

    run(scenario())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), max_size=8), max_size=6), st.booleans())
def test_any_load_keeps_the_rule(rounds: list[list[tuple[str, int]]], exclusive: bool) -> None:
    """What is allowed is never below a mark that was durable before it was asked for."""

    async def scenario() -> None:
        checker = Checker(Memory(exclusive))
        highest = dict.fromkeys("abc", 0)
        for checks in rounds:
            results = await asyncio.gather(*(outcome(checker, epoch, f"n/{name}") for name, epoch in checks))
            for (name, epoch), result in zip(checks, results, strict=True):
                if epoch < highest[name]:
                    assert result == "StaleEpoch"
            for name in "abc":
                asked = [epoch for other, epoch in checks if other == name]
                allowed = [
                    e
                    for (other, e), result in zip(checks, results, strict=True)
                    if (other, result) == (name, "allowed")
                ]
                if asked and max(asked) >= highest[name]:
                    assert max(asked) in allowed, "the latest tenure is never shut out"
                highest[name] = max([highest[name], *allowed])
        await checker.close()

    run(scenario())


def test_a_file_has_one_owner(tmp_path: Path) -> None:
    """While one store has the file open no other can open it, and sqlite3 cannot write it either."""
    path = tmp_path / "marks.sqlite"
    store = open_store(f"sqlite:{path}")
    assert store.exclusive
    with pytest.raises(MarkUnavailable, match="is open in another process"):
        SqliteStore(path)
    store.move({LEASE: 7})
    store.close()
    again = SqliteStore(path)
    assert again.move({LEASE: 5}) == {LEASE: 7}
    again.close()


@pytest.mark.parametrize(
    "url", ["", "sqlite:", "mysql://x", "marks.sqlite", "sqlite:/no/such/directory/marks", "sqlite::memory:"]
)
def test_a_store_is_named_by_a_known_url(url: str) -> None:
    """Anything else is refused with what would be right."""
    with pytest.raises(MarkUnavailable):
        open_store(url)


def test_a_stale_answer_names_the_mark(tmp_path: Path) -> None:
    """The refusal carries both epochs, from memory and from the store."""
    store = SqliteStore(tmp_path / "marks.sqlite")
    store.move({LEASE: 9})

    async def scenario() -> None:
        checker = Checker(store)
        for _ in range(2):
            with pytest.raises(StaleEpoch) as caught:
                await checker.check(Token(LEASE, 8))
            assert (caught.value.epoch, caught.value.highest) == (8, 9)
        await checker.close()

    run(scenario())
