"""What becomes of a claim once it is stated: its decision, the look at a grant that came late, and giving it back."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from worklease.api.statements import Claim, Release
from worklease.api.worklease import LEASED, WorkLease
from worklease.client.claimable import held_by, is_over
from worklease.client.clock import Clock
from worklease.client.identity import Identity
from worklease.client.reading import parsed
from worklease.client.renewing import Renewals, later_version
from worklease.client.speech import UNKNOWN, Speech, stating
from worklease.client.timing import Terms
from worklease.errors import (
    ApiError,
    ClaimRefused,
    ClaimUndecided,
    Conflict,
    Refused,
    WorkIsComplete,
    WorkIsLeased,
    WorkIsReserved,
)
from worklease.kube.following import Follower
from worklease.kube.session import Session

DECIDED_SECONDS = 30.0
"""How long the operator may take to decide a claim before its claimant gives up."""
LOOK_AFTER_SECONDS = 3.0
"""How long nothing may be heard before a claimant that waits for its own grant looks by itself."""
ABANDON_SECONDS = 2.0
"""How long a claimant that gives up waits for what it may have set going, to give it back."""
GIVEN_UP = "the claimant gave up before it used the lease"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Grant:
    """One's own claim, granted; `sent_at` is when it, or the renewal that confirmed it, was sent."""

    work: WorkLease
    claim_id: str
    sent_at: float

    @property
    def epoch(self) -> int:
        """The fencing epoch."""
        return self.work.status.epoch

    @property
    def terms(self) -> Terms:
        """The durations of this tenure: those of the grant, whatever spec says now."""
        status = self.work.status
        return Terms(float(status.lease_duration_seconds or 0), float(status.jeopardy_duration_seconds or 0))


def mentions(work: WorkLease, claim_id: str) -> bool:
    """The claim has reached the object."""
    return work.status.claim_id == claim_id or (work.spec.claim is not None and work.spec.claim.id == claim_id)


async def finishing(work: Coroutine[Any, Any, T], within_seconds: float | None = None) -> T:
    """Awaits it. A cancellation goes on only when it has come to its end, or after this time: what a request that was
    cut off has set going could not be found, and given back, while it is still on its way.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task}, timeout=ABANDON_SECONDS if within_seconds is None else within_seconds)
        raise
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def fresh(session: Session, clock: Clock, lease: str, grant: Grant) -> Grant:
    """A grant that came late is renewed before it is used: its time may be over, whatever status says.

    Raises ClaimRefused when its tenure has ended, ClaimUndecided when that cannot be found out.
    """
    if clock() - grant.sent_at < grant.terms.certain_seconds / 2:
        return grant
    renewals = Renewals(session, grant.work, grant.epoch)
    limit = clock() + DECIDED_SECONDS
    while True:
        sent_at = clock()
        try:
            if (work := await renewals.send(grant.terms.request_seconds)) is not None:
                return replace(grant, work=work, sent_at=sent_at)
        except (*UNKNOWN, Conflict) as error:
            if clock() > limit:
                raise ClaimUndecided(lease, f"a late grant could not be confirmed: {error}") from error
        except Refused as error:
            raise ClaimRefused(lease, "the tenure of this claim has ended before it was used") from error
        await asyncio.sleep(0.2)


class Deciding:
    """One claim of ours about one work item."""

    def __init__(
        self, session: Session, follower: Follower, me: Identity, clock: Clock, namespace: str, name: str, claim: Claim
    ) -> None:
        self._session = session
        self._follower = follower
        self._me = me
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._lease = f"{namespace}/{name}"
        self._claim = claim

    async def granted(
        self,
        stated: WorkLease,
        sent_at: float,
        *,
        within_seconds: float | None = DECIDED_SECONDS,
        seen: AsyncGenerator[WorkLease, None] | None = None,
    ) -> Grant:
        """Waits until the operator has decided. Raises ClaimRefused, ClaimUndecided.

        `seen` is the object as a watch that is open already brings it: that spares the connection of another one.
        """
        limit = asyncio.timeout(within_seconds)
        try:
            async with limit:
                work = await self._decided(stated, self._newer(stated, seen)) if seen is not None else None
                if work is None:
                    work = await self._decided(stated, self._watched(stated))
                assert work is not None, "a watch of our own never ends"
                return Grant(work, self._claim.id, sent_at)
        except TimeoutError:
            if not limit.expired():
                raise
            said = f"the claim has not been decided within {within_seconds:g} s: is the operator running?"
            raise ClaimUndecided(self._lease, said) from None

    async def _decided(self, stated: WorkLease, changes: AsyncGenerator[WorkLease, None]) -> WorkLease | None:
        """The object with our grant; None when the changes end before."""
        async with contextlib.aclosing(changes):
            if self._is_granted(stated):
                return stated
            async for work in changes:
                if self._is_granted(work):
                    return work
        return None

    async def _watched(self, stated: WorkLease) -> AsyncGenerator[WorkLease, None]:
        metadata = stated.metadata
        known = {"metadata": {"name": metadata.name, "resourceVersion": metadata.resource_version}}
        changes = self._follower.follow(self._namespace, self._name, known=known, silent_seconds=LOOK_AFTER_SECONDS)
        async with contextlib.aclosing(changes):
            async for raw in changes:
                yield parsed(WorkLease, raw)

    async def _newer(self, stated: WorkLease, seen: AsyncGenerator[WorkLease, None]) -> AsyncGenerator[WorkLease, None]:
        """What comes after the claim was stated; ends when nothing is heard for too long."""
        since = stated.metadata.resource_version
        with contextlib.suppress(TimeoutError):
            async with contextlib.aclosing(seen):
                while True:
                    async with asyncio.timeout(LOOK_AFTER_SECONDS):
                        work = await anext(seen)
                    version = work.metadata.resource_version
                    if later_version(since, version) == version:
                        yield work

    def _is_granted(self, work: WorkLease) -> bool:
        status, claim_id = work.status, self._claim.id
        if status.claim_id == claim_id:
            if status.phase in LEASED and held_by(work, self._me):
                return True
            raise ClaimRefused(self._lease, "the claim was granted, and its tenure has ended before it was used")
        if status.observed_claim_id == claim_id:
            if is_over(work):
                raise WorkIsComplete(self._lease, "work is complete")
            if status.successor is not None:
                raise WorkIsReserved(self._lease, "work is reserved for the target of a handoff")
            raise WorkIsLeased(self._lease, "the claim was refused: somebody else holds the work")
        if work.spec.claim is None or work.spec.claim.id != claim_id:
            raise WorkIsLeased(self._lease, "the claim was overridden by another one")
        return False

    async def give_back(self) -> None:
        """Gives back what the claim has got, or is about to get; bounded, and silent about failure: it lapses."""
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(ABANDON_SECONDS):
                work = await self._outcome()
                if work.status.claim_id != self._claim.id or not held_by(work, self._me):
                    return
                ends = self._clock() + ABANDON_SECONDS
                release = Release(epoch=work.status.epoch, reason=GIVEN_UP)
                await Speech(
                    self._session,
                    WorkLease,
                    self._namespace,
                    self._name,
                    said=lambda seen: seen.spec.release == release,
                    clock=self._clock,
                    ends=lambda: ends,
                    request_seconds=ABANDON_SECONDS,
                ).patch(lambda: stating(release=release.manifest()))

    async def _outcome(self) -> WorkLease:
        """The object once our claim is not pending in it (any more)."""
        changes = self._follower.follow(self._namespace, self._name, silent_seconds=LOOK_AFTER_SECONDS)
        async with contextlib.aclosing(changes):
            while True:
                work = parsed(WorkLease, await anext(changes))
                stated = work.spec.claim
                if not work.claim_pending or stated is None or stated.id != self._claim.id:
                    return work
