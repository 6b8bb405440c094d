"""Whether the watches can see: each of them counts, and what another one hears does not make up for it."""

from __future__ import annotations

import pytest

from worklease.controller.watch import REOPEN_SECONDS, WatchHealth
from worklease.kube.following import SILENT_SECONDS


class Clock:
    """A monotonic clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """At its start."""
    return Clock()


@pytest.fixture
def health(clock: Clock) -> WatchHealth:
    """Of the watches of both kinds, open since now."""
    health = WatchHealth(clock)
    health.expected = 2
    health.opened("leases")
    health.opened("handoffs")
    return health


def test_before_any_watch_is_open_nothing_is_seen(clock: Clock) -> None:
    """From the start on."""
    health = WatchHealth(clock)
    clock.now += REOPEN_SECONDS + 1.0
    assert (health.age_seconds(), health.blind_since()) == (REOPEN_SECONDS + 1.0, 1000.0)


def test_a_watch_that_is_away_is_not_hidden_by_one_that_hears(clock: Clock, health: WatchHealth) -> None:
    """Leases are not seen while only handoffs are watched."""
    health.closed("leases")
    clock.now += 3600.0
    health.heard("handoffs")
    assert (health.age_seconds(), health.blind_since()) == (3600.0, 1000.0)


def test_how_quiet_another_watch_was_does_not_make_an_outage_longer(clock: Clock, health: WatchHealth) -> None:
    """A watch that has nothing to tell is not blind: what was seen until the outage counts."""
    clock.now += SILENT_SECONDS - REOPEN_SECONDS - 5.0
    health.heard("leases")
    away_since = clock.now
    health.closed("leases")
    clock.now += REOPEN_SECONDS + 1.0
    assert health.blind_since() == away_since


def test_a_watch_that_is_silent_is_not_hidden_by_one_that_hears(clock: Clock, health: WatchHealth) -> None:
    """It is open, and may be deaf."""
    clock.now += SILENT_SECONDS + 1.0
    health.heard("handoffs")
    assert (health.age_seconds(), health.blind_since()) == (SILENT_SECONDS + 1.0, 1000.0)
    health.heard("leases")
    assert (health.age_seconds(), health.blind_since()) == (0.0, None)


def test_a_watch_that_is_opened_again_soon_was_not_away(clock: Clock, health: WatchHealth) -> None:
    """Servers close them routinely."""
    health.closed("leases")
    clock.now += REOPEN_SECONDS / 2
    assert health.blind_since() is None
    health.opened("leases again")
    assert (health.closed_at, health.age_seconds()) == (None, REOPEN_SECONDS / 2)


def test_a_pause_is_no_silence_of_the_watch_and_no_sound_of_tomorrow(clock: Clock, health: WatchHealth) -> None:
    """What was heard while the operator was held up is not heard later than now."""
    clock.now += 60.0
    health.excuse(60.0)
    assert health.age_seconds() == 0.0
    health.excuse(60.0)
    assert health.age_seconds() == 0.0
