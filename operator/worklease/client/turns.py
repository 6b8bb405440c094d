"""Whose turn it is to speak under a lease: statements go side by side, a re-claim goes alone, beside no effect."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Turns:
    """The turns of one holding, in one event loop: nothing is awaited between a condition and what it permits."""

    def __init__(self) -> None:
        self.effects = 0
        """How many effects are under way, from before they are logged until their outcome is."""
        self._speaking = 0
        self._alone = False
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def statement(self) -> AsyncIterator[None]:
        """For one statement that names the epoch; waits while a re-claim is being decided."""
        await self._until_nobody_is_alone()
        self._speaking += 1
        try:
            yield
        finally:
            self._speaking -= 1
            self._changed.set()

    @contextlib.asynccontextmanager
    async def effect(self) -> AsyncIterator[None]:
        """For one effect under one epoch; waits while a re-claim is being decided."""
        await self._until_nobody_is_alone()
        self.effects += 1
        try:
            yield
        finally:
            self.effects -= 1

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """For a re-claim: after the statements that are under way, before any that come. Not beside effects."""
        await self._until_nobody_is_alone()
        assert not self.effects, "the caller has looked"
        self._alone = True
        try:
            while self._speaking:
                await self._change()
            yield
        finally:
            self._alone = False
            self._changed.set()

    async def _until_nobody_is_alone(self) -> None:
        while self._alone:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
