"""Whether a claim of ours would be admitted, read off the object: what a waiter watches for, without asking."""

from worklease.api.statements import Revocation
from worklease.api.worklease import LEASED, Phase, WorkLease
from worklease.client.identity import Identity


def held_by(work: WorkLease, me: Identity) -> bool:
    """This very process holds it, as far as status says."""
    return work.status.is_held_by(me.username, me.instance)


def reserved_for(work: WorkLease, me: Identity) -> bool:
    """It is kept for us, as the target of a handoff."""
    return work.status.is_reserved_for(me.username, me.instance)


def is_claimable(work: WorkLease, me: Identity) -> bool:
    """The rules of the claim, as api/statements.py has them for the API server. It decides in the end."""
    spec, status = work.spec, work.status
    revoked = _about(spec.revocation, status.epoch)
    ended = revoked or (spec.release is not None and spec.release.epoch == status.epoch)
    if work.metadata.deletion_timestamp or work.claim_pending:
        return False
    if spec.suspend and not held_by(work, me):
        return False
    if status.phase is Phase.COMPLETED and not revoked:
        return False
    if status.successor is not None and not revoked and not reserved_for(work, me):
        return False
    if status.phase not in LEASED or ended or reserved_for(work, me):
        return True
    completed = spec.completion is not None and spec.completion.epoch == status.epoch
    return held_by(work, me) and not completed


def is_over(work: WorkLease) -> bool:
    """Nobody will ever hold it again, unless an administrator reopens it."""
    return work.status.phase is Phase.COMPLETED and not _about(work.spec.revocation, work.status.epoch)


def _about(revocation: Revocation | None, epoch: int) -> bool:
    return revocation is not None and revocation.epoch == epoch
