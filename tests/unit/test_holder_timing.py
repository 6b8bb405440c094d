"""What a holder believes, on a clock that the test owns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worklease.client.timing import (
    CLOCK_RATE,
    Belief,
    Standing,
    Terms,
    margin_seconds,
    pause_seconds,
    timeout_seconds,
)

DURATIONS = st.integers(10, 86400)
GRACES = st.integers(0, 3600)
DAY = 86400


def belief(lease: float = 10, jeopardy: float = 5, sent_at: float = 100.0) -> Belief:
    """A belief from a claim that was sent at 100 s."""
    return Belief(Terms(lease, jeopardy), sent_at)


def test_the_margin_grows_with_the_duration() -> None:
    """In a day two honest clocks drift apart by 43 s: a fixed margin would not do (case 7)."""
    assert margin_seconds(DAY) >= CLOCK_RATE * DAY == 43.2
    assert margin_seconds(10) < margin_seconds(DAY)


@given(DURATIONS, GRACES)
def test_belief_ends_before_the_lease_on_the_slowest_clock(lease: int, jeopardy: int) -> None:
    """A holder's clock that is slow by the permitted rate still ends belief before the operator's time is up."""
    terms = Terms(lease, jeopardy)
    slow = 1 + CLOCK_RATE
    assert terms.certain_seconds * slow < lease
    assert terms.safe_seconds * slow < lease + jeopardy
    assert 0 < terms.certain_seconds <= terms.safe_seconds


@given(DURATIONS, GRACES)
def test_two_attempts_fit_before_the_deadline_after_a_renewal_is_due(lease: int, jeopardy: int) -> None:
    """One request that hangs does not cost the lease (cases 6, 28)."""
    terms = Terms(lease, jeopardy)
    assert terms.renewal_seconds + 2 * terms.request_seconds < terms.certain_seconds


def test_the_standing_goes_by_the_clock_alone() -> None:
    """Held until the deadline, in jeopardy until the expiry, lost after it."""
    held = belief()
    assert held.standing(held.deadline - 0.001) is Standing.HELD
    assert held.standing(held.deadline) is Standing.JEOPARDY
    assert held.standing(held.expiry - 0.001) is Standing.JEOPARDY
    assert held.standing(held.expiry) is Standing.LOST


def test_deadlines_count_from_the_sending() -> None:
    """A renewal that was answered late has moved the deadline by when it was sent, not by when it was answered."""
    held = belief()
    assert held.confirm(sent_at=103.0, now=108.0)
    assert held.deadline == 103.0 + held.terms.certain_seconds


def test_an_answer_that_overtakes_a_later_one_moves_nothing_back() -> None:
    """Answers may arrive out of order."""
    held = belief()
    held.confirm(sent_at=105.0, now=106.0)
    deadline = held.deadline
    assert held.confirm(sent_at=103.0, now=106.5)
    assert held.deadline == deadline


def test_a_renewal_in_jeopardy_makes_it_certain_again() -> None:
    """Jeopardy is neither lost nor held."""
    held = belief()
    assert held.standing(110.0) is Standing.JEOPARDY
    assert held.confirm(sent_at=110.0, now=110.5)
    assert held.standing(110.5) is Standing.HELD


def test_lost_is_lost_whatever_is_answered_later() -> None:
    """Who woke too late does not come back by an answer that was on its way (case 27)."""
    held = belief()
    assert not held.confirm(sent_at=113.0, now=held.expiry)
    assert held.standing(101.0) is Standing.LOST
    assert not belief().confirm(sent_at=80.0, now=held.expiry)


def test_a_re_claim_takes_the_terms_of_its_grant_and_loses_no_time() -> None:
    """Its own sending counts, or a renewal of the old epoch that was accepted later: both were before the grant."""
    held = belief(lease=30)
    assert held.begin(Terms(60.0, 0.0), sent_at=110.0, now=112.0)
    assert held.deadline == 110.0 + Terms(60.0, 0.0).certain_seconds
    assert held.confirm(sent_at=120.0, now=121.0)
    assert held.begin(Terms(10.0, 0.0), sent_at=115.0, now=122.0)
    assert held.deadline == 120.0 + Terms(10.0, 0.0).certain_seconds
    assert held.standing(held.expiry) is Standing.LOST
    assert not held.begin(Terms(3600.0, 0.0), sent_at=129.0, now=130.0)


def test_who_has_ended_it_stays_ended() -> None:
    """The holder's own word and a loss exclude each other: the first one counts."""
    held = belief()
    assert held.end(Standing.ENDED)
    assert not held.end(Standing.LOST)
    assert not held.confirm(sent_at=101.0, now=101.0)
    assert held.standing(500.0) is Standing.ENDED
    assert held.next_change(101.0) is None
    assert timeout_seconds(held, 101.0) == 0.0


@given(DURATIONS, GRACES, st.floats(0, 1))
def test_no_request_outlasts_the_standing_under_which_it_was_sent(lease: int, jeopardy: int, part: float) -> None:
    """A timeout lies inside the margin: the request has ended when the belief does (cases 6, 28)."""
    held = Belief(Terms(lease, jeopardy), 0.0)
    now = part * held.expiry
    change = held.next_change(now)
    if change is not None:
        assert now + timeout_seconds(held, now) <= change + 1e-6


def test_renewals_come_three_to_a_lease_and_quickly_after_a_failure() -> None:
    """The interval counts from the last sending; after failures it is the back-off."""
    held = belief(lease=30)
    assert pause_seconds(held, 0, now=104.0) == 6.0
    assert pause_seconds(held, 0, now=200.0) == 0.0
    pauses = [pause_seconds(held, failures, now=110.0) for failures in (1, 2, 3, 4, 50)]
    assert pauses == sorted(pauses)
    assert pauses[0] == 0.2
    assert pauses[-1] <= 5.0


def test_retry_after_is_respected_as_long_as_an_attempt_fits() -> None:
    """A server that asks for patience gets it, but not the lease."""
    held = belief(lease=600)
    assert pause_seconds(held, 1, now=300.0, retry_after_seconds=30.0) == 30.0
    latest = held.deadline - held.terms.request_seconds
    assert 300.0 + pause_seconds(held, 1, now=300.0, retry_after_seconds=3600.0) == latest
