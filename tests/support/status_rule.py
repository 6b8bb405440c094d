"""The rule that the API server holds every status write to, once more in Python, for tests without a server."""

from __future__ import annotations

from worklease.api.worklease import LEASED, Phase, WorkLeaseStatus


def violations(before: WorkLeaseStatus, after: WorkLeaseStatus) -> list[str]:
    """What the API server would refuse `after` for, when `before` is stored."""
    higher = after.epoch > before.epoch
    same_holder = (after.holder_identity, after.instance) == (before.holder_identity, before.instance)
    terms = (
        after.holder_identity,
        after.instance,
        after.claim_id,
        after.acquire_time,
        after.lease_duration_seconds,
        after.jeopardy_duration_seconds,
    )
    going_on = (Phase.AVAILABLE, Phase.HELD, Phase.JEOPARDY)
    reopened = (before.phase, after.phase) == (Phase.COMPLETED, Phase.REVOKED)
    holds = {
        "an epoch never goes back": after.epoch >= before.epoch,
        "another holder needs a higher epoch": higher or after.holder_identity is None or same_holder,
        "another claim needs a higher epoch": higher or after.claim_id == before.claim_id,
        "an ended tenure does not come back at its epoch": (
            higher or after.phase is before.phase or before.phase in going_on or reopened
        ),
        "a held lease has a holder, a claim and terms": after.phase not in LEASED or None not in terms,
    }
    return [name for name, held in holds.items() if not held]
