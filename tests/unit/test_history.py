"""status.history: sixteen tenures, each opened by its grant and closed once by its end, in bounded words."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from support.leases import (
    EPOCH,
    VERSION,
    after,
    at,
    checkpoint,
    claim,
    completion,
    decide_at,
    decided_status,
    effect,
    reclaim,
    release,
    renewal,
    revocation,
    said,
    wall,
    work_lease,
)
from worklease.api.fields import HISTORY_MAX
from worklease.api.statements import EffectState
from worklease.api.worklease import EffectCounts, Phase, Tenure, WorkLease, WorkLeaseStatus
from worklease.protocol.decide import decide
from worklease.protocol.history import WORDS_MAX, words
from worklease.protocol.observation import observe
from worklease.protocol.reasons import EndReason


def tenures(epochs: Iterable[int]) -> tuple[Tenure, ...]:
    return tuple(Tenure(epoch=epoch, end_reason="Released") for epoch in epochs)


def test_the_oldest_tenure_makes_room_for_the_newest() -> None:
    """The last sixteen are kept, the oldest first: who loops through holders is seen (cases 17 and 37)."""
    full = tenures(range(EPOCH - HISTORY_MAX + 1, EPOCH + 1))
    status = decided_status(work_lease(Phase.RELEASED, decided={"history": full}, claim=claim()))
    assert [tenure.epoch for tenure in status.history] == [*range(EPOCH - HISTORY_MAX + 2, EPOCH + 1), VERSION]


def test_seventeen_tenures_leave_the_last_sixteen() -> None:
    """From the first grant on, each tenure is one entry, whatever happens between."""
    lease, epochs = work_lease(claim=claim(epoch=0, id="claim-0")), []
    for number in range(1, 18):
        lease = after(lease, decide_at(lease))
        epochs.append(lease.status.epoch)
        lease = said(lease, release=release(lease.status.epoch))
        lease = after(lease, decide_at(lease))
        lease = said(lease, claim=claim(epoch=lease.status.epoch, id=f"claim-{number}"))
    assert [tenure.epoch for tenure in lease.status.history] == epochs[-HISTORY_MAX:]
    assert {tenure.end_reason for tenure in lease.status.history} == {EndReason.RELEASED}
    assert lease.status.lease_transitions == 17


def test_the_end_of_a_tenure_leaves_the_other_entries_alone() -> None:
    """Only the entry of the current epoch is closed."""
    lease = work_lease(Phase.HELD)
    earlier = tenures([3, 7])
    lease = work_lease(Phase.HELD, decided={"history": (*earlier, *lease.status.history)}, release=release())
    status = decided_status(lease)
    assert status.history[:2] == earlier
    assert [tenure.epoch for tenure in status.history] == [3, 7, EPOCH]


def test_what_a_tenure_began_with_is_kept_at_its_end() -> None:
    """Closing adds to an entry and takes nothing from it."""
    before = work_lease(Phase.HELD).status.history[0]
    ended = decided_status(work_lease(Phase.HELD, release=release())).history[0]
    for name in ("epoch", "claim_id", "holder_identity", "instance", "purpose", "grant_reason", "acquire_time"):
        assert getattr(ended, name) == getattr(before, name)


@pytest.mark.parametrize("history", [(), tenures([3])], ids=["empty", "of an earlier epoch"])
def test_an_entry_that_was_lost_is_made_up_from_status(history: tuple[Tenure, ...]) -> None:
    """A tenure that history does not show ends with an entry all the same: nothing ends unrecorded."""
    status = decided_status(work_lease(Phase.HELD, decided={"history": history}, release=release()))
    entry = status.history[-1]
    assert len(status.history) == len(history) + 1
    assert (entry.epoch, entry.claim_id, entry.holder_identity, entry.instance) == (
        EPOCH,
        "claim-a",
        "alice",
        "pod:a-0/1",
    )
    assert (entry.acquire_time, entry.end_reason, entry.end_time) == (wall(0), EndReason.RELEASED, wall(1))


def test_a_lost_entry_of_completed_work_says_only_what_is_still_known() -> None:
    """Nobody holds completed work, so nobody is named."""
    status = decided_status(work_lease(Phase.COMPLETED, decided={"history": ()}, revocation=revocation()))
    (entry,) = status.history
    assert (entry.epoch, entry.holder_identity, entry.end_reason) == (EPOCH, None, EndReason.REVOKED)


def test_a_lost_entry_takes_the_oldest_ones_place() -> None:
    """Also then there are never more than sixteen."""
    full = tenures(range(1, HISTORY_MAX + 1))
    status = decided_status(work_lease(Phase.HELD, decided={"history": full}, release=release()))
    assert [tenure.epoch for tenure in status.history] == [*range(2, HISTORY_MAX + 1), EPOCH]


def test_a_closed_tenure_counts_its_own_effects_by_state() -> None:
    """Effects of earlier epochs belong to earlier entries."""
    own = [
        (EffectState.ATTEMPTED, 1),
        (EffectState.SUCCEEDED, 3),
        (EffectState.FAILED, 2),
        (EffectState.UNKNOWN, 4),
        (EffectState.COMPENSATED, 5),
    ]
    effects = [effect(state, f"{state.value}-{number}") for state, count in own for number in range(count)]
    older = [effect(state, f"old-{state.value}", epoch=EPOCH - 1) for state in EffectState]
    (tenure,) = decided_status(work_lease(Phase.HELD, effects=(*effects, *older), release=release())).history
    assert tenure.effects == EffectCounts(attempted=1, succeeded=3, failed=2, unknown=4, compensated=5)


def test_a_closed_tenure_that_logged_no_effect_has_no_counts() -> None:
    """Every write of the object carries the history: what is nothing is not said."""
    (tenure,) = decided_status(work_lease(Phase.HELD, release=release())).history
    assert "effects" not in tenure.manifest()


def test_a_closed_tenure_counts_only_the_states_that_its_effects_are_in() -> None:
    """A count of zero is absent."""
    (tenure,) = decided_status(
        work_lease(Phase.HELD, effects=(effect(EffectState.FAILED, "a"),), release=release())
    ).history
    assert tenure.manifest()["effects"] == {"failed": 1}


def test_a_closed_tenure_keeps_the_checkpoint_that_it_left() -> None:
    """Also one that an earlier tenure wrote: it is where the work stands."""
    for epoch in (EPOCH, EPOCH - 1):
        lease = work_lease(Phase.HELD, checkpoint=checkpoint("sha256:abc", epoch), release=release())
        assert decided_status(lease).history[0].checkpoint_digest == "sha256:abc"
    assert decided_status(work_lease(Phase.HELD, release=release())).history[0].checkpoint_digest is None


def test_a_closed_tenure_keeps_its_last_renewal_but_no_other_ones() -> None:
    """A renewal of an earlier epoch is not this tenure's."""
    own = work_lease(Phase.HELD, renewal=renewal(12), release=release())
    assert decided_status(own).history[0].last_renew_time == wall(12)
    other = work_lease(Phase.HELD, renewal=renewal(12, EPOCH - 1), release=release())
    assert decided_status(other).history[0].last_renew_time is None


def test_renewals_and_gaps_are_those_that_the_operator_saw() -> None:
    """The gap up to the end counts; without an observation nothing is made up."""
    lease = work_lease(Phase.HELD)
    seen = observe(None, lease, at(0), None)
    for seconds in (10.0, 45.0, 50.0):
        lease = said(lease, renewal=renewal(seconds))
        seen = observe(seen, lease, at(seconds), None)
    lease = said(lease, release=release())
    for end, gap in ((52.0, 35), (99.0, 49)):
        decision = decide(lease, seen, at(end))
        assert decision.status is not None
        (tenure,) = decision.status.history
        assert (tenure.renewals, tenure.longest_gap_seconds) == (3, gap)
    unseen = decide(lease, None, at(52))
    assert unseen.status is not None
    assert (unseen.status.history[0].renewals, unseen.status.history[0].longest_gap_seconds) == (None, None)


def test_a_clock_that_stood_still_makes_no_negative_gap() -> None:
    """After an outage of the watch the clock may read less than at the last sight."""
    lease = work_lease(Phase.HELD, release=release())
    decision = decide(lease, observe(None, lease, at(80), None), at(5))
    assert decision.status is not None
    assert decision.status.history[0].longest_gap_seconds == 0


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (1, 1), (WORDS_MAX, WORDS_MAX), (WORDS_MAX + 1, WORDS_MAX)])
def test_words_are_cut_to_what_status_takes(length: int, kept: int) -> None:
    """A text that is too long ends with an ellipsis; one that fits is left alone."""
    cut = words("é" * length)
    assert len(cut) == kept
    assert cut.endswith("…") == (length > WORDS_MAX)


def longest(lease: WorkLease) -> WorkLeaseStatus:
    """The status that is written, read back through the schema."""
    status = decided_status(lease)
    return WorkLeaseStatus.model_validate(status.manifest())


def test_the_longest_statements_that_the_schema_admits_fit_into_status() -> None:
    """Every text of a statement can be recorded, in characters that take four bytes each."""
    long = "\N{PERFORMING ARTS}" * 1024
    identity = "\N{PERFORMING ARTS}" * 512
    big = claim(id="i" * 64, holder_identity=identity, instance="x" * 320, purpose=long)
    for statements in (
        {"revocation": revocation(reason=long), "claim": big},
        {"release": release(reason=long), "claim": big},
        {"completion": completion(message=long)},
    ):
        status = longest(work_lease(Phase.HELD, **statements))
        assert status.history[0].end_message == long
    assert longest(work_lease(claim=big.model_copy(update={"epoch": 0}))).history[0].purpose == long


def test_texts_that_are_longer_than_this_operators_schema_are_cut() -> None:
    """A newer API server may admit longer texts; status stays within what was promised."""
    long = "w" * 5000
    takeover = work_lease(
        Phase.HELD,
        revocation=revocation().model_copy(update={"reason": long}),
        claim=claim().model_copy(update={"purpose": long}),
    )
    status = longest(takeover)
    old, new = status.history
    assert {len(old.end_message or ""), len(new.purpose or ""), len(status.grant_message or "")} == {WORDS_MAX}


def test_a_reclaim_closes_one_entry_and_opens_one() -> None:
    """The same holder twice, with one claim each."""
    old, new = decided_status(work_lease(Phase.HELD, claim=reclaim())).history
    assert (old.claim_id, new.claim_id) == ("claim-a", "claim-a2")
    assert (old.end_reason, new.end_reason) == (EndReason.RECLAIMED, None)
