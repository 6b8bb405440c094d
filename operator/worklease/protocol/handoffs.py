"""What the operator does about one Handoff, and which acceptance takes effect on the WorkLease.

An acceptance takes effect when the operator has swapped status.successor into the WorkLease; only then is the handoff
Accepted. The two objects are swapped one after the other, the WorkLease first: after a crash between the two, the
handoff finds itself in status.successor by its uid, or in the history once its target was granted the work.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from worklease.api.fields import Condition
from worklease.api.handoff import Handoff, HandoffPhase, HandoffStatus, ResponseDecision
from worklease.api.worklease import Phase, Successor, Tenure, WorkLease, WorkLeaseStatus
from worklease.protocol.conditions import Verdict, condition, said
from worklease.protocol.history import words
from worklease.protocol.moments import Moment, parse_rfc3339, rfc3339, rfc3339_seconds
from worklease.protocol.reasons import HandoffConditionName, HandoffConditionReason, StaleReason

OPEN = frozenset({HandoffPhase.PENDING, HandoffPhase.ACCEPTED})
"""Phases from which a handoff still moves; every other one is final."""
TAKEN = frozenset({HandoffPhase.ACCEPTED, HandoffPhase.LAPSED})
"""Phases of a handoff whose acceptance has taken effect."""
OFFERABLE = frozenset({Phase.HELD, Phase.JEOPARDY, Phase.EXPIRED})
"""Phases in which there is a tenure to hand over: held, or free after a grant that was not given back or revoked."""
UNANSWERED = "the target has not answered yet"


@dataclass(frozen=True, slots=True)
class HandoffNotice:
    """An Event to record about the handoff; its reason is the phase."""

    reason: HandoffPhase
    note: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class HandoffDecision:
    """What to do: `status` to swap in (None: nothing), else when to decide again, in seconds on the clock."""

    status: HandoffStatus | None
    wake_at: float | None
    notices: tuple[HandoffNotice, ...] = ()


def offered_epoch(handoff: Handoff) -> int | None:
    """The tenure that is offered: the one named in spec, or the one that the operator found and pinned."""
    return handoff.spec.epoch if handoff.spec.epoch is not None else handoff.status.epoch


def _epoch_to_offer(handoff: Handoff, lease: WorkLease | None) -> int | None:
    """The same; where none is pinned yet, the tenure that there is now."""
    epoch = offered_epoch(handoff)
    if epoch is None and lease is not None and _is_offerable(lease, lease.status):
        return lease.status.epoch
    return epoch


def _is_offerable(lease: WorkLease, status: WorkLeaseStatus) -> bool:
    """Whether the tenure of that status can be handed over; not once it is revoked, though it had expired before."""
    return status.phase in OFFERABLE and not _is_revoked(lease, status)


def _is_revoked(lease: WorkLease, status: WorkLeaseStatus) -> bool:
    return lease.spec.revocation is not None and lease.spec.revocation.epoch == status.epoch


def objection(handoff: Handoff, epoch: int, lease: WorkLease, status: WorkLeaseStatus) -> StaleReason | None:
    """Why the offer of `epoch` cannot take effect on `lease`, were `status` its status, if so."""
    spec = handoff.spec
    if status.epoch != epoch:
        return StaleReason.EPOCH_MOVED
    if spec.from_ is not None and (spec.from_, spec.from_instance) != _holder(status):
        return StaleReason.NOT_THE_HOLDER
    if not _is_offerable(lease, status):
        return StaleReason.TENURE_ENDED
    if spec.to.holder_identity == status.holder_identity and spec.to.instance in (None, status.instance):
        return StaleReason.ALREADY_THE_HOLDER
    if status.successor is not None and status.successor.handoff_uid != handoff.metadata.uid:
        return StaleReason.ANOTHER_ACCEPTED
    return None


def _holder(status: WorkLeaseStatus) -> tuple[str | None, str | None]:
    """Who has, or had last, the tenure of this epoch."""
    if status.holder_identity is not None:
        return status.holder_identity, status.instance
    last = status.history[-1] if status.history and status.history[-1].epoch == status.epoch else None
    return (last.holder_identity, last.instance) if last is not None else (None, None)


def successor(
    handoffs: Iterable[Handoff], lease: WorkLease, status: WorkLeaseStatus, now: Moment
) -> tuple[Successor, Handoff] | None:
    """The acceptance that takes effect on `lease`, were `status` its status: the oldest valid one, if none has before.

    One that is not pinned to a tenure yet has to wait for that: what was accepted must not come to be another tenure.
    """
    known = tuple(handoffs)
    if status.successor is not None or any(_has_taken_effect(handoff, status) for handoff in known):
        return None
    valid = [one for one in known if is_accepted(one) and _fits(one, lease, status)]
    if not valid:
        return None
    chosen = min(valid, key=lambda handoff: (handoff.metadata.creation_timestamp or "", handoff.metadata.uid))
    until = now.wall + timedelta(seconds=chosen.spec.claim_within_seconds)
    reserved = Successor(
        holder_identity=chosen.spec.to.holder_identity,
        instance=chosen.spec.to.instance,
        handoff=chosen.metadata.name,
        handoff_uid=chosen.metadata.uid,
        until=rfc3339(until),
    )
    return reserved, chosen


def is_accepted(handoff: Handoff) -> bool:
    """Its target has accepted, and that has not been told to have taken effect."""
    response = handoff.spec.response
    return (
        handoff.status.phase is HandoffPhase.PENDING
        and response is not None
        and response.decision is ResponseDecision.ACCEPTED
    )


def _fits(handoff: Handoff, lease: WorkLease, status: WorkLeaseStatus) -> bool:
    epoch = offered_epoch(handoff)
    return epoch is not None and objection(handoff, epoch, lease, status) is None


def _has_taken_effect(handoff: Handoff, status: WorkLeaseStatus) -> bool:
    """At most one acceptance takes effect for each epoch, also when its target did not claim in time."""
    return handoff.status.phase in TAKEN and offered_epoch(handoff) == status.epoch


def at_stake(before: WorkLeaseStatus, after: WorkLeaseStatus) -> Successor | None:
    """The reservation that a decision makes, ends or grants, if any."""
    return None if before.successor == after.successor else after.successor or before.successor


def subject_of(handoffs: Iterable[Handoff], reserved: Successor) -> str:
    """What the tenure that a handoff grants says about it: its name and subject."""
    for handoff in handoffs:
        if handoff.metadata.uid == reserved.handoff_uid and handoff.spec.subject:
            return words(f"handoff {reserved.handoff}: {handoff.spec.subject}")
    return f"handoff {reserved.handoff}"


def decide_handoff(
    handoff: Handoff, lease: WorkLease | None, now: Moment, *, others: Iterable[Handoff] = ()
) -> HandoffDecision:
    """The next status of `handoff`. `lease` must be at least as new as it; `others` are handoffs of the same lease."""
    before = handoff.status
    if before.phase not in OPEN:
        return HandoffDecision(None, None)
    answer_by = _answer_by(handoff, now)
    epoch = _epoch_to_offer(handoff, lease)
    phase, message, granted = _next_phase(handoff, lease, epoch, answer_by, now, tuple(others))
    if phase is HandoffPhase.PENDING and before.epoch is not None and _takes_effect_next(handoff, lease):
        return HandoffDecision(None, None)  # the lease's next status tells, and then this is written once
    status = before.model_copy(
        update={
            "phase": phase,
            "observed_generation": handoff.metadata.generation,
            "epoch": epoch,
            "granted_epoch": granted,
            "answer_by": rfc3339_seconds(answer_by),
        }
    )
    conditions = _conditions(handoff, lease, phase, message, now)
    if status == before and _same(conditions, before.conditions):
        waits = phase is HandoffPhase.PENDING and answer_by > now.wall
        return HandoffDecision(None, now.clock_at(answer_by) if waits else None)
    notices: tuple[HandoffNotice, ...] = ()
    if phase is not before.phase or before.answer_by is None:
        notices = (HandoffNotice(phase, message, warning=phase in _TROUBLE),)
    return HandoffDecision(status.model_copy(update={"conditions": conditions}), None, notices)


def _takes_effect_next(handoff: Handoff, lease: WorkLease | None) -> bool:
    """The lease is there to be reserved by this acceptance."""
    return lease is not None and is_accepted(handoff) and lease.metadata.deletion_timestamp is None


_TROUBLE = frozenset({HandoffPhase.STALE, HandoffPhase.EXPIRED, HandoffPhase.LAPSED})


def _answer_by(handoff: Handoff, now: Moment) -> datetime:
    pinned = parse_rfc3339(handoff.status.answer_by)
    if pinned is not None:
        return pinned
    created = parse_rfc3339(handoff.metadata.creation_timestamp) or now.wall
    return created + timedelta(seconds=handoff.spec.accept_within_seconds)


def _next_phase(
    handoff: Handoff,
    lease: WorkLease | None,
    epoch: int | None,
    answer_by: datetime,
    now: Moment,
    others: tuple[Handoff, ...],
) -> tuple[HandoffPhase, str, int | None]:
    """The phase, why, and the epoch that was granted by this handoff."""
    uid, status = handoff.metadata.uid, lease.status if lease is not None else None
    if status is not None:
        tenure = _granted(status.history, uid)
        if tenure is not None:
            return HandoffPhase.COMPLETED, f"the target was granted epoch {tenure.epoch}", tenure.epoch
        if status.successor is not None and status.successor.handoff_uid == uid:
            return HandoffPhase.ACCEPTED, f"the work is reserved for the target until {status.successor.until}", None
    if handoff.status.phase is HandoffPhase.ACCEPTED:
        return (*_reservation_ended(lease, epoch), None)
    response = handoff.spec.response
    if response is not None and response.decision is ResponseDecision.REJECTED:
        return HandoffPhase.REJECTED, words(f"the target rejected it: {response.reason}"), None
    if response is not None and response.decision is ResponseDecision.WITHDRAWN:
        return HandoffPhase.WITHDRAWN, words(f"the sender withdrew it: {response.reason}"), None
    if lease is not None and epoch is not None:
        stale = objection(handoff, epoch, lease, lease.status)
        if stale is None and any(_has_taken_effect(other, lease.status) for other in others if other is not handoff):
            stale = StaleReason.ANOTHER_ACCEPTED
        if stale is not None:
            return HandoffPhase.STALE, _because(stale), None
        if response is not None and lease.metadata.deletion_timestamp is None:
            return HandoffPhase.PENDING, "accepted: it takes effect with the next decision on the work", None
    if answer_by <= now.wall:
        return HandoffPhase.EXPIRED, _IN_VAIN if response is not None else "the target did not answer in time", None
    return HandoffPhase.PENDING, UNANSWERED if response is None else "accepted: there is nothing to hand over yet", None


_IN_VAIN = "it was accepted, but there was nothing to hand over in time"


def _reservation_ended(lease: WorkLease | None, epoch: int | None) -> tuple[HandoffPhase, str]:
    """What became of an acceptance that had taken effect, and whose reservation ended without a grant."""
    if lease is None:
        return HandoffPhase.LAPSED, "the work was deleted before the target claimed it"
    if lease.status.epoch != epoch:
        return HandoffPhase.STALE, _because(StaleReason.EPOCH_MOVED)
    if _is_revoked(lease, lease.status) or lease.status.phase not in (*OFFERABLE, Phase.RELEASED):
        return HandoffPhase.STALE, _because(StaleReason.TENURE_ENDED)
    return HandoffPhase.LAPSED, "the target did not claim in time"


def _because(reason: StaleReason) -> str:
    return f"{reason.value}: {_STALE[reason]}"


_STALE = {
    StaleReason.NOT_THE_HOLDER: "its sender does not hold the tenure that it offers",
    StaleReason.EPOCH_MOVED: "the work is under another epoch than the one that is offered",
    StaleReason.TENURE_ENDED: "the tenure that is offered was released, revoked or completed",
    StaleReason.ALREADY_THE_HOLDER: "its target holds the work already",
    StaleReason.ANOTHER_ACCEPTED: "another handoff of the same tenure was accepted first",
}


def _granted(history: tuple[Tenure, ...], uid: str) -> Tenure | None:
    return next((tenure for tenure in reversed(history) if tenure.handoff_uid == uid), None)


def _conditions(
    handoff: Handoff, lease: WorkLease | None, phase: HandoffPhase, message: str, now: Moment
) -> tuple[Condition, ...]:
    before = {condition.type: condition for condition in handoff.status.conditions}
    verdicts: dict[HandoffConditionName, Verdict] = {HandoffConditionName.READY: Verdict(True, phase, message)}
    offered = handoff.spec.checkpoint
    moved_before = before.get(HandoffConditionName.CHECKPOINT_MOVED)
    if offered is not None and phase in OPEN and lease is not None:
        stored = lease.spec.checkpoint.digest if lease.spec.checkpoint is not None else None
        verdicts[HandoffConditionName.CHECKPOINT_MOVED] = _MOVED if stored != offered.digest else _AS_OFFERED
    elif moved_before is not None:  # it tells how things stood when the handoff ended
        kept = Verdict(moved_before.status == "True", moved_before.reason, moved_before.message)
        verdicts[HandoffConditionName.CHECKPOINT_MOVED] = kept
    if lease is None:
        text = f"there is no WorkLease {handoff.spec.work_lease_name} in this namespace"
        verdicts[HandoffConditionName.WORK_LEASE_MISSING] = Verdict(True, HandoffConditionReason.MISSING, text)
    elif HandoffConditionName.WORK_LEASE_MISSING in before:
        verdicts[HandoffConditionName.WORK_LEASE_MISSING] = Verdict(False, HandoffConditionReason.FOUND, "it exists")
    return tuple(condition(name, verdict, before.get(name), now.wall) for name, verdict in verdicts.items())


_MOVED = Verdict(True, HandoffConditionReason.MOVED, "the work's checkpoint is another than the one that was offered")
_AS_OFFERED = Verdict(False, HandoffConditionReason.AS_OFFERED, "as it was offered")


def _same(one: tuple[Condition, ...], other: tuple[Condition, ...]) -> bool:
    return [(c.type, *said(c)) for c in one] == [(c.type, *said(c)) for c in other]
