"""Which objects are to be settled and when: now, when they are due on the watch clock, or again after a failure.

One object is settled by one worker at a time; what happens to it meanwhile has it settled once more. Every object is at
most once in each of the structures, so their size is bounded by the number of objects.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from worklease.controller.clock import WatchClock
from worklease.controller.deadlines import Deadlines

RETRY_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
HOPELESS_SECONDS = 60.0
"""When to try again what cannot be expected to go better soon."""


class Agenda:
    """Objects by uid. `settle` is called for each; `head_start_seconds` is how much later than due that is.

    What `settle` raises ends nothing: `on_defect` is called while it is handled, and the object is tried again later.
    """

    def __init__(
        self,
        clock: WatchClock,
        settle: Callable[[str], Awaitable[None]],
        head_start_seconds: Callable[[str], float] = lambda uid: 0.0,
        on_defect: Callable[[str], None] = lambda uid: None,
    ) -> None:
        self._clock = clock
        self._settle = settle
        self._head_start_seconds = head_start_seconds
        self._on_defect = on_defect
        self._deadlines = Deadlines()
        self._deadline_moved = asyncio.Event()
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._settling: set[str] = set()
        self._again: set[str] = set()
        self._due_at: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._held_off: set[str] = set()
        self._yielding: set[str] = set()
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """How many objects wait for a worker."""
        return len(self._queued)

    def now(self, uid: str) -> None:
        """Settle it now; after its head start, if another replica has one."""
        if uid in self._held_off:
            return  # its status was refused: more of the same would be too
        if not self._head_start_seconds(uid):
            self._enqueue(uid)
        elif uid not in self._yielding:  # more news of it do not put it off again
            self.at(uid, self._clock.seconds())
            self._yielding.add(uid)

    def at(self, uid: str, due_at: float | None) -> None:
        """Settle it when the watch clock shows this many seconds; None: only when something is seen of it."""
        self._yielding.discard(uid)
        if self._deadlines.set(uid, None if due_at is None else due_at + self._head_start_seconds(uid)):
            self._deadline_moved.set()

    def settled(self, uid: str, due_at: float | None) -> None:
        """Nothing is left to do until then."""
        self._due_at.pop(uid, None)
        if uid not in self._yielding:  # what was heard of it meanwhile is settled after its head start
            self.at(uid, due_at)

    def succeeded(self, uid: str) -> float | None:
        """A swap was won; returns when it had been due, if it was for a deadline."""
        self._failures.pop(uid, None)
        self._held_off.discard(uid)
        if (retry := self._retries.pop(uid, None)) is not None:
            retry.cancel()
        return self._due_at.pop(uid, None)

    def failed(self, uid: str, *, hopeless: bool = False) -> float:
        """Try again after a while that grows; a hopeless one later, and not sooner whatever is seen of it."""
        if hopeless:
            delay = HOPELESS_SECONDS
            self._held_off.add(uid)
        else:
            failures = self._failures.get(uid, 0)
            self._failures[uid] = failures + 1
            delay = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)] * random.uniform(0.8, 1.2)
        if (earlier := self._retries.pop(uid, None)) is not None:
            earlier.cancel()
        self._retries[uid] = asyncio.get_running_loop().call_later(delay, self._try_again, uid)
        return delay

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._deadlines.drop(uid)
        self._due_at.pop(uid, None)
        self._failures.pop(uid, None)
        if (retry := self._retries.pop(uid, None)) is not None:
            retry.cancel()
        self._held_off.discard(uid)
        self._yielding.discard(uid)

    def _try_again(self, uid: str) -> None:
        self._retries.pop(uid, None)
        self._held_off.discard(uid)
        self._enqueue(uid)

    def _enqueue(self, uid: str) -> None:
        if uid in self._settling:
            self._again.add(uid)
        elif uid not in self._queued:
            self._queued.add(uid)
            self._queue.put_nowait(uid)

    async def work(self) -> None:
        """Settle what is queued, for as long as the operator runs; several of these run side by side."""
        while True:
            uid = await self._queue.get()
            self._queued.discard(uid)
            if self._draining:
                continue
            self._settling.add(uid)
            self._idle.clear()
            try:
                await self._settle(uid)
            except Exception:  # noqa: BLE001 - one object must not end the decisions on all the others
                self._on_defect(uid)
                self.failed(uid, hopeless=True)
            finally:
                self._settling.discard(uid)
                if not self._settling:
                    self._idle.set()
                if uid in self._again:
                    self._again.discard(uid)
                    self._enqueue(uid)

    def clock_resumed(self) -> None:
        """The clock runs again: wait anew."""
        self._deadline_moved.set()

    async def keep_deadlines(self) -> None:
        """Queue each object when it is due, for as long as the operator runs."""
        while True:
            self._deadline_moved.clear()
            for uid, due_at in self._deadlines.pop_due(self._clock.seconds()):
                self._yielding.discard(uid)
                self._due_at[uid] = due_at - self._head_start_seconds(uid)
                self._enqueue(uid)
            next_at = self._deadlines.next_at()
            timeout = None if next_at is None or self._clock.blind else max(0.0, next_at - self._clock.seconds())
            try:
                async with asyncio.timeout(timeout):
                    await self._deadline_moved.wait()
            except TimeoutError:
                continue

    async def drain(self) -> None:
        """Take nothing more from the queue, and wait until nothing is being settled."""
        self._draining = True
        await self._idle.wait()
