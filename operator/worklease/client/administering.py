"""What administrators say: revocation, takeover, admission. Each is one write, about the epoch that was looked at."""

import uuid

from worklease.api.statements import Claim, Revocation
from worklease.api.worklease import FREE, WorkLease
from worklease.client.client import Client
from worklease.client.saying import say
from worklease.client.speech import stating
from worklease.errors import StatementRefused


def revocation_of(work: WorkLease, reason: str) -> Revocation:
    """Of the current epoch. Raises StatementRefused when there is no tenure, and no reservation, to end."""
    status = work.status
    if status.phase in FREE and status.successor is None:
        raise StatementRefused(work.key, f"there is no tenure to end: it is {status.phase}; claim it instead")
    return Revocation(epoch=status.epoch, reason=reason)


async def revoke(client: Client, work: WorkLease, said: Revocation, *, suspend: bool) -> WorkLease:
    """Ends the tenure; with `suspend` nobody can claim afterwards, and a pending claim is taken back."""
    patch = stating(revocation=said.manifest(), **({"suspend": True} if suspend else {}))
    if suspend and work.claim_pending and work.spec.claim is not None:
        patch = [
            {"op": "test", "path": "/spec/claim/id", "value": work.spec.claim.id},
            {"op": "remove", "path": "/spec/claim"},
            *patch,
        ]
    return await say(client, work, lambda seen: seen.spec.revocation == said, patch)


def claim_of(client: Client, work: WorkLease, purpose: str) -> Claim:
    """A claim of the caller's, to be made with a revocation."""
    return Claim(
        epoch=work.status.epoch,
        id=str(uuid.uuid4()),
        holder_identity=client.identity.username,
        instance=client.identity.instance,
        purpose=purpose,
    )


async def take_over(client: Client, work: WorkLease, said: Revocation, claim: Claim, *, suspend: bool) -> WorkLease:
    """Revokes and claims in one write; the claim is still to be decided."""
    statements = {"revocation": said.manifest(), "claim": claim.manifest(), **({"suspend": True} if suspend else {})}
    return await say(client, work, lambda seen: seen.spec.revocation == said, stating(**statements))


async def set_suspend(client: Client, work: WorkLease, value: bool) -> WorkLease:
    """Closes admission, or opens it."""
    return await say(client, work, lambda seen: seen.spec.suspend is value, stating(suspend=value))
