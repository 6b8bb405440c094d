"""status.history: one entry per tenure, opened by its grant, closed by its end; the oldest are dropped."""

from collections import Counter
from typing import Any

from worklease.api.fields import HISTORY_MAX
from worklease.api.worklease import EffectCounts, Tenure, WorkLease, WorkLeaseStatus
from worklease.protocol.moments import Moment, rfc3339
from worklease.protocol.observation import Observation
from worklease.protocol.reasons import EndReason

WORDS_MAX = 1024


def words(text: str) -> str:
    """A text of somebody else's, cut to what status takes."""
    return text if len(text) <= WORDS_MAX else text[: WORDS_MAX - 1] + "…"


def opened(history: tuple[Tenure, ...], tenure: Tenure) -> tuple[Tenure, ...]:
    """The history with a new tenure at its end."""
    return (*history, tenure)[-HISTORY_MAX:]


def closed(
    lease: WorkLease,
    status: WorkLeaseStatus,
    observation: Observation | None,
    now: Moment,
    reason: EndReason,
    message: str,
) -> tuple[Tenure, ...]:
    """The history of `status` with the tenure of its epoch ended.

    An end that is stored stays as it is: reopened work keeps how it was completed. One that was drafted in this very
    decision is replaced.
    """
    history = status.history
    stored = lease.status.history[-1] if lease.status.history else None
    if stored is not None and stored.epoch == status.epoch and stored.end_time is not None:
        return history
    if history and history[-1].epoch == status.epoch:
        rest, tenure = history[:-1], history[-1]
    else:  # the entry was lost with an older status
        rest = history
        tenure = Tenure(
            epoch=status.epoch,
            claim_id=status.claim_id,
            holder_identity=status.holder_identity,
            instance=status.instance,
            grant_reason=status.grant_reason,
            grant_message=status.grant_message,
            acquire_time=status.acquire_time,
        )
    spec = lease.spec
    ended: dict[str, Any] = {
        "end_time": rfc3339(now.wall),
        "end_reason": reason.value,
        "end_message": words(message),
        "effects": effect_counts(lease, status.epoch),
        "checkpoint_digest": spec.checkpoint.digest if spec.checkpoint else None,
        "last_renew_time": spec.renewal.renew_time if spec.renewal and spec.renewal.epoch == status.epoch else None,
    }
    if observation is not None and observation.epoch == status.epoch:
        ended["renewals"] = observation.renewals
        ended["longest_gap_seconds"] = round(
            max(observation.longest_gap_seconds, now.clock_seconds - observation.seen_at, 0.0)
        )
    return opened(rest, tenure.model_copy(update=ended))


def effect_counts(lease: WorkLease, epoch: int) -> EffectCounts | None:
    """The effects of one epoch by state; None where none was logged: every write carries the whole history."""
    by_state = Counter(effect.state for effect in lease.spec.effects if effect.epoch == epoch)
    return EffectCounts(**{state.lower(): count for state, count in by_state.items()}) if by_state else None
