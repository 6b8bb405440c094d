"""The clock of the deadlines: it stands still while the watch is blind, so an outage costs no holder its lease."""

from __future__ import annotations

import pytest

from worklease.controller.clock import WatchClock
from worklease.kube.clock import ServerClock


class Monotonic:
    """A monotonic clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def monotonic() -> Monotonic:
    return Monotonic()


@pytest.fixture
def clock(monotonic: Monotonic) -> WatchClock:
    return WatchClock(ServerClock(), monotonic)


def test_it_runs_with_the_monotonic_clock_while_the_watch_sees(clock: WatchClock, monotonic: Monotonic) -> None:
    """Second for second."""
    began = clock.seconds()
    monotonic.now += 12.5
    assert clock.seconds() - began == 12.5
    assert not clock.blind


def test_it_stands_still_from_when_nothing_was_seen_any_more(clock: WatchClock, monotonic: Monotonic) -> None:
    """From the last sign of the watch, not from when its silence was noticed: nothing comes due meanwhile."""
    monotonic.now += 10.0
    last_heard, read_at = monotonic.now, clock.seconds()
    monotonic.now += 75.0
    clock.stop(last_heard)
    assert clock.blind
    assert clock.seconds() == read_at
    monotonic.now += 3600.0
    assert clock.seconds() == read_at


def test_after_an_outage_every_deadline_is_later_by_its_length(clock: WatchClock, monotonic: Monotonic) -> None:
    """resume() says by how much, and the clock goes on from where it stood."""
    read_at = clock.seconds()
    clock.stop(monotonic.now)
    monotonic.now += 90.0
    assert clock.resume() == 90.0
    assert not clock.blind
    assert clock.seconds() == read_at
    monotonic.now += 5.0
    assert clock.seconds() - read_at == 5.0


def test_outages_add_up(clock: WatchClock, monotonic: Monotonic) -> None:
    """Each one is left out, the time between them is not."""
    began = clock.seconds()
    for outage in (10.0, 20.0):
        monotonic.now += 7.0
        clock.stop(monotonic.now)
        monotonic.now += outage
        clock.resume()
    assert clock.seconds() - began == 14.0


def test_stopping_twice_keeps_the_first_time_and_resuming_twice_adds_nothing(
    clock: WatchClock, monotonic: Monotonic
) -> None:
    """The supervisor may say the same thing again."""
    read_at = clock.seconds()
    clock.stop(monotonic.now)
    monotonic.now += 10.0
    clock.stop(monotonic.now)
    assert clock.seconds() == read_at
    assert clock.resume() == 10.0
    assert clock.resume() == 0.0
    assert clock.seconds() == read_at


def test_a_moment_has_both_times(clock: WatchClock, monotonic: Monotonic) -> None:
    """Deadlines go by the clock that stands still; what people read goes by the server's time."""
    clock.stop(monotonic.now)
    first = clock.moment()
    monotonic.now += 60.0
    second = clock.moment()
    assert first.clock_seconds == second.clock_seconds == clock.seconds()
    assert second.wall >= first.wall
