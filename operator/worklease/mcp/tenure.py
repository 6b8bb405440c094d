"""One lease that a session holds: a task owns its block, and with it the effects that were begun and the offers made.

Whatever ends the task ends them in this order: effects without an outcome become Unknown, belief ends, the work is
given back or left to lapse.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any

from worklease.client.effects import ReportedEffect
from worklease.client.handoffs import Offer
from worklease.client.holding import LostReason
from worklease.client.lease import Lease
from worklease.client.timing import FINAL
from worklease.errors import EffectFailed, LeaseLost, StatementRefused, WorkleaseError
from worklease.mcp.refusals import TooMany

logger = logging.getLogger(__name__)

OPEN_EFFECTS_MAX = 64
OPEN_OFFERS_MAX = 8
SESSION_ENDED = "the session of the agent has ended"

Taking = AbstractAsyncContextManager[Lease]
Heard = Callable[["Tenure"], Awaitable[None]]


class AtEnd(StrEnum):
    """What becomes of a lease when its session ends."""

    RELEASE = "release"
    LAPSE = "lapse"


class OutcomeUnknown(Exception):
    """Ends the block of an effect whose outcome its holder does not know."""


class OpenEffect:
    """An effect between its beginning and its end, which are two calls of the agent."""

    def __init__(self, reported: ReportedEffect, task: asyncio.Task[None]) -> None:
        self.reported = reported
        self._task = task
        self._outcome: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    async def outcome(self) -> tuple[str, str]:
        """Waits for what became of it."""
        return await self._outcome

    async def finish(self, state: str, detail: str) -> None:
        """Says what became of it. Raises what the statement was refused with; the effect then is to be reconciled."""
        if not self._outcome.done():
            self._outcome.set_result((state, detail))
        await asyncio.wait([self._task])
        if self._task.cancelled():
            raise StatementRefused(self.reported.token.lease, "the lease ended before the outcome was logged")
        self._task.result()


class Tenure:
    """A lease with what hangs on it. `heard` is told of each change of its standing."""

    def __init__(self, key: str, heard: Heard, at_end: AtEnd) -> None:
        self.key = key
        self.effects: dict[str, OpenEffect] = {}
        self._beginning: dict[str, asyncio.Event] = {}
        self.lost: LeaseLost | None = None
        self.ended_by_agent = False
        """It ended by the agent's own word, or with its session."""
        self._heard = heard
        self._at_end = at_end
        self._lease: Lease | None = None
        self._stop = asyncio.Event()
        self._children: set[asyncio.Task[None]] = set()
        self._owner: asyncio.Task[None] | None = None
        self._offers = 0

    @property
    def lease(self) -> Lease:
        """What is held."""
        assert self._lease is not None
        return self._lease

    @property
    def is_granted(self) -> bool:
        """Whether the claim has been granted, whatever became of the lease."""
        return self._lease is not None

    @property
    def is_held(self) -> bool:
        """Whether the claim has been granted, and the block runs."""
        return self._lease is not None and self._lease.standing not in FINAL

    async def begin(self, owners: asyncio.TaskGroup, taking: Taking) -> Lease:
        """Enters the block in a task of its own. A caller that is cancelled in the meantime takes the claim back."""
        taken: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        self._owner = owners.create_task(self._own(taking, taken), name=f"hold {self.key}")
        try:
            return await taken
        except asyncio.CancelledError:
            await self.end()
            raise

    async def end(self) -> None:
        """Ends the block as the session's end does, and waits for it."""
        self.ended_by_agent = True
        self._stop.set()
        if self._owner is None:
            return
        if self._lease is None:
            self._owner.cancel()
        await asyncio.wait([self._owner])

    async def release(self, reason: str) -> None:
        """Gives the work back now. Raises LeaseLost."""
        await self._end_children()
        self.ended_by_agent = True
        await self.lease.release(reason)
        await self.end()

    async def complete(self, message: str, outcome: str) -> None:
        """Declares the work done. Raises what it is refused with; the tenure then goes on."""
        self.ended_by_agent = True
        try:
            await self.lease.complete(message, outcome)
        except BaseException:
            self.ended_by_agent = False
            raise
        await self.end()

    async def _own(self, taking: Taking, taken: asyncio.Future[Lease]) -> None:
        try:
            async with taking as lease:
                self._lease = lease
                if not taken.done():
                    taken.set_result(lease)
                try:
                    await self._until_over(lease)
                finally:
                    await self._end_children()
                    if self._stop.is_set() and lease.standing not in FINAL:
                        await self._leave(lease)
        except LeaseLost as error:
            self.lost = error
        except asyncio.CancelledError:
            if not taken.done():
                taken.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other leases of the session go on
            if taken.done():
                logger.warning("%s: %s: %s", self.key, type(error).__name__, error)
            else:
                taken.set_exception(error)
        finally:
            if not taken.done():
                taken.set_exception(self.lost or LeaseLost(self.key, LostReason.UNCERTAIN, "it was never held"))
            if self._lease is not None:
                await self._heard(self)

    async def _leave(self, lease: Lease) -> None:
        """The session ends while the lease is held."""
        if self._at_end is AtEnd.LAPSE:
            lease.let_lapse()
        else:
            await lease.release(SESSION_ENDED)

    async def _until_over(self, lease: Lease) -> None:
        """Until the session ends it, or the holder's own word; a loss cancels this."""
        over = [asyncio.create_task(self._tell(lease)), asyncio.create_task(self._stopped())]
        try:
            await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in over:
                task.cancel()
            await asyncio.gather(*over, return_exceptions=True)

    async def _stopped(self) -> None:
        await self._stop.wait()

    async def _tell(self, lease: Lease) -> None:
        await self._heard(self)
        standing = lease.standing
        while standing not in FINAL:
            standing = await lease.standing_changed(standing)
            if standing not in FINAL:
                await self._heard(self)

    def _child(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._children.add(task)
        task.add_done_callback(self._children.discard)
        return task

    async def _end_children(self) -> None:
        children = tuple(self._children)
        for child in children:
            child.cancel()
        await asyncio.gather(*children, return_exceptions=True)

    async def begin_effect(self, recipient: str, action: str, digest: str | None, id: str | None) -> OpenEffect:
        """Logs it as Attempted; it is open until it is finished, or the block ends.

        The same id is the same effect, and is not logged twice. Raises StatementRefused when it is another one's.
        """
        if id is None:
            return await self._begin(recipient, action, digest, id)
        while (beginning := self._beginning.get(id)) is not None:
            await beginning.wait()
        if (opened := self.effects.get(id)) is not None:
            logged = opened.reported.logged
            if (logged.recipient, logged.action, logged.digest) != (recipient, action, digest):
                said = f"effect {id} is open for {logged.recipient}, {logged.action}: another effect needs another id"
                raise StatementRefused(self.key, said)
            return opened
        beginning = self._beginning[id] = asyncio.Event()
        try:
            return await self._begin(recipient, action, digest, id)
        finally:
            del self._beginning[id]
            beginning.set()

    async def _begin(self, recipient: str, action: str, digest: str | None, id: str | None) -> OpenEffect:
        if len(self.effects) >= OPEN_EFFECTS_MAX:
            raise TooMany(self.key, f"{OPEN_EFFECTS_MAX} effects are open already")
        begun: asyncio.Future[OpenEffect] = asyncio.get_running_loop().create_future()
        task = self._child(self._effect(recipient, action, digest, id, begun))
        waiting: list[asyncio.Future[Any]] = [begun, task]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            await task  # raises why it did not begin
        return begun.result()

    async def _effect(
        self, recipient: str, action: str, digest: str | None, id: str | None, begun: asyncio.Future[OpenEffect]
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with self.lease.effect(recipient, action, digest=digest, id=id) as reported:
                opened = self.effects[reported.id] = OpenEffect(reported, task)
                begun.set_result(opened)
                state, detail = await opened.outcome()
                reported.detail = detail or None
                if state == "Failed":
                    raise EffectFailed(detail)
                if state == "Unknown":
                    raise OutcomeUnknown
        except (EffectFailed, OutcomeUnknown):
            pass
        finally:
            if begun.done():
                self.effects.pop(begun.result().reported.id, None)

    async def offer(self, make: Callable[[Lease], Awaitable[Offer]]) -> Offer:
        """Offers the tenure, and waits beside the block for what becomes of it."""
        if self._offers >= OPEN_OFFERS_MAX:
            raise TooMany(self.key, f"{OPEN_OFFERS_MAX} offers of it wait already; withdraw one")
        offer = await make(self.lease)
        self._offers += 1
        self._child(self._settle(offer))
        return offer

    async def _settle(self, offer: Offer) -> None:
        try:
            await offer.settled()
        except WorkleaseError as error:
            logger.info("%s: %s", self.key, error)
        finally:
            self._offers -= 1
