"""The tools of an operator, for the profile of that name: each one write, about the epoch that was looked at."""

import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

from worklease.api.statements import Claim, Revocation
from worklease.api.worklease import FREE, WorkLease
from worklease.client.claims import Wanted
from worklease.client.lease import Lease
from worklease.client.refusals import statement_refusal
from worklease.client.speech import Patch, Speech, stating
from worklease.errors import Refused, StatementRefused
from worklease.mcp import arguments as given
from worklease.mcp import results
from worklease.mcp.agent import Agent
from worklease.mcp.holder import look
from worklease.mcp.results import TenureState, clean

KNOWN_WITHIN_SECONDS = 20.0
REQUEST_SECONDS = 5.0


async def history(agent: Agent, asked: given.OnWork) -> results.HistoryAnswer:
    """Who holds it, and who did."""
    work = await look(agent, asked.work)
    state = work.status
    return results.HistoryAnswer(
        work=work.key,
        phase=state.phase,
        holder=clean(state.holder_identity),
        instance=clean(state.instance),
        tenures=tuple(TenureState.of(tenure) for tenure in state.history),
    )


async def revoke(agent: Agent, asked: given.EndArguments) -> results.SaidAnswer:
    """Ends the tenure; with `suspend` a pending claim too."""
    work = await look(agent, asked.work)
    said = _revocation(work, asked.reason)
    patch = stating(revocation=said.manifest(), **({"suspend": True} if asked.suspend else {}))
    if asked.suspend and work.claim_pending and work.spec.claim is not None:
        taken_back: Patch = [
            {"op": "test", "path": "/spec/claim/id", "value": work.spec.claim.id},
            {"op": "remove", "path": "/spec/claim"},
        ]
        patch = taken_back + patch
    await _say(agent, work, said, patch)
    return results.SaidAnswer(
        work=work.key, epoch=said.epoch, said="Revoked and suspended" if asked.suspend else "Revoked"
    )


async def takeover(agent: Agent, asked: given.TakeoverArguments) -> results.LeaseAnswer:
    """Revokes and claims in one write, and holds."""
    work = await look(agent, asked.work)
    said = _revocation(work, asked.reason)
    me = agent.client.identity
    wanted = Wanted(work.metadata.namespace, work.metadata.name, asked.purpose or asked.reason)
    claim = Claim(
        epoch=work.status.epoch,
        id=str(uuid.uuid4()),
        holder_identity=me.username,
        instance=me.instance,
        purpose=wanted.purpose,
    )
    statements: dict[str, Any] = {"revocation": said.manifest(), "claim": claim.manifest()}
    if asked.suspend:
        statements["suspend"] = True

    @contextlib.asynccontextmanager
    async def taking() -> AsyncIterator[Lease]:
        claimant = agent.client.claimant(wanted)
        sent_at = agent.client.clock()
        await claimant.decided(claim, await _say(agent, work, said, stating(**statements)), sent_at)
        grant = await claimant.resumed(claim.id)  # takes its place in this process, and is renewed before it is used
        async with agent.client.held(grant, agent.terms.max_silence_seconds) as lease:
            yield lease

    return results.LeaseAnswer.of(await agent.take(asked.work, taking))


async def suspend(agent: Agent, asked: given.OnWork) -> results.SaidAnswer:
    """Closes admission."""
    return await _admission(agent, asked, closed=True)


async def resume(agent: Agent, asked: given.OnWork) -> results.SaidAnswer:
    """Opens admission."""
    return await _admission(agent, asked, closed=False)


async def _admission(agent: Agent, asked: given.OnWork, *, closed: bool) -> results.SaidAnswer:
    work = await look(agent, asked.work)
    await _speech(agent, work, lambda seen: seen.spec.suspend is closed, stating(suspend=closed))
    return results.SaidAnswer(work=work.key, epoch=work.status.epoch, said="Suspended" if closed else "Resumed")


def _revocation(work: WorkLease, reason: str) -> Revocation:
    if work.status.phase in FREE and work.status.successor is None:
        raise StatementRefused(work.key, f"there is no tenure to end: it is {work.status.phase}; claim it instead")
    return Revocation(epoch=work.status.epoch, reason=reason)


async def _say(agent: Agent, work: WorkLease, said: Revocation, patch: Patch) -> WorkLease:
    return await _speech(agent, work, lambda seen: seen.spec.revocation == said, patch)


async def _speech(agent: Agent, work: WorkLease, said: Any, patch: Patch) -> WorkLease:
    ends = agent.client.clock() + KNOWN_WITHIN_SECONDS
    speech = Speech(
        agent.client.session,
        WorkLease,
        work.metadata.namespace,
        work.metadata.name,
        said=said,
        clock=agent.client.clock,
        ends=lambda: ends,
        request_seconds=REQUEST_SECONDS,
    )
    try:
        return await speech.patch(lambda: patch)
    except Refused as error:
        raise statement_refusal(work.key, error) from error
