"""Whether a claim of ours would be admitted, read off the object: what a waiter watches for, without asking."""

from worklease.api.statements import Revocation
from worklease.api.worklease import STANDING, Phase, WorkLease
from worklease.client.identity import Identity


def held_by(work: WorkLease, me: Identity) -> bool:
    """This very process holds it, as far as status says."""
    status = work.status
    return status.phase in STANDING and status.holder_identity == me.username and status.instance == me.instance


def is_successor(work: WorkLease, me: Identity) -> bool:
    """The work is reserved for us."""
    successor = work.status.successor
    return (
        successor is not None and successor.holder_identity == me.username and successor.instance in (None, me.instance)
    )


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
    if status.successor is not None and not revoked and not is_successor(work, me):
        return False
    if status.phase not in STANDING or ended or is_successor(work, me):
        return True
    completed = spec.completion is not None and spec.completion.epoch == status.epoch
    return held_by(work, me) and not completed


def is_over(work: WorkLease) -> bool:
    """Nobody will ever hold it again, unless an administrator reopens it."""
    return work.status.phase is Phase.COMPLETED and not _about(work.spec.revocation, work.status.epoch)


def _about(revocation: Revocation | None, epoch: int) -> bool:
    return revocation is not None and revocation.epoch == epoch
