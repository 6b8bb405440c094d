"""From wanting work to a grant that is certainly one's own: the claim, the waiting, the look at what was decided."""

import asyncio
import contextlib
import math
import random
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from worklease.api.group import API_VERSION
from worklease.api.statements import Claim
from worklease.api.worklease import Work, WorkLease
from worklease.client.claimable import held_by, is_claimable, is_over
from worklease.client.clock import Clock
from worklease.client.deciding import DECIDED_SECONDS, Deciding, Grant, finishing, fresh, mentions
from worklease.client.identity import Identity
from worklease.client.patience import patiently
from worklease.client.places import Places
from worklease.client.reading import parsed
from worklease.client.refusals import MOVED_ON, NOT_FRESH, claim_refusal, missing
from worklease.client.speech import STATEMENT_SECONDS, UNKNOWN, Speech, stating
from worklease.errors import (
    ClaimRefused,
    ClaimUndecided,
    Conflict,
    Forbidden,
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

JITTER_SECONDS = 0.02
"""Over this time the claims of many waiters are spread; whoever sees one of them before its own turn keeps waiting."""
ANOTHER_BLOCK_SECONDS = 0.05
MOVED_MAX = 10
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
            return await fresh(self._session, self._clock, lease, Grant(work, claim_id, -math.inf))
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
                        latest[:] = [parsed(WorkLease, raw)]
                        news.set()
            finally:
                news.set()

        async def heard() -> None:
            if not following.done():
                await news.wait()
            news.clear()
            if following.done():
                await following

        async def seen() -> AsyncGenerator[WorkLease, None]:
            while True:
                await heard()
                yield latest[0]

        following = asyncio.create_task(follow())
        try:
            while True:
                await heard()
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
                claimed = latest[0]
                if self._is_free(claimed):
                    with contextlib.suppress(*PASSING, _MovedOnError):
                        return await self._claim(claimed, seen())
                    if latest[0] is not claimed:  # it was heard by the claim, and may be free again
                        news.set()
        except NotFound as error:
            raise missing(self._wanted.lease, error) from error
        except Forbidden as error:  # to watch it
            raise claim_refusal(self._wanted.lease, error) from error
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def _is_free(self, work: WorkLease) -> bool:
        return is_claimable(work, self._me) and not self._places.is_taken(self._wanted.lease)

    async def _asked(self) -> dict[str, Any]:
        return await read(self._session, self._wanted.namespace, self._wanted.name)

    async def _read(self) -> WorkLease | None:
        limit = self._clock() + DECIDED_SECONDS
        failures = 0
        while True:
            try:
                return parsed(WorkLease, await patiently(self._asked))
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

    async def _claim(self, work: WorkLease | None, seen: AsyncGenerator[WorkLease, None] | None = None) -> Grant:
        """One claim, about what was read. Raises _MovedOnError when that was out of date."""
        lease = self._wanted.lease
        if self._places.is_taken(lease):
            raise WorkIsLeased(lease, "another block of this process claims or holds the work")
        self._places.take(lease)
        try:
            return await self._claim_in_place(work, seen)
        except BaseException:
            self._places.leave(lease)
            raise

    async def _claim_in_place(self, work: WorkLease | None, seen: AsyncGenerator[WorkLease, None] | None) -> Grant:
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
            said=lambda seen: mentions(seen, claim.id),
            clock=self._clock,
            ends=lambda: ends,
            request_seconds=STATEMENT_SECONDS,
        )
        deciding = self._deciding(claim)
        try:
            if work is None:
                stated = await finishing(speech.create(wanted.manifest(claim)))
            else:
                stated = await finishing(speech.patch(lambda: stating(claim=claim.manifest())))
            grant = await deciding.granted(stated, speech.first_sent_at or 0.0, seen=seen)
            return await fresh(self._session, self._clock, self._wanted.lease, grant)
        except NotFound as error:
            if work is None:  # there is nowhere to create it
                raise missing(wanted.lease, error) from error
            raise _MovedOnError from error
        except Conflict as error:
            raise _MovedOnError from error
        except Refused as error:
            if MOVED_ON in str(error) or NOT_FRESH in str(error):
                raise _MovedOnError from error
            raise claim_refusal(wanted.lease, error) from error
        except UNKNOWN as error:
            await finishing(deciding.give_back())
            said = f"it is not known whether the claim reached the API server: {error}"
            raise ClaimUndecided(wanted.lease, said) from error
        except BaseException:
            await finishing(deciding.give_back())
            raise

    async def stated(self, claim: Claim, state: Callable[[], Awaitable[WorkLease]]) -> Grant:
        """The grant of a claim that `state` makes together with another statement; given back when it comes to nothing.

        Raises WorkIsLeased before anything is said when another block of this process has the work, ClaimRefused,
        ClaimUndecided, and whatever `state` raises.
        """
        lease = self._wanted.lease
        if self._places.is_taken(lease):
            raise WorkIsLeased(lease, "another block of this process claims or holds the work")
        self._places.take(lease)
        deciding, sent_at = self._deciding(claim), self._clock()
        try:
            grant = await deciding.granted(await state(), sent_at)
            return await fresh(self._session, self._clock, lease, grant)
        except BaseException:
            await finishing(deciding.give_back())
            self._places.leave(lease)
            raise

    async def decided(self, claim: Claim, stated: WorkLease, sent_at: float) -> Grant:
        """Waits until the operator has decided a claim that was stated. Raises ClaimRefused, ClaimUndecided."""
        return await self._deciding(claim).granted(stated, sent_at)

    def _deciding(self, claim: Claim) -> Deciding:
        wanted = self._wanted
        return Deciding(self._session, self._follower, self._me, self._clock, wanted.namespace, wanted.name, claim)


class _MovedOnError(Exception):
    """What the claim was about is out of date: read again."""
