"""One check: allowed only once its mark is durable. Marks that have to move are moved in batches (group commit).

While one batch is being committed the next one gathers, so the number of commits does not grow with the load.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from worklease.errors import MarkUnavailable, StaleEpoch
from worklease.fencing.authorizer.stores import Store
from worklease.fencing.token import Token

MAX_WAITING: Final = 10_000
MAX_REMEMBERED: Final = 100_000

log = logging.getLogger(__name__)

Waiting = dict[str, list[tuple[int, "asyncio.Future[int]"]]]


class Checker:
    """Checks tokens against one store. Made and used in one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "marks")
        self._durable: OrderedDict[str, int] = OrderedDict()
        self._waiting: Waiting = {}
        self._count = 0
        self._committing: asyncio.Task[None] | None = None

    async def check(self, token: Token) -> None:
        """Returns when the effect may go on, its mark durable; raises StaleEpoch or MarkUnavailable."""
        known = self._durable.get(token.lease, 0)
        if known > token.epoch:  # Marks only grow, whoever moves them: a refusal needs no second look.
            raise StaleEpoch(token.lease, token.epoch, known)
        if known < token.epoch or not self._store.exclusive:
            token.admitted_at(await self._move(token))

    async def ready(self) -> None:
        """Raises MarkUnavailable when the store does not answer."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._store.move, {})

    async def close(self) -> None:
        """Lets the last batch end and closes the store."""
        while self._committing is not None:
            await asyncio.wait([self._committing])
        await asyncio.get_running_loop().run_in_executor(self._thread, self._store.close)
        self._thread.shutdown()

    async def _move(self, token: Token) -> int:
        if self._count >= MAX_WAITING:
            raise MarkUnavailable("too many checks are waiting for the store")
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(token.lease, []).append((token.epoch, future))
        self._count += 1
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit())
        return await future

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch, self._waiting, self._count = self._waiting, {}, 0
                wanted = {lease: max(epoch for epoch, _ in checks) for lease, checks in batch.items()}
                try:
                    marks = await loop.run_in_executor(self._thread, self._store.move, wanted)
                except MarkUnavailable as error:
                    log.error("%d checks refused: %s", sum(map(len, batch.values())), error)
                    self._answer(batch, error)
                except Exception as error:  # A defect: those who wait are refused, and the next batch is tried.
                    log.exception("%d checks refused", sum(map(len, batch.values())))
                    self._answer(batch, MarkUnavailable(f"the store failed: {type(error).__name__}"))
                else:
                    self._remember(marks)
                    self._answer(batch, marks)
        finally:
            self._committing = None

    def _remember(self, marks: dict[str, int]) -> None:
        for lease, mark in marks.items():
            self._durable[lease] = max(mark, self._durable.get(lease, 0))
            self._durable.move_to_end(lease)
        while len(self._durable) > MAX_REMEMBERED:
            self._durable.popitem(last=False)

    @staticmethod
    def _answer(batch: Waiting, marks: dict[str, int] | MarkUnavailable) -> None:
        for lease, checks in batch.items():
            for _, future in checks:
                if future.done():  # Whoever asked has gone away.
                    continue
                if isinstance(marks, MarkUnavailable):
                    future.set_exception(MarkUnavailable(str(marks)))
                else:
                    future.set_result(marks.get(lease, 0))  # A mark that was not given back admits nothing.
