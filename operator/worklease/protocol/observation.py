"""What the operator has itself seen of a tenure, from which it times the lease.

A renewal counts from when the operator saw it, on the operator's own clock; no time that a holder wrote decides
anything. At the first sight of a tenure (a restart) the server's own time of the last renewal bounds the wait.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from worklease.api.worklease import LEASED, Phase, WorkLease
from worklease.protocol.moments import Moment, parse_rfc3339

SKEW_ALLOWANCE_SECONDS = 5.0
"""How far the clocks of API servers may be apart, the one second of their resolution included."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One tenure as this operator saw it. Times in seconds on its clock."""

    epoch: int
    phase: Phase
    renew_time: str | None
    lapses_at: float
    expires_at: float
    seen_at: float
    renewals: int = 0
    longest_gap_seconds: float = 0.0
    skew_seconds: float = 0.0


def last_heard(lease: WorkLease, managed_fields: Any) -> datetime | None:
    """The server's time of the last renewal of this epoch, else of its grant; None when it cannot be told.

    `managed_fields` is metadata.managedFields as it came: a renewal is atomic, so exactly one entry owns it, and the
    server dated that entry (to the second) when the renewal changed.
    """
    renewal, status = lease.spec.renewal, lease.status
    if renewal is None or renewal.epoch != status.epoch:
        return parse_rfc3339(status.acquire_time)
    owners = [
        entry.get("time")
        for entry in (managed_fields if isinstance(managed_fields, list) else ())
        if isinstance(entry, dict) and not entry.get("subresource") and _owns_renewal(entry.get("fieldsV1"))
    ]
    return parse_rfc3339(owners[0]) if len(owners) == 1 and isinstance(owners[0], str) else None


def _owns_renewal(fields: Any) -> bool:
    spec = fields.get("f:spec") if isinstance(fields, dict) else None
    return isinstance(spec, dict) and "f:renewal" in spec


def observe(previous: Observation | None, lease: WorkLease, now: Moment, heard: datetime | None) -> Observation | None:
    """What is known of the tenure once `lease` has been seen at `now`; None when nobody holds it.

    `heard` is last_heard() in the server's time. It bounds the wait at the first sight of a tenure, and tells on which
    side of a Jeopardy that is seen together with a new renewal that renewal was.
    """
    status = lease.status
    if status.phase not in LEASED or status.lease_duration_seconds is None:
        return None
    lease_seconds = status.lease_duration_seconds
    both_seconds = lease_seconds + (status.jeopardy_duration_seconds or 0)
    renewal = lease.spec.renewal
    renew_time = renewal.renew_time if renewal is not None and renewal.epoch == status.epoch else None
    clock = now.clock_seconds
    if previous is None or previous.epoch != status.epoch:
        return _first_sight(lease, renew_time, lease_seconds, both_seconds, now, heard)
    seen = previous
    if renew_time is not None and renew_time != previous.renew_time:
        written = parse_rfc3339(renew_time)
        seen = replace(
            seen,
            renew_time=renew_time,
            lapses_at=clock + lease_seconds,
            expires_at=clock + both_seconds,
            seen_at=clock,
            renewals=previous.renewals + 1,
            longest_gap_seconds=max(previous.longest_gap_seconds, clock - previous.seen_at),
            skew_seconds=(written - now.wall).total_seconds() if written else 0.0,
        )
    if status.phase is previous.phase:
        return seen
    if status.phase is Phase.JEOPARDY:
        renewed_since = renew_time != previous.renew_time and _surely_renewed(heard, lease_seconds, now)
        # Else whoever wrote it judged the renewal beside it as lapsed: two replicas must not undo each other.
        return replace(
            seen, phase=status.phase, lapses_at=seen.lapses_at if renewed_since else min(seen.lapses_at, clock)
        )
    if seen.lapses_at <= clock:  # Held again by a replica that saw a renewal which this one did not
        seen = replace(seen, lapses_at=clock + lease_seconds, expires_at=clock + both_seconds)
    return replace(seen, phase=status.phase)


def _surely_renewed(heard: datetime | None, lease_seconds: int, now: Moment) -> bool:
    """The renewal that the server dated so has not lapsed, however far apart the clocks are."""
    return heard is not None and now.clock_at(heard) + lease_seconds - SKEW_ALLOWANCE_SECONDS > now.clock_seconds


def _first_sight(
    lease: WorkLease,
    renew_time: str | None,
    lease_seconds: int,
    both_seconds: int,
    now: Moment,
    heard: datetime | None,
) -> Observation:
    clock, in_jeopardy = now.clock_seconds, lease.status.phase is Phase.JEOPARDY
    lapses_at, expires_at = clock + lease_seconds, clock + both_seconds
    if heard is not None:
        heard_at = now.clock_at(heard)
        lapses_at = min(lapses_at, heard_at + lease_seconds + SKEW_ALLOWANCE_SECONDS)
        expires_at = min(expires_at, heard_at + both_seconds + SKEW_ALLOWANCE_SECONDS)
    if in_jeopardy and not _surely_renewed(heard, lease_seconds, now):
        lapses_at = min(lapses_at, clock)
    return Observation(lease.status.epoch, lease.status.phase, renew_time, lapses_at, expires_at, seen_at=clock)
