"""A fresh epoch for the same holder: it claims its own work again, and the block goes on under the new grant.

Soundness: the claim is admitted only to who holds (rule claim.leased) and granted by one swap that ends the old tenure;
no effect is under way, and no statement that names the old epoch is on its way, while it is decided.
"""

import uuid

from worklease.api.statements import Claim
from worklease.api.worklease import WorkLease
from worklease.client.deciding import Deciding, finishing, mentions
from worklease.client.handoffs import Desk
from worklease.client.holding import Holding, LostReason, ended
from worklease.client.refusals import claim_refusal
from worklease.client.speech import UNKNOWN, Speech, stating
from worklease.errors import EffectsUnreconciled, Refused
from worklease.protocol.reasons import GrantReason

UNDER_WAY = "an effect is under way: claim again when its outcome is logged"


async def reclaim(desk: Desk, holding: Holding, purpose: str | None) -> None:
    """Returns under the new epoch. Raises ClaimRefused when the old one goes on, LeaseLost when none does."""
    holding.require(held=False)
    if holding.turns.effects:
        raise EffectsUnreconciled(holding.key, UNDER_WAY)
    async with holding.turns.alone():
        holding.require(held=False)
        await _reclaim(desk, holding, purpose)


async def _reclaim(desk: Desk, holding: Holding, purpose: str | None) -> None:
    metadata, before = holding.work.metadata, holding.epoch
    claim = Claim(
        epoch=before,
        id=str(uuid.uuid4()),
        holder_identity=desk.identity.username,
        instance=desk.identity.instance,
        purpose=purpose or _purpose(holding.work, holding.claim_id),
    )
    deciding = Deciding(
        desk.session, desk.follower, desk.identity, desk.clock, metadata.namespace, metadata.name, claim
    )
    speech = Speech(
        desk.session,
        WorkLease,
        metadata.namespace,
        metadata.name,
        said=lambda seen: mentions(seen, claim.id),
        clock=desk.clock,
        ends=lambda: holding.belief.expiry,
        request_seconds=holding.belief.terms.request_seconds,
    )
    try:
        stated = await finishing(speech.patch(lambda: stating(claim=claim.manifest())))
        # However long the operator takes: until then the old epoch is renewed, and the outcome must not be missed.
        grant = await deciding.granted(stated, speech.first_sent_at or 0.0, within_seconds=None)
    except Refused as error:
        raise claim_refusal(holding.key, error) from error
    except UNKNOWN as error:
        await finishing(deciding.give_back())
        holding.require(held=False)
        raise claim_refusal(holding.key, error) from error
    except BaseException:
        await finishing(deciding.give_back())
        raise
    if grant.work.status.grant_reason != GrantReason.RECLAIM:
        holding.lose(*(ended(grant.work, before) or (LostReason.REFUSED, "the tenure had ended before the re-claim")))
    if not holding.adopt(grant):
        await finishing(deciding.give_back())
        raise holding.lost()
    holding.progressed()


def _purpose(work: WorkLease, claim_id: str) -> str:
    """What the tenure of this claim is for."""
    stated = work.spec.claim
    if stated is not None and stated.id == claim_id:
        return stated.purpose
    return next((t.purpose for t in work.status.history if t.claim_id == claim_id and t.purpose), "the same work")
