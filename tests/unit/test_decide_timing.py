"""A lease lapses and expires by the operator's own clock, counted from what the operator itself has seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.leases import (
    BOTH_SECONDS,
    EPOCH,
    LEASE_SECONDS,
    after,
    at,
    claim,
    completion,
    decide_at,
    reclaim,
    release,
    renewal,
    revocation,
    said,
    sight,
    successor,
    wall,
    work_lease,
)
from worklease.api.worklease import LEASED, Phase, WorkLease
from worklease.protocol.decide import Decision, decide
from worklease.protocol.observation import Observation, observe
from worklease.protocol.reasons import EndReason, EventReason


class Replica:
    """One operator's knowledge of one lease: it observes whatever it is shown, and decides from that."""

    def __init__(self, lease: WorkLease, seconds: float = 0.0) -> None:
        self.lease = lease
        self.seen: Observation | None = None
        self.see(lease, seconds)

    def see(self, lease: WorkLease, seconds: float) -> None:
        self.lease = lease
        self.seen = observe(self.seen, lease, at(seconds), None)

    def decide(self, seconds: float) -> Decision:
        return decide(self.lease, self.seen, at(seconds))

    def write(self, seconds: float) -> Phase:
        """Decides, stores it and sees the answer; the phase that was written."""
        decision = self.decide(seconds)
        assert decision.status is not None, "nothing was decided"
        self.see(after(self.lease, decision), seconds)
        return self.lease.status.phase


def test_a_lease_is_in_jeopardy_after_its_duration_and_expired_after_both() -> None:
    """Held until the lease's duration, Jeopardy until both durations, each written once; the wake-ups say when."""
    replica = Replica(work_lease(Phase.HELD))
    assert replica.decide(59.9).status is None
    assert replica.decide(59.9).wake_at == at(60).clock_seconds
    assert replica.write(60.0) is Phase.JEOPARDY
    assert replica.decide(60.0).wake_at == at(90).clock_seconds
    assert replica.decide(89.9).status is None
    assert replica.write(90.0) is Phase.EXPIRED
    assert (replica.seen, replica.decide(5000.0)) == (None, Decision(None, None))


def test_jeopardy_keeps_the_holder_and_writes_nothing_else() -> None:
    """In jeopardy the same holder still has the lease; history says nothing about it."""
    lease = work_lease(Phase.HELD)
    decision = decide_at(lease, 60.0)
    assert decision.status is not None
    changed = {
        name
        for name in type(lease.status).model_fields
        if getattr(decision.status, name) != getattr(lease.status, name)
    }
    assert changed == {"phase", "conditions"}
    assert [(n.reason, n.warning) for n in decision.notices] == [(EventReason.JEOPARDY, True)]


def test_expiry_needs_nobody_who_tries() -> None:
    """A dead holder's lease ends by itself, and its history entry is closed (case 20)."""
    decision = decide_at(work_lease(Phase.JEOPARDY), 90.0)
    assert decision.status is not None
    assert (decision.status.phase, decision.status.holder_identity) == (Phase.EXPIRED, None)
    (tenure,) = decision.status.history
    assert (tenure.end_reason, tenure.end_time, tenure.longest_gap_seconds) == (EndReason.EXPIRED, wall(90), 90)
    assert [n.reason for n in decision.notices] == [EventReason.EXPIRED]


def test_an_operator_that_comes_late_skips_jeopardy() -> None:
    """When both durations are over at once, one swap ends the lease."""
    decision = decide_at(work_lease(Phase.HELD), 90.0)
    assert decision.status is not None
    assert decision.status.phase is Phase.EXPIRED
    assert [n.reason for n in decision.notices] == [EventReason.EXPIRED]


def test_without_a_grace_the_lease_expires_when_it_lapses() -> None:
    """jeopardyDurationSeconds 0: no jeopardy is ever written."""
    replica = Replica(work_lease(Phase.HELD, decided={"jeopardy_duration_seconds": 0}))
    assert replica.decide(59.9).wake_at == at(60).clock_seconds
    assert replica.write(60.0) is Phase.EXPIRED


def test_a_renewal_moves_the_deadline_and_writes_nothing() -> None:
    """No status write per renewal (case 33), and no change of epoch or transitions (case 3)."""
    replica = Replica(work_lease(Phase.HELD))
    for seconds in (20.0, 40.0, 75.0):
        replica.see(said(replica.lease, renewal=renewal(seconds)), seconds)
        decision = replica.decide(seconds)
        assert (decision.status, decision.wake_at) == (None, at(seconds + LEASE_SECONDS).clock_seconds)
    assert replica.write(135.0) is Phase.JEOPARDY


def test_a_renewal_counts_from_when_it_was_seen_whatever_the_holders_clock_says() -> None:
    """renewTime far in the past or in the future moves the deadline like any other (case 7)."""
    for written in (-86400.0, 86400.0):
        replica = Replica(work_lease(Phase.HELD))
        replica.see(said(replica.lease, renewal=renewal(written)), 30.0)
        assert replica.decide(30.0).wake_at == at(90).clock_seconds


def test_a_renewal_in_jeopardy_makes_the_lease_held_again() -> None:
    """The same tenure goes on, under the same epoch, with the full duration."""
    replica = Replica(work_lease(Phase.HELD))
    replica.write(60.0)
    replica.see(said(replica.lease, renewal=renewal(80)), 80.0)
    decision = replica.decide(80.0)
    assert [n.reason for n in decision.notices] == [EventReason.RENEWED]
    assert replica.write(80.0) is Phase.HELD
    assert (replica.lease.status.epoch, len(replica.lease.status.history)) == (EPOCH, 1)
    assert replica.decide(80.0).wake_at == at(140).clock_seconds


def test_a_renewal_that_is_seen_at_its_deadline_is_in_time() -> None:
    """Seen before the lapse was written, it counts, however late the operator is."""
    replica = Replica(work_lease(Phase.HELD))
    replica.see(said(replica.lease, renewal=renewal(59)), 60.0)
    assert replica.decide(60.0).status is None


def test_a_renewal_of_another_epoch_moves_nothing() -> None:
    """A delayed heartbeat of an earlier tenure does not keep the lease of the next one alive (case 15)."""
    replica = Replica(work_lease(Phase.HELD))
    for epoch in (EPOCH - 1, EPOCH + 1):
        replica.see(said(replica.lease, renewal=renewal(50, epoch)), 50.0)
        assert replica.decide(50.0).wake_at == at(60).clock_seconds
    assert replica.write(60.0) is Phase.JEOPARDY


def test_a_repeated_renew_time_is_no_renewal() -> None:
    """The API server stores nothing for it, so the operator counts nothing for it either."""
    replica = Replica(work_lease(Phase.HELD, renewal=renewal(0)))
    replica.see(said(replica.lease, renewal=renewal(0)), 50.0)
    assert replica.decide(50.0).wake_at == at(60).clock_seconds


def test_other_writes_are_no_renewals() -> None:
    """Whatever else the holder writes, its lease lapses when it lapses: an event is not a sign of life."""
    replica = Replica(work_lease(Phase.HELD))
    for seconds in (20.0, 40.0, 59.0):
        replica.see(said(replica.lease, suspend=False), seconds)
    assert replica.write(60.0) is Phase.JEOPARDY


@pytest.mark.parametrize("phase", sorted(LEASED))
def test_what_was_said_in_time_is_decided_before_the_expiry(phase: Phase) -> None:
    """A completion, revocation or release that the API admitted counts, though the operator sees it late."""
    for statement, ended in (
        ({"completion": completion()}, Phase.COMPLETED),
        ({"revocation": revocation()}, Phase.REVOKED),
        ({"release": release()}, Phase.RELEASED),
    ):
        decision = decide_at(said(work_lease(phase), **statement), 500.0)
        assert decision.status is not None
        assert decision.status.phase is ended


def test_a_reclaim_starts_the_time_anew() -> None:
    """The new tenure is timed from its own grant; renewals of the old epoch no longer count."""
    replica = Replica(work_lease(Phase.HELD, claim=reclaim(), renewal=renewal(0)))
    assert replica.write(50.0) is Phase.HELD
    assert replica.decide(50.0).wake_at == at(110).clock_seconds
    replica.see(said(replica.lease, renewal=renewal(60)), 60.0)
    assert replica.decide(60.0).wake_at == at(110).clock_seconds


def test_a_lease_that_nobody_has_observed_is_not_timed() -> None:
    """Without an observation, or with one of another epoch, nothing comes due."""
    lease = work_lease(Phase.HELD)
    assert decide(lease, None, at(9000)) == Decision(None, None)
    seen = sight(lease)
    assert seen is not None
    assert decide(lease, replace(seen, epoch=EPOCH - 1), at(9000)) == Decision(None, None)


def test_the_next_wake_up_is_the_earlier_of_lapse_and_reservation() -> None:
    """Both are deadlines of one object."""
    for until, expected in ((20.0, 20.0), (200.0, 60.0)):
        decision = decide_at(work_lease(Phase.HELD, decided={"successor": successor(until)}))
        assert (decision.status, decision.wake_at) == (None, at(expected).clock_seconds)


@pytest.mark.parametrize("phase", sorted(set(Phase) - LEASED))
def test_free_and_completed_work_wakes_nobody(phase: Phase) -> None:
    """No deadline, no timer."""
    assert decide_at(work_lease(phase), 9000.0) == Decision(None, None)


def test_nothing_that_moves_by_itself_is_written_without_a_transition() -> None:
    """Counts of renewals, gaps and skew are seen on every renewal and stored at the end of the tenure only."""
    replica = Replica(work_lease(Phase.HELD))
    for number in range(1, 11):
        replica.see(said(replica.lease, renewal=renewal(number * 1000.0)), number * 30.0)
        assert replica.decide(number * 30.0).status is None
    decision = replica.decide(300.0 + BOTH_SECONDS)
    assert decision.status is not None
    (tenure,) = decision.status.history
    assert (tenure.renewals, tenure.longest_gap_seconds, tenure.last_renew_time) == (10, 90, wall(10000))


def test_the_second_replica_writes_nothing_once_it_has_seen_the_first_ones_decision() -> None:
    """Each transition happens once: the loser of a swap looks again and finds it done."""
    lease = work_lease(Phase.HELD)
    first, second = Replica(lease), Replica(lease, 1.0)
    first.write(60.0)
    assert second.decide(61.0).status is not None
    second.see(first.lease, 61.0)
    assert second.decide(61.0).status is None


def test_a_replica_that_saw_the_renewal_later_does_not_undo_a_jeopardy() -> None:
    """Whoever wrote Jeopardy judged the renewal in that object as lapsed; two replicas must not fight over it."""
    renewed = said(work_lease(Phase.HELD), renewal=renewal(1))
    early, late = Replica(work_lease(Phase.HELD)), Replica(work_lease(Phase.HELD))
    early.see(renewed, 1.0)
    late.see(renewed, 5.0)
    early.write(61.0)
    late.see(early.lease, 61.5)
    assert late.decide(62.0).status is None
    assert late.decide(62.0).wake_at == at(95).clock_seconds


def test_a_replica_that_sees_renewal_and_jeopardy_at_once_waits_for_the_next_renewal() -> None:
    """It cannot tell which came first, so it leaves the phase alone, and counts the grace from now."""
    renewed = said(work_lease(Phase.JEOPARDY), renewal=renewal(50))
    replica = Replica(work_lease(Phase.HELD))
    replica.see(renewed, 61.0)
    assert replica.decide(61.0).status is None
    replica.see(said(renewed, renewal=renewal(70)), 70.0)
    assert replica.write(70.0) is Phase.HELD


def test_a_replica_that_missed_a_renewal_believes_the_one_that_saw_it() -> None:
    """Held again by another replica: the lease is timed anew, and no renewal is counted twice."""
    replica = Replica(work_lease(Phase.HELD, renewal=renewal(0)))
    replica.write(60.0)
    held_again = work_lease(Phase.HELD, renewal=renewal(0))
    replica.see(held_again, 70.0)
    decision = replica.decide(70.0)
    assert (decision.status, decision.wake_at) == (None, at(130).clock_seconds)


def test_a_replica_that_sees_the_end_before_the_renewal_leaves_it_ended() -> None:
    """An older renewal that turns up with the ended object brings nothing back."""
    replica = Replica(work_lease(Phase.HELD))
    replica.see(said(work_lease(Phase.EXPIRED), renewal=renewal(89)), 95.0)
    assert (replica.seen, replica.decide(95.0)) == (None, Decision(None, None))


def test_a_replica_that_sees_the_next_tenure_forgets_the_old_ones_time() -> None:
    """The observation of one epoch says nothing about another."""
    replica = Replica(work_lease(Phase.HELD))
    granted = work_lease(Phase.HELD, decided={"epoch": EPOCH + 1, "claim_id": "claim-b"})
    replica.see(granted, 59.0)
    assert replica.decide(60.0).wake_at == at(119).clock_seconds


def test_a_waiting_claim_makes_nobody_wake_earlier() -> None:
    """A claim that was refused changes nothing about the lease's own deadlines."""
    lease = work_lease(Phase.HELD, claim=claim(), decided={"observed_claim_id": "claim-b"})
    assert decide_at(lease).wake_at == at(60).clock_seconds
