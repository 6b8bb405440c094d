"""The tools of an operator, for the profile of that name: each one write, about the epoch that was looked at."""

import contextlib
from collections.abc import AsyncIterator

from worklease.api.worklease import WorkLease
from worklease.client import administering
from worklease.client.claims import Wanted
from worklease.client.lease import Lease
from worklease.mcp import arguments as given
from worklease.mcp import results
from worklease.mcp.agent import Agent
from worklease.mcp.holder import look
from worklease.mcp.results import TenureState, clean


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
    said = administering.revocation_of(work, asked.reason)
    await administering.revoke(agent.client, work, said, suspend=asked.suspend)
    return results.SaidAnswer(
        work=work.key, epoch=said.epoch, said="Revoked and suspended" if asked.suspend else "Revoked"
    )


async def takeover(agent: Agent, asked: given.TakeoverArguments) -> results.LeaseAnswer:
    """Revokes and claims in one write, and holds."""
    work = await look(agent, asked.work)
    said = administering.revocation_of(work, asked.reason)
    purpose = asked.purpose or asked.reason
    claim = administering.claim_of(agent.client, work, purpose)

    async def state() -> WorkLease:
        return await administering.take_over(agent.client, work, said, claim, suspend=asked.suspend)

    @contextlib.asynccontextmanager
    async def taking() -> AsyncIterator[Lease]:
        claimant = agent.client.claimant(Wanted(work.metadata.namespace, work.metadata.name, purpose))
        grant = await claimant.stated(claim, state)
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
    await administering.set_suspend(agent.client, work, closed)
    return results.SaidAnswer(work=work.key, epoch=work.status.epoch, said="Suspended" if closed else "Resumed")
