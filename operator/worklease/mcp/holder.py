"""The tools of a holder: each is a call of the client, and what it answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from worklease.api.worklease import LEASED, Work, WorkLease
from worklease.client.claimable import is_claimable, reserved_for
from worklease.client.claims import Wanted
from worklease.client.handoffs import Offer
from worklease.client.lease import Lease
from worklease.client.reading import parsed
from worklease.client.refusals import missing
from worklease.errors import HandoffOver, NotFound, StatementRefused, Unanswered
from worklease.kube.swap import read
from worklease.mcp import arguments as given
from worklease.mcp import results
from worklease.mcp.agent import Agent
from worklease.mcp.results import LeaseState, OfferState, Place, open_effects
from worklease.protocol.moments import parse_rfc3339, rfc3339_seconds

RENEWED_WITHIN_SECONDS = 15.0
INBOX_MAX = 50


async def claim(agent: Agent, asked: given.ClaimArguments) -> results.LeaseAnswer:
    """Claims, or goes on with a tenure of an earlier session."""
    namespace, name = agent.key_of(asked.work).split("/")
    work = Work(type="work", id=name) if asked.create else None
    wanted = Wanted(namespace, name, asked.purpose, work, asked.lease_seconds, asked.jeopardy_seconds)

    @contextlib.asynccontextmanager
    async def taking() -> AsyncIterator[Lease]:
        claimant = agent.client.claimant(wanted)
        if asked.resume_claim_id is not None:
            grant = await claimant.resumed(asked.resume_claim_id)
        elif asked.wait_seconds:
            grant = await claimant.when_free(asked.wait_seconds)
        else:
            grant = await claimant.now()
        async with agent.client.held(grant, agent.terms.max_silence_seconds) as lease:
            yield lease

    return results.LeaseAnswer.of(await agent.take(asked.work, taking))


async def status(agent: Agent, asked: given.OnWork) -> results.StatusAnswer:
    """Where it stands."""
    return state_of(agent, await look(agent, asked.work))


async def renew(agent: Agent, asked: given.OnWork) -> results.LeaseAnswer:
    """Renews now."""
    lease = agent.held(asked.work).lease
    limit = asyncio.timeout(RENEWED_WITHIN_SECONDS)
    try:
        async with limit:
            await lease.renew()
    except TimeoutError:
        if not limit.expired():
            raise
        raise Unanswered(f"no renewal has been accepted yet: {lease.trouble or 'renewing goes on'}") from None
    return results.LeaseAnswer.of(lease)


async def reclaim(agent: Agent, asked: given.ReclaimArguments) -> results.LeaseAnswer:
    """Goes on under a fresh epoch."""
    lease = agent.held(asked.work).lease
    await lease.reclaim(asked.purpose)
    return results.LeaseAnswer.of(lease)


async def release(agent: Agent, asked: given.ReleaseArguments) -> results.EndedAnswer:
    """Gives it back."""
    tenure = agent.held(asked.work)
    await tenure.release(asked.reason)
    return results.EndedAnswer(work=tenure.key, epoch=tenure.lease.epoch, ended="Released")


async def checkpoint(agent: Agent, asked: given.CheckpointArguments) -> results.LeaseAnswer:
    """Says where it stands."""
    lease = agent.held(asked.work).lease
    await lease.checkpoint(asked.uri, asked.digest)
    return results.LeaseAnswer.of(lease)


async def begin_effect(agent: Agent, asked: given.BeginEffectArguments) -> results.EffectAnswer:
    """Logs it as Attempted."""
    tenure = agent.held(asked.work)
    tenure.lease.require_held()
    effect = (await tenure.begin_effect(asked.recipient, asked.action, asked.digest, asked.id)).reported
    return results.EffectAnswer(work=tenure.key, id=effect.id, state=effect.logged.state, headers=effect.headers)


async def finish_effect(agent: Agent, asked: given.FinishEffectArguments) -> results.SettledAnswer:
    """Logs its outcome."""
    tenure = agent.held(asked.work)
    effect = tenure.effects.get(asked.id)
    if effect is None:
        raise StatementRefused(tenure.key, f"no effect {asked.id} is open in this session: use reconcile for others")
    await effect.finish(asked.state, asked.detail)
    logged = next((one.state for one in tenure.lease.work.spec.effects if one.id == asked.id), None)
    if logged != asked.state:
        raise StatementRefused(tenure.key, f"effect {asked.id} is logged as {logged}: use reconcile to say otherwise")
    return results.SettledAnswer(work=tenure.key, id=asked.id, state=asked.state)


async def unreconciled(agent: Agent, asked: given.OnWork) -> results.UnreconciledAnswer:
    """The effects of unknown outcome."""
    work = await look(agent, asked.work)
    return results.UnreconciledAnswer(work=work.key, effects=open_effects(tuple(work.spec.effects)))


async def reconcile(agent: Agent, asked: given.ReconcileArguments) -> results.SettledAnswer:
    """Logs what was found out."""
    tenure = agent.held(asked.work)
    if asked.id in tenure.effects:
        raise StatementRefused(tenure.key, f"effect {asked.id} was begun in this session: use finish_effect")
    await tenure.lease.reconcile(asked.id, asked.state, asked.detail)
    return results.SettledAnswer(work=tenure.key, id=asked.id, state=asked.state)


async def complete(agent: Agent, asked: given.CompleteArguments) -> results.EndedAnswer:
    """Declares it done."""
    tenure = agent.held(asked.work)
    await tenure.complete(asked.message, asked.outcome)
    return results.EndedAnswer(work=tenure.key, epoch=tenure.lease.epoch, ended="Completed")


async def offer_handoff(agent: Agent, asked: given.OfferArguments) -> results.OfferAnswer:
    """Offers it to a target."""
    offer = await agent.held(asked.work).offer(
        lambda lease: lease.hand_over(
            asked.to,
            instance=asked.to_instance,
            subject=asked.subject,
            message=asked.message,
            context_uri=asked.context_uri,
            context_digest=asked.context_digest,
            accept_within_seconds=asked.accept_within_seconds,
            claim_within_seconds=asked.claim_within_seconds,
        )
    )
    return results.OfferAnswer(offer=OfferState.of(offer.handoff))


async def inbox(agent: Agent, asked: given.InboxArguments) -> results.InboxAnswer:
    """What waits for an answer."""
    offers = await agent.client.inbox(asked.namespace)
    listed = tuple(OfferState.of(offer.handoff) for offer in offers[:INBOX_MAX])
    return results.InboxAnswer(offers=listed, more=len(offers) > INBOX_MAX)


async def accept_handoff(agent: Agent, asked: given.AcceptArguments) -> results.AcceptedAnswer:
    """Accepts, claims and holds."""
    offer = await find(agent, asked.handoff)
    silence = agent.terms.max_silence_seconds
    lease = await agent.take(
        offer.lease_key,
        lambda: offer.accept(purpose=asked.purpose, reason=asked.reason, max_silence_seconds=silence),
    )
    held = results.LeaseAnswer.of(lease)
    return results.AcceptedAnswer(
        lease=held.lease,
        checkpoint=held.checkpoint,
        unreconciled=held.unreconciled,
        offer=OfferState.of(offer.handoff),
    )


async def reject_handoff(agent: Agent, asked: given.AnswerArguments) -> results.OfferAnswer:
    """Declines."""
    offer = await find(agent, asked.handoff)
    await offer.reject(asked.reason)
    return results.OfferAnswer(offer=OfferState.of(offer.handoff))


async def withdraw_handoff(agent: Agent, asked: given.AnswerArguments) -> results.OfferAnswer:
    """Takes it back."""
    offer = await find(agent, asked.handoff)
    await offer.withdraw(asked.reason)
    return results.OfferAnswer(offer=OfferState.of(offer.handoff))


async def look(agent: Agent, work: str) -> WorkLease:
    """The work item as it is stored. Raises NoSuchWork when there is none."""
    key = agent.key_of(work)
    try:
        return parsed(WorkLease, await read(agent.client.session, *key.split("/")))
    except NotFound as error:
        raise missing(key, error) from error


async def find(agent: Agent, handoff: str) -> Offer:
    """The handoff. Raises HandoffOver when there is none."""
    key = agent.key_of(handoff)
    try:
        return await agent.client.desk.find(*key.split("/"))
    except NotFound as error:
        raise HandoffOver(key, "Gone", "there is no such handoff") from error


def state_of(agent: Agent, work: WorkLease) -> results.StatusAnswer:
    """What an agent may know of work, whoever holds it: until when, never who."""
    spec, state, me = work.spec, work.status, agent.client.identity
    tenure = agent.tenures.get(work.key)
    why = next((condition.reason for condition in state.conditions if condition.type == "Claimable"), None)
    stored = spec.checkpoint
    until = leased_until(work)
    return results.StatusAnswer(
        work=work.key,
        type=results.clean(spec.work.type),
        id=results.clean(spec.work.id),
        phase=state.phase,
        epoch=state.epoch,
        suspended=spec.suspend,
        claimable=is_claimable(work, me),
        why=why,
        leased_until=rfc3339_seconds(until) if until else None,
        reserved_for_you=reserved_for(work, me),
        lease=LeaseState.of(tenure.lease) if tenure is not None and tenure.is_held else None,
        checkpoint=Place(uri=stored.uri, digest=stored.digest) if stored else None,
        unreconciled=open_effects(tuple(spec.effects)),
    )


def leased_until(work: WorkLease) -> datetime | None:
    """When the work is free if nothing more is heard, by the holder's own word: advice."""
    state, renewal = work.status, work.spec.renewal
    if state.phase not in LEASED:
        return None
    heard = renewal.renew_time if renewal is not None and renewal.epoch == state.epoch else state.acquire_time
    at = parse_rfc3339(heard)
    seconds = (state.lease_duration_seconds or 0) + (state.jeopardy_duration_seconds or 0)
    return at + timedelta(seconds=seconds) if at else None
