"""The heap of deadlines: everything comes due at its time, once, and a renewal costs it nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worklease.controller.deadlines import Deadlines


def test_what_is_due_comes_out_once_with_the_time_at_which_it_was() -> None:
    """In the order of the deadlines, each at its own time, also when they are looked at late."""
    deadlines = Deadlines()
    for uid, due_at in (("b", 20.0), ("a", 10.0), ("c", 30.0)):
        deadlines.set(uid, due_at)
    assert deadlines.pop_due(9.9) == []
    assert deadlines.pop_due(25.0) == [("a", 10.0), ("b", 20.0)]
    assert deadlines.pop_due(25.0) == []
    assert (len(deadlines), deadlines.next_at()) == (1, 30.0)


def test_a_deadline_is_due_at_its_very_time() -> None:
    """Whoever waits until next_at() finds what it waited for."""
    deadlines = Deadlines()
    deadlines.set("a", 10.0)
    assert deadlines.pop_due(10.0) == [("a", 10.0)]


def test_only_a_new_earliest_deadline_asks_to_be_waited_for() -> None:
    """A later deadline, another object's or its own, wakes nobody."""
    deadlines = Deadlines()
    assert deadlines.set("a", 10.0)
    assert not deadlines.set("b", 20.0)
    assert not deadlines.set("a", 15.0)
    assert deadlines.set("b", 5.0)
    assert not deadlines.set("c", None)


def test_a_deadline_that_moved_later_is_due_at_the_later_time() -> None:
    """The old entry comes up, is found to have moved, and is entered again."""
    deadlines = Deadlines()
    deadlines.set("a", 10.0)
    deadlines.set("a", 40.0)
    assert deadlines.pop_due(10.0) == []
    assert deadlines.next_at() == 40.0
    assert deadlines.pop_due(40.0) == [("a", 40.0)]


def test_a_deadline_that_moved_earlier_is_due_at_the_earlier_time_only() -> None:
    """The entry that was overtaken is passed over."""
    deadlines = Deadlines()
    deadlines.set("a", 40.0)
    deadlines.set("a", 10.0)
    assert deadlines.pop_due(10.0) == [("a", 10.0)]
    assert deadlines.pop_due(50.0) == []
    assert deadlines.next_at() is None


@pytest.mark.parametrize("drop", [lambda d: d.drop("a"), lambda d: d.set("a", None)], ids=["drop", "never"])
def test_what_is_dropped_never_comes_due(drop: object) -> None:
    """An object that is gone, or that has no deadline any more."""
    deadlines = Deadlines()
    deadlines.set("a", 10.0)
    assert callable(drop)
    drop(deadlines)
    drop(deadlines)
    assert (len(deadlines), deadlines.pop_due(99.0)) == (0, [])
    deadlines.set("a", 100.0)
    assert deadlines.pop_due(100.0) == [("a", 100.0)]


def test_renewals_do_not_grow_the_heap() -> None:
    """A thousand renewals of one lease leave one entry: memory follows the number of leases."""
    deadlines = Deadlines()
    for number in range(1000):
        deadlines.set("a", 10.0 + number)
        deadlines.set("a", 10.0)
    assert len(deadlines._heap) == 1


def test_deadlines_that_move_back_and_forth_do_not_grow_the_heap() -> None:
    """One that is entered earlier again and again leaves nothing behind: nor does one that is dropped."""
    deadlines = Deadlines()
    for number in range(10_000):
        deadlines.set("a", 1e6 - number)
        deadlines.set(f"gone-{number}", 1e6)
        deadlines.drop(f"gone-{number}")
    assert len(deadlines._heap) < 200
    assert deadlines.pop_due(1e6) == [("a", 1e6 - 9_999)]


Move = tuple[str, float | None]
moves = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 40).map(float)),
        st.tuples(st.just("wait"), st.integers(0, 15).map(float)),
    ),
    max_size=60,
)


@given(moves)
def test_the_heap_agrees_with_a_plain_table(done: list[Move]) -> None:
    """Whatever is entered, moved and dropped, at every time exactly what a table of due times says is due."""
    deadlines, table, now = Deadlines(), dict[str, float](), 0.0
    for uid, value in done:
        if uid == "wait":
            now += value or 0.0
            due = {uid: at for uid, at in table.items() if at <= now}
            table = {uid: at for uid, at in table.items() if at > now}
            assert dict(deadlines.pop_due(now)) == due
        elif value is None:
            table.pop(uid, None)
            deadlines.set(uid, None)
        else:
            table[uid] = now + value
            deadlines.set(uid, now + value)
        next_at = deadlines.next_at()
        assert len(deadlines) == len(table)
        assert not table or (next_at is not None and next_at <= min(table.values()))
