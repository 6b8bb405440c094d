"""Keeps one tenure: renews it beside the work, and ends the work's block when it must not go on.

Belief ends first, by the clock alone; the block is cancelled next; only then is anything tried that can block.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any

from worklease.api.worklease import LEASED, WorkLease
from worklease.client.clock import Clock
from worklease.client.deciding import Grant
from worklease.client.reading import parsed
from worklease.client.renewing import Renewals, later_version
from worklease.client.scope import Scope
from worklease.client.speech import UNKNOWN
from worklease.client.timing import FINAL, Belief, Standing, pause_seconds, timeout_seconds
from worklease.client.turns import Turns
from worklease.errors import ApiError, Conflict, LeaseInJeopardy, LeaseLost, NotFound, Refused, Unavailable
from worklease.kube.session import Session
from worklease.kube.swap import read
from worklease.protocol.reasons import EndReason

logger = logging.getLogger(__name__)

LOST_STATUSES = (404, 422)
"""A renewal that is answered so says that the tenure has ended."""
DIAGNOSIS_SECONDS = 2.0
SPREAD = 0.1
"""By how much of their interval renewals come early, so that many leases are not renewed in one moment."""


class LostReason(StrEnum):
    """Why a lease was lost."""

    EXPIRED = "Expired"
    """It was not renewed in time, and the operator ended the tenure."""
    REVOKED = "Revoked"
    """An administrator ended the tenure; with a takeover, somebody else holds now."""
    HANDED_OVER = "HandedOver"
    """The target of a handoff went on."""
    RECLAIMED = "Reclaimed"
    """Another process of the same instance claimed the work."""
    RELEASED = "Released"
    """Another process of the same instance gave the work back."""
    COMPLETED = "Completed"
    """Another process of the same instance completed the work."""
    GONE = "Gone"
    """The work item has been deleted."""
    UNCERTAIN = "Uncertain"
    """No renewal was known to be accepted for so long that the work may be somebody else's by now."""
    REFUSED = "Refused"
    """A renewal was refused, and why could not be found out."""


class Holding:
    """One tenure of this process, from its grant to its end."""

    def __init__(
        self,
        session: Session,
        clock: Clock,
        grant: Grant,
        scope: Scope,
        max_silence_seconds: float | None = None,
    ) -> None:
        self.session = session
        self.clock = clock
        self.epoch = grant.epoch
        self.claim_id = grant.claim_id
        self.work = grant.work
        self.belief = Belief(grant.terms, grant.sent_at)
        self.ending = asyncio.Lock()
        """Held while the holder itself ends the tenure: a renewal that is refused then is judged afterwards."""
        self.turns = Turns()
        """Who may speak now: a re-claim goes alone."""
        self.being_handed_over = 0
        """How many wait in the block for a handoff of this tenure to settle: its end is what they wait for."""
        self.trouble: str | None = None
        """Why the last renewal is not known to be accepted; None when it is."""
        self._scope = scope
        self._renewals = Renewals(session, grant.work, grant.epoch)
        self._max_silence_seconds = max_silence_seconds
        self._progress_at = clock()
        self._lost: tuple[LostReason, str] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._reclaiming: asyncio.Task[None] | None = None
        self._reclaiming_for: str | None = None
        self._diagnosing = False
        self._woken = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return self.work.key

    @property
    def standing(self) -> Standing:
        """What may be believed at this instant, by the clock."""
        standing = self.belief.standing(self.clock())
        if standing is Standing.LOST and self._lost is None:
            self.lose(LostReason.UNCERTAIN, self._uncertain())
        return standing

    def require(self, *, held: bool) -> None:
        """Raises LeaseLost unless the tenure stands, LeaseInJeopardy when it must be `held` and is not certain."""
        standing = self.standing
        if standing in FINAL:
            raise self.lost()
        if held and standing is Standing.JEOPARDY:
            trouble = f": {self.trouble}" if self.trouble else ""
            raise LeaseInJeopardy(self.key, f"it is not certain that the lease is still held; no effects now{trouble}")

    def lost(self) -> LeaseLost:
        """What to raise once the tenure is over."""
        if self._lost is None:
            return LeaseLost(self.key, LostReason.RELEASED, "this holder has ended its tenure itself")
        reason, message = self._lost
        return LeaseLost(self.key, reason, message)

    @property
    def was_lost(self) -> bool:
        """It ended otherwise than by the holder's own word."""
        return self._lost is not None

    def progressed(self) -> None:
        """The work shows that it is alive; after a silence the renewing goes on, as long as the tenure stands."""
        was_silent = self._is_silent()
        self._progress_at = self.clock()
        if was_silent:
            self._woken.set()

    def see(self, work: WorkLease) -> None:
        """The object from an answer, unless a later one has been seen."""
        mine, its = self.work.metadata.resource_version, work.metadata.resource_version
        if later_version(mine, its) == its:
            self.work = work
        self._renewals.see(work)

    async def changed(self, standing: Standing) -> Standing:
        """Waits until the standing is another than this one."""
        while (now := self.standing) is standing:
            self._changed.clear()
            await self._changed.wait()
        return now

    def start(self) -> None:
        """Begins to renew, and to watch the clock."""
        self._keeper = asyncio.create_task(self._keep(), name=f"renew {self.key}")
        self._arm()

    def wake(self) -> None:
        """The clock has jumped, as it does when the machine slept: every timer is late."""
        self._woken.set()
        self._on_time()

    async def renewed(self) -> None:
        """Renews now; returns when that, or what was on its way already, is accepted. Raises LeaseLost."""
        before = self.belief.confirmed_at
        self.progressed()
        self._woken.set()
        while True:
            self.require(held=False)
            if self.belief.confirmed_at > before:
                return
            self._changed.clear()
            await self._changed.wait()

    def finish(self) -> Standing:
        """The holder ends its tenure: belief is over with this call. Returns what it was until now."""
        before = self.standing
        if self.belief.end(Standing.ENDED):
            self._quiet()
        return before

    async def reclaim(self, claiming: Callable[[], Coroutine[Any, Any, None]], purpose: str | None) -> None:
        """Runs a re-claim to its end, also when the caller is cancelled: its outcome has to be known.

        One at a time: a call for the same purpose, or for none, has what the one under way brings; for another purpose
        it claims after that.
        """
        while self._reclaiming is not None and not self._reclaiming.done():
            if purpose in (None, self._reclaiming_for):
                break
            await asyncio.wait([self._reclaiming])
        else:
            self._reclaiming_for = purpose
            self._reclaiming = asyncio.create_task(claiming(), name=f"reclaim {self.key}")
            self._reclaiming.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._reclaiming)

    def adopt(self, grant: Grant) -> bool:
        """Goes on under the epoch of a re-claim. False when belief has ended before: the grant is not to be used."""
        if not self.belief.begin(grant.terms, grant.sent_at, self.clock()):
            return False
        self.epoch, self.claim_id, self.work = grant.epoch, grant.claim_id, grant.work
        self._renewals = Renewals(self.session, grant.work, grant.epoch)
        self._arm()
        self._woken.set()
        self._changed.set()
        return True

    async def close(self) -> None:
        """Waits for the renewing to end; after a loss that includes, for a moment, to learn why."""
        self._quiet()
        if self._reclaiming is not None:
            self._reclaiming.cancel()
            await asyncio.gather(self._reclaiming, return_exceptions=True)
        if self._keeper is not None:
            if not self._diagnosing:
                self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    def _quiet(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._woken.set()
        self._changed.set()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self.clock()
        if (change := self.belief.next_change(now)) is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, change - now), self._on_time)

    def _on_time(self) -> None:
        self._changed.set()
        if self.standing not in FINAL:
            self._arm()

    def lose(self, reason: LostReason, message: str) -> None:
        """Belief first, then the block, then the rest."""
        self.belief.end(Standing.LOST)
        if self._lost is None:
            self._lost = reason, message
            self._scope.cancel()
            self._quiet()
            logger.warning("%s: lost at epoch %d: %s: %s", self.key, self.epoch, reason, message)

    def _uncertain(self) -> str:
        return "no renewal is known to be accepted, and the work may be somebody else's by now" + (
            f"; the last one: {self.trouble}" if self.trouble else ""
        )

    async def _keep(self) -> None:
        """Renews while the tenure stands. Whatever else ends this is a defect: belief then ends by the clock."""
        try:
            await self._renewing()
        except Exception as error:
            self.trouble = f"renewing has ended by a defect: {type(error).__name__}: {error}"
            logger.exception(
                "%s: renewing under epoch %d has ended by a defect; the lease lapses", self.key, self.epoch
            )

    async def _renewing(self) -> None:
        failures, retry_after_seconds = 0, 0.0
        while True:
            pause = pause_seconds(self.belief, failures, self.clock(), retry_after_seconds)
            await self._sleep(pause if failures else pause * random.uniform(1 - SPREAD, 1))
            if self.standing in FINAL:
                return
            while self._is_silent():
                self.trouble = f"the work has shown no progress for {self._max_silence_seconds:g} s"
                self._woken.clear()
                await self._woken.wait()
                if self.standing in FINAL:
                    return
            sent_at, epoch = self.clock(), self.epoch
            retry_after_seconds = 0.0
            try:
                work = await self._renewals.send(timeout_seconds(self.belief, sent_at))
            except (*UNKNOWN, Conflict) as error:
                failures += 1
                self.trouble = str(error)
                retry_after_seconds = error.retry_after_seconds if isinstance(error, Unavailable) else 0.0
                continue
            except Refused as error:
                if await self._is_over(error, epoch):
                    return
                failures += 1
                self.trouble = str(error)
                continue
            if work is None:
                failures += 1
                self.trouble = "the answer does not show the renewal"
            elif self.belief.confirm(sent_at, self.clock()):
                failures, self.trouble = 0, None
                self.see(work)
                self._arm()
                self._changed.set()

    async def _sleep(self, seconds: float) -> None:
        self._woken.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    def _is_silent(self) -> bool:
        limit = self._max_silence_seconds
        return limit is not None and self.clock() - self._progress_at > limit

    async def _is_over(self, refusal: Refused, epoch: int) -> bool:
        """Whether a refused renewal says that the tenure has ended. If so it is lost before anybody is asked why."""
        async with self.ending:
            if self.belief.standing(self.clock()) in FINAL:
                return True
            if self.epoch != epoch:
                return False
            if self._reclaiming is not None and not self._reclaiming.done():
                # The re-claim may just have been granted. No effect is under way, and none begins before that is seen.
                found = await self._diagnosis()
                if found is None or found[0] is LostReason.RECLAIMED or self.epoch != epoch:
                    return False
                self.lose(*found)
                return True
            if self.being_handed_over:
                found = await self._diagnosis()
                if found is not None and found[0] is LostReason.HANDED_OVER:
                    self.finish()
                    return True
            if refusal.status in LOST_STATUSES:
                self.lose(LostReason.REFUSED, " ".join(str(refusal).split())[:500])
                self._diagnosing = True
                found = await self._diagnosis()
                self._lost = found or self._lost
                return True
            found = await self._diagnosis()  # a policy or a missing verb: the tenure may go on
            if found is None:
                return False
            self.lose(*found)
            return True

    async def look_for_end(self) -> None:
        """After a statement was refused: whether that is because the tenure has ended. Raises LeaseLost then."""
        self.require(held=False)
        if (found := await self._diagnosis()) is None:
            return
        if self.being_handed_over and found[0] is LostReason.HANDED_OVER:
            self.finish()
        else:
            self.lose(*found)
        raise self.lost()

    async def look_for_revocation(self) -> None:
        """After belief has ended: whether the tenure had been revoked before, without a renewal to tell of it."""
        found = await self._diagnosis()
        if self._lost is None and found is not None and found[0] is LostReason.REVOKED:
            self._lost = found

    async def _diagnosis(self) -> tuple[LostReason, str] | None:
        """Why the tenure is over, from the object; None when it is not, or nothing can be read."""
        metadata = self.work.metadata
        try:
            async with asyncio.timeout(DIAGNOSIS_SECONDS):
                work = parsed(WorkLease, await read(self.session, metadata.namespace, metadata.name))
        except NotFound:
            return LostReason.GONE, "the work item has been deleted"
        except (ApiError, TimeoutError):
            return None
        return ended(work, self.epoch)


_ENDS: dict[str, tuple[LostReason, str]] = {
    EndReason.EXPIRED: (LostReason.EXPIRED, "it was not renewed in time"),
    EndReason.REVOKED: (LostReason.REVOKED, "an administrator revoked it"),
    EndReason.HANDED_OVER: (LostReason.HANDED_OVER, "the target of the handoff goes on with the work"),
    EndReason.RECLAIMED: (LostReason.RECLAIMED, "another process of this instance claimed the work"),
    EndReason.RELEASED: (LostReason.RELEASED, "another process of this instance gave the work back"),
    EndReason.COMPLETED: (LostReason.COMPLETED, "another process of this instance completed the work"),
}


def ended(work: WorkLease, epoch: int) -> tuple[LostReason, str] | None:
    """Why the tenure of this epoch is over; None when it is not."""
    spec, status = work.spec, work.status
    if spec.revocation is not None and spec.revocation.epoch == epoch:
        return LostReason.REVOKED, f"an administrator revoked it: {spec.revocation.reason}"
    for tenure in status.history:
        if tenure.epoch == epoch and tenure.end_reason:
            reason, message = _ENDS.get(tenure.end_reason, (LostReason.REFUSED, tenure.end_reason))
            return reason, message + (f": {tenure.end_message}" if tenure.end_message else "")
    if status.epoch != epoch or status.phase not in LEASED:
        return LostReason.REFUSED, f"the epoch of the work is {status.epoch}, and it is {status.phase}"
    return None
