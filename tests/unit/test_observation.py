"""What an operator knows of a tenure: from when it counts, and what it believes at first sight, after a restart."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from support.leases import (
    BOTH_SECONDS,
    CLOCK_START,
    EPOCH,
    LEASE_SECONDS,
    at,
    decide_at,
    renewal,
    said,
    work_lease,
)
from worklease.api.worklease import LEASED, Phase, WorkLease
from worklease.protocol.decide import decide
from worklease.protocol.moments import Moment, parse_rfc3339, rfc3339
from worklease.protocol.observation import SKEW_ALLOWANCE_SECONDS, Observation, last_heard, observe

RENEWED_AT = "2026-11-30T12:00:40Z"


def owner(fields: Any = None, time: Any = RENEWED_AT, **entry: Any) -> dict[str, Any]:
    """An entry of metadata.managedFields, the one that owns the renewal when nothing else is said."""
    owned = {"f:spec": {"f:renewal": {}}} if fields is None else fields
    return {"manager": "agent", "operation": "Update", "time": time, "fieldsV1": owned, **entry}


def first_sight(lease: WorkLease, seconds: float, heard_seconds: float | None) -> Observation:
    """Of an operator that has just started."""
    heard = None if heard_seconds is None else at(heard_seconds).wall
    seen = observe(None, lease, at(seconds), heard)
    assert seen is not None
    return seen


def deadlines(seen: Observation) -> tuple[float, float]:
    """When it lapses and expires, in seconds since the grant."""
    return seen.lapses_at - CLOCK_START, seen.expires_at - CLOCK_START


@pytest.mark.parametrize("phase", sorted(set(Phase) - LEASED))
def test_there_is_nothing_to_observe_of_work_that_nobody_holds(phase: Phase) -> None:
    """A renewal that is left in spec of free work is no tenure."""
    assert observe(None, work_lease(phase, renewal=renewal()), at(0), None) is None


def test_the_last_renewal_was_heard_when_the_server_says_so() -> None:
    """The time of the one managedFields entry that owns the renewal, not what the holder wrote."""
    lease = work_lease(Phase.HELD, renewal=renewal(5000))
    entries = [
        owner({"f:spec": {"f:claim": {}}}, "2026-11-30T11:00:00Z"),
        owner({"f:status": {"f:phase": {}}}, "2026-11-30T12:00:50Z", subresource="status"),
        owner(),
    ]
    assert last_heard(lease, entries) == parse_rfc3339(RENEWED_AT)


@pytest.mark.parametrize("spoken", [{}, {"renewal": renewal(epoch=EPOCH - 1)}], ids=["none", "of another epoch"])
def test_without_a_renewal_of_this_epoch_the_grant_was_heard_last(spoken: dict[str, Any]) -> None:
    """The owner of an earlier tenure's renewal says nothing about this one."""
    assert last_heard(work_lease(Phase.HELD, **spoken), [owner()]) == at(0).wall


MALFORMED: dict[str, Any] = {
    "absent": None,
    "empty": [],
    "no list": {"manager": "agent"},
    "text": "managedFields",
    "entries that are no maps": [None, 7, "x", []],
    "nobody owns it": [owner({"f:spec": {"f:claim": {}}})],
    "two own it": [owner(), owner()],
    "only of status": [owner(subresource="status")],
    "no time": [owner(time=None)],
    "a number as time": [owner(time=1764504040)],
    "no date": [owner(time="t")],
    "an impossible zone": [owner(time="2026-11-30T12:00:40+99:99")],
    "no zone": [owner(time="2026-11-30T12:00:40")],
    "an impossible day": [owner(time="2026-02-31T12:00:40Z")],
    "fields that are no map": [owner(["f:spec"])],
    "spec that is no map": [owner({"f:spec": "f:renewal"})],
}


@pytest.mark.parametrize("entries", MALFORMED.values(), ids=MALFORMED)
def test_what_the_server_does_not_say_clearly_was_not_heard(entries: Any) -> None:
    """Anything missing, malformed or ambiguous gives the holder its full time, never less."""
    assert last_heard(work_lease(Phase.HELD, renewal=renewal()), entries) is None


@pytest.mark.parametrize("acquire_time", [None, "2026-02-31T00:00:00Z"])
def test_a_grant_without_a_time_was_not_heard(acquire_time: str | None) -> None:
    """Then the full durations count from now."""
    assert last_heard(work_lease(Phase.HELD, decided={"acquire_time": acquire_time}), None) is None


@pytest.mark.parametrize(
    ("now", "heard", "lapses", "expires"),
    [
        pytest.param(100.0, None, 160.0, 190.0, id="nothing heard: the full durations from now"),
        pytest.param(100.0, 100.0, 160.0, 190.0, id="heard just now: never more than the full durations"),
        pytest.param(100.0, 80.0, 145.0, 175.0, id="heard a while ago: from then, and the allowance"),
        pytest.param(100.0, 20.0, 85.0, 115.0, id="lapsed meanwhile"),
        pytest.param(1000.0, 20.0, 85.0, 115.0, id="expired meanwhile"),
        pytest.param(100.0, 5000.0, 160.0, 190.0, id="heard in the future: the full durations from now"),
    ],
)
def test_a_held_lease_at_first_sight(now: float, heard: float | None, lapses: float, expires: float) -> None:
    """A newcomer does not wait the full term for a holder long dead (case 5), nor cut a living one's short."""
    assert SKEW_ALLOWANCE_SECONDS == 5.0
    assert deadlines(first_sight(work_lease(Phase.HELD), now, heard)) == (lapses, expires)


@pytest.mark.parametrize(
    ("now", "heard", "lapses", "expires"),
    [
        pytest.param(100.0, None, 100.0, 190.0, id="nothing heard: it stays in jeopardy, for the full durations"),
        pytest.param(100.0, 90.0, 155.0, 185.0, id="renewed meanwhile: held again, for as long as any held lease"),
        pytest.param(100.0, 46.0, 111.0, 141.0, id="surely renewed, though long ago"),
        pytest.param(100.0, 45.0, 100.0, 140.0, id="perhaps renewed, perhaps not: jeopardy goes on"),
        pytest.param(100.0, 38.0, 100.0, 133.0, id="not renewed: jeopardy goes on"),
        pytest.param(500.0, 38.0, 103.0, 133.0, id="expired meanwhile"),
    ],
)
def test_a_lease_in_jeopardy_at_first_sight(now: float, heard: float | None, lapses: float, expires: float) -> None:
    """Only a renewal that was surely written after the lapse makes it held again."""
    assert deadlines(first_sight(work_lease(Phase.JEOPARDY), now, heard)) == (lapses, expires)


def test_a_restart_expires_a_lease_whose_time_was_over_before() -> None:
    """The first decision after a restart ends the tenure of a holder long dead (case 5)."""
    lease = work_lease(Phase.HELD)
    decision = decide(lease, observe(None, lease, at(1000), last_heard(lease, None)), at(1000))
    assert decision.status is not None
    assert decision.status.phase is Phase.EXPIRED


def test_a_restart_within_the_allowance_ends_nothing() -> None:
    """Clocks of API servers may be that far apart."""
    lease = work_lease(Phase.JEOPARDY)
    heard = last_heard(lease, None)
    assert decide(lease, observe(None, lease, at(94.9), heard), at(94.9)).status is None
    assert decide(lease, observe(None, lease, at(95), heard), at(95)).status is not None


def test_a_restart_makes_a_lease_held_that_was_renewed_in_jeopardy() -> None:
    """A renewal that was written while no operator ran is not lost."""
    lease = work_lease(Phase.JEOPARDY, renewal=renewal(80))
    seen = observe(None, lease, at(100), at(80).wall)
    decision = decide(lease, seen, at(100))
    assert decision.status is not None
    assert decision.status.phase is Phase.HELD


def test_a_restart_that_cannot_tell_gives_every_holder_its_full_time() -> None:
    """Nothing heard, as when server times are distrusted: both durations from the start."""
    lease = work_lease(Phase.HELD)
    assert decide_at(lease, 9059.9, seen_at=9000.0).status is None
    jeopardy = decide_at(lease, 9060.0, seen_at=9000.0).status
    assert jeopardy is not None
    assert jeopardy.phase is Phase.JEOPARDY


def test_what_was_heard_counts_at_first_sight_only() -> None:
    """Once the operator watches a tenure itself, no server's time shortens or lengthens it."""
    lease = work_lease(Phase.HELD)
    seen = first_sight(lease, 0.0, None)
    assert observe(seen, lease, at(30), at(-500).wall) == seen


@pytest.mark.parametrize(
    ("renewed", "held"),
    [(58.0, True), (2.0, False), (None, False)],
    ids=["renewed since", "judged as lapsed with it", "the server does not say"],
)
def test_a_renewal_that_is_first_seen_together_with_jeopardy(renewed: float | None, held: bool) -> None:
    """The server's time of the renewal tells whether it came after: then the holder is held again."""
    seen = first_sight(work_lease(Phase.HELD), 0.0, None)
    lease = work_lease(Phase.JEOPARDY, renewal=renewal(58.0 if renewed is None else renewed))
    now = at(LEASE_SECONDS + 1.0)
    both = observe(seen, lease, now, None if renewed is None else at(renewed).wall)
    assert both is not None
    assert (both.lapses_at > now.clock_seconds) is held
    status = decide(lease, both, now).status
    assert (status is not None and status.phase is Phase.HELD) is held


def test_renewals_gaps_and_skew_are_counted_as_they_are_seen() -> None:
    """From the operator's own clock; skew compares the holder's clock with the server's."""
    lease = work_lease(Phase.HELD, renewal=renewal(0))
    seen = first_sight(lease, 0.0, None)
    assert (seen.renewals, seen.longest_gap_seconds, seen.skew_seconds) == (0, 0.0, 0.0)
    for number, (seconds, ahead) in enumerate([(20.0, 0.0), (55.0, 12.0), (60.0, -9.0)], 1):
        lease = said(lease, renewal=renewal(seconds + ahead))
        known = observe(seen, lease, at(seconds), None)
        assert known is not None
        seen = known
        assert (seen.renewals, seen.skew_seconds) == (number, ahead)
        assert deadlines(seen) == (seconds + LEASE_SECONDS, seconds + BOTH_SECONDS)
    assert seen.longest_gap_seconds == 35.0


def test_seeing_the_same_object_again_changes_nothing() -> None:
    """An event is no renewal: resyncs and other writers' events leave the deadlines alone."""
    lease = work_lease(Phase.HELD, renewal=renewal(0))
    seen = first_sight(lease, 0.0, None)
    assert observe(seen, lease, at(50), None) is seen


def test_a_renewal_on_a_day_that_does_not_exist_is_a_renewal_without_skew() -> None:
    """Its time is information; that it is different is what counts."""
    lease = work_lease(Phase.HELD)
    odd = renewal().model_copy(update={"renew_time": "2026-02-31T00:00:00Z"})
    seen = observe(first_sight(lease, 0.0, None), said(lease, renewal=odd), at(30), None)
    assert seen is not None
    assert (seen.renewals, seen.skew_seconds) == (1, 0.0)


def test_a_lease_without_terms_is_not_timed() -> None:
    """Such a status is never written; were it there, it must not be misread as a duration of nothing."""
    assert observe(None, work_lease(Phase.HELD, decided={"lease_duration_seconds": None}), at(0), None) is None


def test_a_lease_without_a_grace_lapses_and_expires_at_once() -> None:
    """A missing jeopardyDuration is no grace."""
    lease = work_lease(Phase.HELD, decided={"jeopardy_duration_seconds": None})
    assert deadlines(first_sight(lease, 0.0, None)) == (60.0, 60.0)


def test_times_are_stored_in_utc_with_microseconds() -> None:
    """One form, which the schema's pattern admits, whatever zone a time came in."""
    paris = datetime.fromisoformat("2026-11-30T13:00:00.5+01:00")
    assert rfc3339(paris) == "2026-11-30T12:00:00.500000Z"
    assert parse_rfc3339(rfc3339(paris)) == paris


@pytest.mark.parametrize("text", ["2026-11-30T12:00:00Z", "2026-11-30T12:00:00.1Z", "2026-11-30T12:00:00.123456789Z"])
def test_every_precision_that_the_schema_admits_is_read(text: str) -> None:
    """None to nine decimals."""
    assert parse_rfc3339(text) is not None


def test_a_wall_time_has_its_place_on_the_clock() -> None:
    """Deadlines that are stored as times are kept on the clock like all others."""
    assert Moment(50.0, at(0).wall).clock_at(at(-20).wall) == 30.0
