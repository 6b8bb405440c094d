"""What the operator does about one WorkLease: a pure function of the object, of what was seen of it, and of the time.

`decide` is total: it never raises on an object that fits the schema, whatever statements are combined in it, and
refuses what the API server would not have admitted. Deciding again on its own result changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from worklease.api.fields import STATED_EPOCH_MAX
from worklease.api.handoff import Handoff, HandoffPhase
from worklease.api.statements import EPOCH_STATEMENTS, UNRECONCILED, Claim
from worklease.api.worklease import LEASED, Phase, Successor, Tenure, WorkLease, WorkLeaseStatus
from worklease.protocol import conditions, history
from worklease.protocol import handoffs as handoff_rules
from worklease.protocol.conditions import Stall
from worklease.protocol.moments import Moment, parse_rfc3339, rfc3339
from worklease.protocol.observation import Observation
from worklease.protocol.reasons import EndReason, EventReason, GrantReason, RefusalReason, StallReason


@dataclass(frozen=True, slots=True)
class Notice:
    """An Event to record about the object."""

    reason: EventReason
    note: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do: `status` to swap in (None: nothing), else when to decide again, in seconds on the clock."""

    status: WorkLeaseStatus | None
    wake_at: float | None
    notices: tuple[Notice, ...] = ()
    refusal: RefusalReason | None = None


@dataclass(slots=True)
class _Draft:
    """The status as the steps so far leave it."""

    lease: WorkLease
    observation: Observation | None
    now: Moment
    floor: int
    handoffs: tuple[Handoff, ...]
    status: WorkLeaseStatus
    stall: Stall | None = None
    refusal: RefusalReason | None = None
    notices: list[Notice] = field(default_factory=list)

    @property
    def pending_claim(self) -> Claim | None:
        """The claim that has been neither granted nor refused."""
        return self.status.pending(self.lease.spec.claim)

    def set(self, **fields: Any) -> None:
        self.status = self.status.model_copy(update=fields)

    def notice(self, reason: EventReason, note: str, *, warning: bool = False) -> None:
        self.notices.append(Notice(reason, note, warning))

    def end(self, phase: Phase, reason: EndReason, message: str) -> None:
        """The tenure is over: nobody holds the work, the history says why."""
        kept = None if phase in (Phase.REVOKED, Phase.COMPLETED) else self.status.successor
        self.set(
            history=history.closed(self.lease, self.status, self.observation, self.now, reason, message),
            phase=phase,
            holder_identity=None,
            instance=None,
            successor=kept,
        )


def decide(
    lease: WorkLease,
    observation: Observation | None,
    now: Moment,
    *,
    floor: int = 0,
    handoffs: tuple[Handoff, ...] = (),
) -> Decision:
    """The next status of `lease`.

    `observation` is what observe() made of the same object; without one a lease is not timed. `floor` is what the
    operator adds to the store's revision to make an epoch. `handoffs` are those of the item that are open, or lapsed.
    """
    draft = _Draft(lease, observation, now, floor, handoffs, lease.status)
    for step in _STEPS:
        step(draft)
    draft.set(
        conditions=conditions.derive(
            lease, draft.status, draft.stall, observation, now, changed=draft.status != lease.status
        )
    )
    if draft.status == lease.status:
        return Decision(None, _wake_at(draft))
    if draft.stall is not None:
        draft.notice(EventReason.STALLED, f"nothing is granted: {draft.stall.message}", warning=True)
    return Decision(draft.status, None, tuple(draft.notices), draft.refusal)


def _adopt(draft: _Draft) -> None:
    """Lost or restored status: take the highest epoch that the statements mention, before anything is granted."""
    spec = draft.lease.spec
    mentioned = highest_mentioned(draft.lease)
    if draft.status.epoch or draft.status.phase is not Phase.AVAILABLE or not mentioned:
        return
    completed = spec.completion is not None and spec.completion.epoch == mentioned and _reconciled(draft.lease)
    draft.set(
        phase=Phase.COMPLETED if completed else Phase.RELEASED,
        epoch=mentioned,
        observed_claim_id=spec.claim.id if spec.claim else None,
        history=history.opened(
            draft.status.history,
            Tenure(
                epoch=mentioned,
                end_time=rfc3339(draft.now.wall),
                end_reason=EndReason.ADOPTED.value,
                end_message="status was lost or restored",
            ),
        ),
    )
    draft.notice(EventReason.ADOPTED, f"status was lost or restored: went on from epoch {mentioned}", warning=True)


def _complete(draft: _Draft) -> None:
    completion, epoch = draft.lease.spec.completion, draft.status.epoch
    if completion is None or completion.epoch != epoch or draft.status.phase not in LEASED:
        return
    if not _reconciled(draft.lease):
        return  # the API server does not admit it: it has no force, and the lease is timed as before
    draft.end(Phase.COMPLETED, EndReason.COMPLETED, completion.message or completion.outcome.value)
    draft.notice(EventReason.COMPLETED, f"epoch {epoch} completed: {completion.outcome.value}")


def _revoke(draft: _Draft) -> None:
    revocation, epoch = draft.lease.spec.revocation, draft.status.epoch
    if revocation is None or revocation.epoch != epoch:
        return
    if draft.status.phase in LEASED or draft.status.phase is Phase.COMPLETED:
        draft.end(Phase.REVOKED, EndReason.REVOKED, revocation.reason)
        draft.notice(EventReason.REVOKED, f"epoch {epoch} revoked: {revocation.reason}", warning=True)
    elif draft.status.successor is not None:
        draft.set(successor=None)
        draft.notice(EventReason.RESERVATION_ENDED, f"the reservation was revoked: {revocation.reason}", warning=True)


def _release(draft: _Draft) -> None:
    release, epoch = draft.lease.spec.release, draft.status.epoch
    if release is None or release.epoch != epoch or draft.status.phase not in LEASED:
        return
    draft.end(Phase.RELEASED, EndReason.RELEASED, release.reason)
    draft.notice(EventReason.RELEASED, f"epoch {epoch} released: {release.reason or 'no reason given'}")


def _lapse(draft: _Draft) -> None:
    """Held -> Jeopardy -> Expired by the operator's clock; a renewal seen in jeopardy leads back."""
    seen, status, clock = draft.observation, draft.status, draft.now.clock_seconds
    if seen is None or seen.epoch != status.epoch or status.phase not in LEASED:
        return
    if seen.expires_at <= clock:
        draft.end(Phase.EXPIRED, EndReason.EXPIRED, "no renewal was seen in time")
        draft.notice(EventReason.EXPIRED, f"epoch {status.epoch} expired: no renewal was seen in time", warning=True)
    elif seen.lapses_at <= clock and status.phase is Phase.HELD:
        draft.set(phase=Phase.JEOPARDY)
        draft.notice(EventReason.JEOPARDY, f"epoch {status.epoch} is in jeopardy: no renewal was seen", warning=True)
    elif seen.lapses_at > clock and status.phase is Phase.JEOPARDY:
        draft.set(phase=Phase.HELD)
        draft.notice(EventReason.RENEWED, f"epoch {status.epoch} was renewed in jeopardy")


def _claim(draft: _Draft) -> None:
    claim, status = draft.pending_claim, draft.status
    if claim is None:
        return
    refusal = _refusal(claim, status)
    if refusal is not None:
        draft.stall = None
        draft.refusal = refusal
        draft.set(observed_claim_id=claim.id)
        draft.notice(EventReason.CLAIM_REFUSED, f"claim {claim.id} was refused: {refusal.value}", warning=True)
    elif draft.lease.metadata.deletion_timestamp is None:
        _grant(draft, claim)


def _reservation(draft: _Draft) -> None:
    """A target that did not claim in time loses its reservation."""
    successor = draft.status.successor
    if successor is None or _untold(successor, draft.handoffs):
        return
    until = parse_rfc3339(successor.until)
    if until is None or until <= draft.now.wall:
        draft.set(successor=None)
        draft.notice(EventReason.RESERVATION_ENDED, f"the target of handoff {successor.handoff} did not claim in time")


def _untold(successor: Successor, handoffs: tuple[Handoff, ...]) -> bool:
    """The handoff does not say yet that it was accepted: until it does, what took effect is not taken back."""
    return any(h.metadata.uid == successor.handoff_uid and h.status.phase is HandoffPhase.PENDING for h in handoffs)


def _reserve(draft: _Draft) -> None:
    """An accepted handoff takes effect; not on an object that is going away, nor before a claim that is pending."""
    chosen = handoff_rules.successor(draft.handoffs, draft.lease, draft.status, draft.now)
    if chosen is None or draft.lease.metadata.deletion_timestamp is not None or draft.pending_claim is not None:
        return
    reserved, handoff = chosen
    draft.set(successor=reserved)
    draft.notice(EventReason.RESERVED, f"reserved for {reserved.holder_identity} by handoff {handoff.metadata.name}")


# A target's claim that could not be granted is judged once more when its reservation has ended: no claim is left over.
_STEPS: tuple[Callable[[_Draft], None], ...] = (
    _adopt,
    _complete,
    _revoke,
    _release,
    _lapse,
    _claim,
    _reservation,
    _claim,
    _reserve,
)


def _refusal(claim: Claim, status: WorkLeaseStatus) -> RefusalReason | None:
    if status.phase is Phase.COMPLETED:
        return RefusalReason.WORK_COMPLETE
    claimant = claim.holder_identity, claim.instance
    if status.is_reserved_for(*claimant):
        return None
    if status.phase in LEASED and not status.is_held_by(*claimant):
        return RefusalReason.WORK_LEASED
    if status.successor is not None:
        return RefusalReason.WORK_RESERVED
    return None


def _grant(draft: _Draft, claim: Claim) -> None:
    lease, status, now = draft.lease, draft.status, draft.now
    epoch, draft.stall = next_epoch(lease, status, draft.floor)
    if epoch is None:
        return
    reason, message = _why(claim, status, lease, draft.handoffs)
    if status.phase in LEASED:
        ended = EndReason.HANDED_OVER if reason is GrantReason.HANDOFF else EndReason.RECLAIMED
        draft.set(history=history.closed(lease, status, draft.observation, now, ended, message))
    acquire_time = rfc3339(now.wall)
    draft.set(
        phase=Phase.HELD,
        epoch=epoch,
        lease_transitions=(status.lease_transitions or 0) + 1,
        holder_identity=claim.holder_identity,
        instance=claim.instance,
        claim_id=claim.id,
        observed_claim_id=None,
        acquire_time=acquire_time,
        lease_duration_seconds=lease.spec.lease_duration_seconds,
        jeopardy_duration_seconds=lease.spec.jeopardy_duration_seconds,
        grant_reason=reason.value,
        grant_message=history.words(message),
        successor=None,
        history=history.opened(
            draft.status.history,
            Tenure(
                epoch=epoch,
                claim_id=claim.id,
                holder_identity=claim.holder_identity,
                instance=claim.instance,
                purpose=history.words(claim.purpose),
                grant_reason=reason.value,
                grant_message=history.words(message),
                acquire_time=acquire_time,
                handoff_uid=status.successor.handoff_uid
                if status.successor and reason is GrantReason.HANDOFF
                else None,
            ),
        ),
    )
    draft.notice(EventReason.GRANTED, f"epoch {epoch} granted to {claim.holder_identity}: {reason.value}")


def _why(
    claim: Claim, status: WorkLeaseStatus, lease: WorkLease, handoffs: tuple[Handoff, ...]
) -> tuple[GrantReason, str]:
    revocation = lease.spec.revocation
    if revocation is not None and revocation.epoch == status.epoch:
        return GrantReason.AFTER_REVOCATION, revocation.reason
    if status.successor is not None and status.is_reserved_for(claim.holder_identity, claim.instance):
        return GrantReason.HANDOFF, handoff_rules.subject_of(handoffs, status.successor)
    if status.phase in LEASED:
        return GrantReason.RECLAIM, "the holder claimed again"
    return _AFTER.get(status.phase, (GrantReason.FIRST_GRANT, "nobody had held the work"))


_AFTER = {
    Phase.RELEASED: (GrantReason.AFTER_RELEASE, "the last holder gave the work back"),
    Phase.EXPIRED: (GrantReason.AFTER_EXPIRY, "the last holder did not renew in time"),
    Phase.REVOKED: (GrantReason.AFTER_REVOCATION, "the last tenure was revoked"),
}


def _reconciled(lease: WorkLease) -> bool:
    return not any(effect.state in UNRECONCILED for effect in lease.spec.effects)


def highest_mentioned(lease: WorkLease) -> int:
    """The highest epoch that any statement names; 0 when none does."""
    spoken = [getattr(lease.spec, name) for name in EPOCH_STATEMENTS]
    named = [statement.epoch for statement in spoken if statement is not None]
    return max([*named, *(effect.epoch for effect in lease.spec.effects)], default=0)


def next_epoch(lease: WorkLease, status: WorkLeaseStatus, floor: int) -> tuple[int | None, Stall | None]:
    """The epoch of a grant made from this object, or why there is none.

    It is the store's revision plus the floor: a revision grows across deletion, re-creation and a lost status. Were it
    not above every epoch seen so far, going on from those would leave the store's order and give one epoch twice.
    """
    version = lease.metadata.resource_version
    epoch = floor + int(version) if version.isascii() and version.isdigit() and len(version) < 20 else 0
    above = max(status.epoch, highest_mentioned(lease))
    if epoch <= above:
        return None, Stall(
            StallReason.EPOCH_FLOOR_TOO_LOW,
            f"the store's revision is not above epoch {above}: raise the operator's epoch floor by at least {above}",
        )
    if epoch > STATED_EPOCH_MAX:
        return None, Stall(
            StallReason.EPOCH_FLOOR_TOO_HIGH,
            f"the next epoch would be above {STATED_EPOCH_MAX}, more than a statement may name: lower the epoch floor",
        )
    return epoch, None


def _wake_at(draft: _Draft) -> float | None:
    times: list[float] = []
    seen, status = draft.observation, draft.status
    if seen is not None and seen.epoch == status.epoch and status.phase in LEASED:
        times.append(seen.lapses_at if status.phase is Phase.HELD else seen.expires_at)
    successor = status.successor
    if successor is not None and not _untold(successor, draft.handoffs):
        until = parse_rfc3339(successor.until)
        if until is not None:
            times.append(draft.now.clock_at(until))
    return min(times, default=None)
