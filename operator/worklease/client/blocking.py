"""The client for code that does not use asyncio: the same client, run by one thread beside the caller's.

A thread cannot be cancelled from outside. When the lease is lost, every call under it raises LeaseLost, `lost` is set,
and so does the end of the block.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from worklease.api.handoff import HandoffPhase
from worklease.api.statements import Effect, EffectState, Outcome
from worklease.api.worklease import WorkLease
from worklease.client import client as asynchronous
from worklease.client.effects import ReportedEffect
from worklease.client.handoffs import Offer
from worklease.client.identity import Identity
from worklease.client.lease import Lease as AsyncLease
from worklease.client.timing import FINAL, Standing
from worklease.fencing.token import Token
from worklease.kube.credentials import Source

T = TypeVar("T")
DRAIN_SECONDS = 10.0


class Portal:
    """A thread with an event loop, and how another thread has something run there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="worklease", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it there and waits; an interrupted wait (Ctrl-C) cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise
        except BaseException:
            future.cancel()
            raise

    def soon(self, function: Callable[[], object]) -> None:
        """Calls a function there."""
        self._loop.call_soon_threadsafe(function)

    @contextlib.contextmanager
    def block(self, manager: "contextlib.AbstractAsyncContextManager[T]") -> Iterator[T]:
        """Enters an async context manager there, in one task, for as long as the caller's block runs.

        The block's own error goes through the manager, as it would in that task.
        """
        entered: Future[T] = Future()
        leave = asyncio.Event()
        error: list[BaseException] = []

        async def run() -> None:
            async with manager as value:
                entered.set_result(value)
                await leave.wait()
                if error and not isinstance(error[0], Exception):
                    raise asyncio.CancelledError  # an interrupt in the loop's own thread would end the loop
                if error:
                    raise error[0]

        running = asyncio.run_coroutine_threadsafe(run(), self._loop)
        running.add_done_callback(lambda done: None if entered.done() else _hand_on(done, entered))
        try:
            value = entered.result()
        except BaseException:
            running.cancel()
            raise
        try:
            yield value
        except BaseException as raised:
            error.append(raised)
            self.soon(leave.set)
            with contextlib.suppress(CancelledError):
                running.result()
            raise
        self.soon(leave.set)
        running.result()

    async def _drained(self) -> None:
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks)

    def close(self) -> None:
        """Lets what was cancelled come to its end, for a while, and ends the thread."""
        with contextlib.suppress(TimeoutError, CancelledError):
            asyncio.run_coroutine_threadsafe(self._drained(), self._loop).result(DRAIN_SECONDS)
        self.soon(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _hand_on(done: "Future[None]", entered: "Future[Any]") -> None:
    error = CancelledError() if done.cancelled() else done.exception()
    entered.set_exception(error or RuntimeError("the block ended before it began"))


class Lease:
    """A held lease, for one thread or several. The methods are those of worklease.Lease, and block."""

    def __init__(self, portal: Portal, lease: AsyncLease) -> None:
        self._portal = portal
        self._lease = lease
        self.lost = threading.Event()
        """Set when the tenure is over."""

    @property
    def key(self) -> str:
        """NAMESPACE/NAME of the work item."""
        return self._lease.key

    @property
    def identity(self) -> Identity:
        """As whom it is held."""
        return self._lease.identity

    @property
    def epoch(self) -> int:
        """The fencing epoch of this tenure."""
        return self._lease.epoch

    @property
    def claim_id(self) -> str:
        """The id of the claim that was granted."""
        return self._lease.claim_id

    @property
    def token(self) -> Token:
        """The fencing token for recipients."""
        return self._lease.token

    def field_manager(self, name: str) -> str:
        """NAME@EPOCH: the field manager of a write to a fenced Kubernetes object."""
        return self._lease.field_manager(name)

    @property
    def deadline(self) -> float:
        """Until when effects are permitted, on `worklease.boot_seconds()`."""
        return self._lease.deadline

    @property
    def expiry(self) -> float:
        """From when the work may be another's unless a renewal moves it."""
        return self._lease.expiry

    def now(self) -> float:
        """The time on the clock of `deadline` and `expiry`."""
        return self._lease.now()

    @property
    def trouble(self) -> str | None:
        """Why the last renewal is not known to be accepted; None when it is."""
        return self._lease.trouble

    @property
    def work(self) -> WorkLease:
        """The work item as it was in the latest answer."""
        return self._lease.work

    @property
    def is_handed_over(self) -> bool:
        """An accepted handoff has taken effect: the target may claim, and no new effects are admitted."""
        return self._lease.is_handed_over

    @property
    def standing(self) -> Standing:
        """Held, Jeopardy, Lost or Ended, by the clock at this instant."""
        return self._portal.call(_called(lambda: self._lease.standing))

    def standing_changed(self, standing: Standing) -> Standing:
        """Waits until the standing is another than this one, and returns it."""
        return self._portal.call(self._lease.standing_changed(standing))

    def require_held(self) -> None:
        """Raises LeaseInJeopardy or LeaseLost unless effects are permitted at this instant: call it in long loops."""
        self._portal.call(_called(self._lease.require_held))

    def progress(self) -> None:
        """The work is alive."""
        self._portal.soon(self._lease.progress)

    def renew(self) -> None:
        """Renews now rather than in due time, and waits until that is accepted."""
        self._portal.call(self._lease.renew())

    def let_lapse(self) -> None:
        """Ends belief and renewing, and says nothing: the work is free once the lease has lapsed."""
        self._portal.call(_called(self._lease.let_lapse))

    @contextlib.contextmanager
    def effect(
        self, recipient: str, action: str, *, digest: str | None = None, id: str | None = None
    ) -> Iterator[ReportedEffect]:
        """One effect outside, logged before and after."""
        with self._portal.block(self._lease.effect(recipient, action, digest=digest, id=id)) as reported:
            yield reported

    @property
    def effects_left(self) -> int:
        """How many more effects this tenure may log."""
        return self._lease.effects_left

    def unreconciled(self) -> tuple[Effect, ...]:
        """The effects whose outcome is not known."""
        return self._portal.call(self._lease.unreconciled())

    def reconcile(self, id: str, state: EffectState | str, detail: str = "") -> None:
        """Says what became of an effect."""
        self._portal.call(self._lease.reconcile(id, state, detail))

    def checkpoint(self, uri: str, digest: str) -> None:
        """Says where the work stands."""
        self._portal.call(self._lease.checkpoint(uri, digest))

    def complete(self, message: str, outcome: Outcome | str = Outcome.SUCCEEDED) -> None:
        """Declares the work done."""
        self._portal.call(self._lease.complete(message, outcome))

    def reclaim(self, purpose: str | None = None) -> None:
        """Goes on under a fresh epoch."""
        self._portal.call(self._lease.reclaim(purpose))

    def release(self, reason: str) -> None:
        """Gives the work back now."""
        self._portal.call(self._lease.release(reason))

    def hand_over(self, to: str, **offered: Any) -> "Received":
        """Offers this tenure; the arguments are those of worklease.Lease.hand_over."""
        return Received(self._portal, self._portal.call(self._lease.hand_over(to, **offered)))


class Received:
    """A handoff: `offer` has what it says; the methods answer it, and block."""

    def __init__(self, portal: Portal, offer: Offer) -> None:
        self._portal = portal
        self.offer = offer

    @contextlib.contextmanager
    def accept(self, **how: Any) -> Iterator[Lease]:
        """Accepts, claims, and holds for as long as the block runs."""
        with self._portal.block(_watched(self._portal, self.offer.accept(**how))) as lease:
            yield lease

    def reject(self, reason: str) -> None:
        """Declines, for good."""
        self._portal.call(self.offer.reject(reason))

    def withdraw(self, reason: str) -> None:
        """Takes back one's own offer."""
        self._portal.call(self.offer.withdraw(reason))

    def settled(self) -> HandoffPhase:
        """Waits until nothing more becomes of it."""
        return self._portal.call(self.offer.settled())


@contextlib.contextmanager
def hold(name: str, **how: Any) -> Iterator[Lease]:
    """`with worklease.blocking.hold(...) as lease`: the arguments and errors are those of worklease.hold()."""
    with _portal() as portal, portal.block(_watched(portal, asynchronous.hold(name, **how))) as lease:
        yield lease


@contextlib.contextmanager
def inbox(namespace: str | None = None, *, source: Source | None = None) -> Iterator[list[Received]]:
    """`with worklease.blocking.inbox() as offers`: answer them inside the block."""
    with _portal() as portal, portal.block(asynchronous.inbox(namespace, source=source)) as offers:
        yield [Received(portal, offer) for offer in offers]


@contextlib.contextmanager
def _portal() -> Iterator[Portal]:
    portal = Portal()
    try:
        yield portal
    finally:
        portal.close()


@contextlib.asynccontextmanager
async def _watched(
    portal: Portal, manager: "contextlib.AbstractAsyncContextManager[AsyncLease]"
) -> AsyncIterator[Lease]:
    async with manager as lease:
        face = Lease(portal, lease)

        async def watch() -> None:
            standing = lease.standing
            while standing not in FINAL:
                standing = await lease.standing_changed(standing)
            face.lost.set()

        watching = asyncio.create_task(watch())
        try:
            yield face
        finally:
            face.lost.set()
            watching.cancel()


async def _called(function: Callable[[], T]) -> T:
    return function()
