"""From wanting work to a grant that is certainly one's own: the claim, the waiting, the look at what was decided."""

import asyncio
import contextlib
import math
import random
import uuid
from dataclasses import dataclass, replace
from typing import Any

from worklease.api.crd import API_VERSION
from worklease.api.statements import Claim, Release
from worklease.api.worklease import STANDING, Work, WorkLease
from worklease.client.claimable import held_by, is_claimable, is_over
from worklease.client.clock import Clock
from worklease.client.identity import Identity
from worklease.client.places import Places
from worklease.client.refusals import MOVED_ON, NOT_FRESH, claim_refusal, missing
from worklease.client.renewing import Renewals
from worklease.client.speech import UNKNOWN, Speech, stating
from worklease.client.timing import Terms
from worklease.errors import (
    ApiError,
    ClaimRefused,
    ClaimUndecided,
    Conflict,
    NotFound,
    Refused,
    WaitedTooLong,
    WorkIsComplete,
    WorkIsLeased,
    WorkIsReserved,
    WorkIsSuspended,
)
from worklease.kube.following import Follower
from worklease.kube.session import Session
from worklease.kube.swap import read

REQUEST_SECONDS = 5.0
DECIDED_SECONDS = 30.0
"""How long the operator may take to decide a claim before its claimant gives up."""
SILENT_SECONDS = 3.0
"""How long nothing may be heard before a claimant that waits for its own grant looks by itself."""
ABANDON_SECONDS = 2.0
JITTER_SECONDS = 0.02
"""Over this time the claims of many waiters are spread; whoever sees one of them before its own turn keeps waiting."""
ANOTHER_BLOCK_SECONDS = 0.05
MOVED_MAX = 10
GIVEN_UP = "the claimant gave up before it used the lease"
PASSING = (WorkIsLeased, WorkIsReserved, WorkIsSuspended)
"""Refusals that a waiter waits out."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be held, and what for. `work` is what to create the item with if there is none; None to refuse."""

    namespace: str
    name: str
    purpose: str
    work: Work | None = None
    lease_seconds: int | None = None
    jeopardy_seconds: int | None = None

    @property
    def lease(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"

    def manifest(self, claim: Claim) -> dict[str, Any]:
        """The new work item with its first claim."""
        assert self.work is not None
        spec: dict[str, Any] = {"work": self.work.manifest(), "claim": claim.manifest()}
        if self.lease_seconds is not None:
            spec["leaseDurationSeconds"] = self.lease_seconds
        if self.jeopardy_seconds is not None:
            spec["jeopardyDurationSeconds"] = self.jeopardy_seconds
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": API_VERSION, "kind": "WorkLease", "metadata": metadata, "spec": spec}


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


class Claimant:
    """Claims one work item for one block. With a grant, the block has its place in `places` until it leaves it."""

    def __init__(
        self,
        session: Session,
        follower: Follower,
        me: Identity,
        clock: Clock,
        wanted: Wanted,
        places: Places,
    ) -> None:
        self._session = session
        self._follower = follower
        self._me = me
        self._clock = clock
        self._wanted = wanted
        self._places = places

    async def now(self) -> Grant:
        """Claims at once. Raises ClaimRefused with the reason, or ClaimUndecided."""
        for _ in range(MOVED_MAX):
            work = await self._read()
            try:
                return await self._claim(work)
            except _MovedOnError:
                continue
        raise WorkIsLeased(self._wanted.lease, "others are claiming the work over and over")

    async def resumed(self, claim_id: str) -> Grant:
        """The grant of an earlier claim of this identity and instance, while its tenure stands: renewed, not claimed.

        Raises ClaimRefused when it does not stand, or is another's.
        """
        lease = self._wanted.lease
        if self._places.is_taken(lease):
            raise WorkIsLeased(lease, "another block of this process claims or holds the work")
        self._places.take(lease)
        try:
            work = await self._read()
            if work is None or work.status.claim_id != claim_id or not held_by(work, self._me):
                raise ClaimRefused(lease, f"this user and instance hold it under no claim {claim_id} any more")
            return await self._fresh(Grant(work, claim_id, -math.inf))
        except BaseException:
            self._places.leave(lease)
            raise

    async def when_free(self, wait_seconds: float | None) -> Grant:
        """Claims at once, and again the moment the work becomes free; None waits for ever.

        Raises WaitedTooLong, and whatever waiting does not change.
        """
        limit = asyncio.timeout(wait_seconds)
        try:
            async with limit:
                with contextlib.suppress(*PASSING):
                    return await self.now()
                return await self._wait()
        except TimeoutError:
            if not limit.expired():
                raise
            said = f"the work was not free within {wait_seconds:g} s"
            raise WaitedTooLong(self._wanted.lease, said) from None

    async def _wait(self) -> Grant:
        latest: list[WorkLease] = []
        news = asyncio.Event()

        async def follow() -> None:
            try:
                async with contextlib.aclosing(
                    self._follower.follow(self._wanted.namespace, self._wanted.name)
                ) as changes:
                    async for raw in changes:
                        latest[:] = [WorkLease.model_validate(raw)]
                        news.set()
            finally:
                news.set()

        following = asyncio.create_task(follow())
        try:
            while True:
                await news.wait()
                news.clear()
                if following.done():
                    await following
                if is_over(latest[0]):
                    raise WorkIsComplete(self._wanted.lease, "work is complete")
                if not is_claimable(latest[0], self._me):
                    continue
                if self._places.is_taken(self._wanted.lease):
                    if not held_by(latest[0], self._me):  # another block is claiming it: see what comes of that
                        await asyncio.sleep(ANOTHER_BLOCK_SECONDS)
                        news.set()
                    continue
                await asyncio.sleep(random.uniform(0.0, JITTER_SECONDS))
                if self._is_free(latest[0]):
                    with contextlib.suppress(*PASSING, _MovedOnError):
                        return await self._claim(latest[0])
        except NotFound as error:
            raise missing(self._wanted.lease, error) from error
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def _is_free(self, work: WorkLease) -> bool:
        return is_claimable(work, self._me) and not self._places.is_taken(self._wanted.lease)

    async def _read(self) -> WorkLease | None:
        limit = self._clock() + DECIDED_SECONDS
        failures = 0
        while True:
            try:
                return WorkLease.model_validate(await read(self._session, self._wanted.namespace, self._wanted.name))
            except NotFound as error:
                if self._wanted.work is None:
                    raise missing(self._wanted.lease, error) from error
                return None
            except Refused as error:
                raise claim_refusal(self._wanted.lease, error) from error
            except UNKNOWN as error:
                failures += 1
                if self._clock() > limit:
                    raise ClaimUndecided(self._wanted.lease, f"the API server cannot be asked: {error}") from error
                await asyncio.sleep(min(0.2 * 2**failures, 3.0))

    async def _claim(self, work: WorkLease | None) -> Grant:
        """One claim, about what was read. Raises _MovedOnError when that was out of date."""
        lease = self._wanted.lease
        if self._places.is_taken(lease):
            raise WorkIsLeased(lease, "another block of this process claims or holds the work")
        self._places.take(lease)
        try:
            return await self._claim_in_place(work)
        except BaseException:
            self._places.leave(lease)
            raise

    async def _claim_in_place(self, work: WorkLease | None) -> Grant:
        wanted = self._wanted
        claim = Claim(
            epoch=work.status.epoch if work else 0,
            id=str(uuid.uuid4()),
            holder_identity=self._me.username,
            instance=self._me.instance,
            purpose=wanted.purpose,
        )
        ends = self._clock() + DECIDED_SECONDS
        speech = Speech(
            self._session,
            WorkLease,
            wanted.namespace,
            wanted.name,
            said=lambda seen: _mentions(seen, claim.id),
            clock=self._clock,
            ends=lambda: ends,
            request_seconds=REQUEST_SECONDS,
        )
        try:
            if work is None:
                stated = await speech.create(wanted.manifest(claim))
            else:
                stated = await speech.patch(lambda: stating(claim=claim.manifest()))
            return await self._fresh(await self.decided(claim, stated, speech.first_sent_at or 0.0))
        except (Conflict, NotFound) as error:
            raise _MovedOnError from error
        except Refused as error:
            if MOVED_ON in str(error) or NOT_FRESH in str(error):
                raise _MovedOnError from error
            raise claim_refusal(wanted.lease, error) from error
        except UNKNOWN as error:
            await self._abandon(claim.id)
            said = f"it is not known whether the claim reached the API server: {error}"
            raise ClaimUndecided(wanted.lease, said) from error
        except BaseException:
            await self._abandon(claim.id)
            raise

    async def decided(self, claim: Claim, stated: WorkLease, sent_at: float) -> Grant:
        """Waits until the operator has decided. Raises ClaimRefused, ClaimUndecided."""
        limit = asyncio.timeout(DECIDED_SECONDS)
        metadata = stated.metadata
        known = {"metadata": {"name": metadata.name, "resourceVersion": metadata.resource_version}}
        changes = self._follower.follow(
            self._wanted.namespace, self._wanted.name, known=known, silent_seconds=SILENT_SECONDS
        )
        try:
            async with limit, contextlib.aclosing(changes):
                work = stated
                while not self._granted(claim, work):
                    work = WorkLease.model_validate(await anext(changes))
                return Grant(work, claim.id, sent_at)
        except TimeoutError:
            if not limit.expired():
                raise
            said = f"the claim has not been decided within {DECIDED_SECONDS:g} s: is the operator running?"
            raise ClaimUndecided(self._wanted.lease, said) from None

    def _granted(self, claim: Claim, work: WorkLease) -> bool:
        lease, status = self._wanted.lease, work.status
        if status.claim_id == claim.id:
            if status.phase in STANDING and held_by(work, self._me):
                return True
            raise ClaimRefused(lease, "the claim was granted, and its tenure has ended before it was used")
        if status.observed_claim_id == claim.id:
            if is_over(work):
                raise WorkIsComplete(lease, "work is complete")
            if status.successor is not None:
                raise WorkIsReserved(lease, "work is reserved for the target of a handoff")
            raise WorkIsLeased(lease, "the claim was refused: somebody else holds the work")
        if work.spec.claim is None or work.spec.claim.id != claim.id:
            raise WorkIsLeased(lease, "the claim was overridden by another one")
        return False

    async def _fresh(self, grant: Grant) -> Grant:
        """A grant that came late is renewed before it is used: its time may be over, whatever status says."""
        if self._clock() - grant.sent_at < grant.terms.certain_seconds / 2:
            return grant
        renewals = Renewals(self._session, grant.work, grant.epoch)
        limit = self._clock() + DECIDED_SECONDS
        while True:
            sent_at = self._clock()
            try:
                if (work := await renewals.send(grant.terms.request_seconds)) is not None:
                    return replace(grant, work=work, sent_at=sent_at)
            except UNKNOWN as error:
                if self._clock() > limit:
                    raise ClaimUndecided(self._wanted.lease, f"a late grant could not be confirmed: {error}") from error
            except Refused as error:
                said = "the tenure of this claim has ended before it was used"
                raise ClaimRefused(self._wanted.lease, said) from error
            await asyncio.sleep(0.2)

    async def _abandon(self, claim_id: str) -> None:
        """Gives back what this claim has got, if anything; bounded, and silent about failure: it lapses anyway."""
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(ABANDON_SECONDS):
                work = WorkLease.model_validate(await read(self._session, self._wanted.namespace, self._wanted.name))
                if work.status.claim_id != claim_id or not held_by(work, self._me):
                    return
                ends = self._clock() + ABANDON_SECONDS
                release = Release(epoch=work.status.epoch, reason=GIVEN_UP)
                await Speech(
                    self._session,
                    WorkLease,
                    self._wanted.namespace,
                    self._wanted.name,
                    said=lambda seen: seen.spec.release == release,
                    clock=self._clock,
                    ends=lambda: ends,
                    request_seconds=ABANDON_SECONDS,
                ).patch(lambda: stating(release=release.manifest()))


class _MovedOnError(Exception):
    """What the claim was about is out of date: read again."""


def _mentions(work: WorkLease, claim_id: str) -> bool:
    return work.status.claim_id == claim_id or (work.spec.claim is not None and work.spec.claim.id == claim_id)
