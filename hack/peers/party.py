"""One process that holds locks, told what to do by orders on its standard input, and what it has said so far."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from commands import SetupError
from tether import tethered

READY_SECONDS = 30.0
ENDED_SECONDS = 5.0


class Party:
    """Start it with `async with await Party.start(...)`; it is killed at the end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.acquired_seconds: list[float] = []
        self._first: dict[tuple[str, str], float] = {}
        self._last: dict[tuple[str, str], float] = {}
        self._failure = ""
        self._news = asyncio.Condition()
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Self:
        """The process, ready for orders."""
        process = await asyncio.create_subprocess_exec(
            *tethered(list(command)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        party = cls(process)
        await party.until("ready", [""], READY_SECONDS)
        return party

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.kill()
        await asyncio.wait_for(self.process.wait(), ENDED_SECONDS)
        await self._listening

    def kill(self) -> None:
        """Kills it, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def say(self, order: str) -> None:
        """Gives an order; see obey() of main.go."""
        assert self.process.stdin
        self.process.stdin.write(f"{order}\n".encode())
        await self.process.stdin.drain()

    async def until(self, event: str, names: Iterable[str], within_seconds: float) -> dict[str, float]:
        """When this first happened to each of these locks, once it has to all. Raises SetupError when it does not."""
        wanted = list(names)
        missing = list(wanted)

        def happened() -> bool:
            missing[:] = [name for name in wanted if (event, name) not in self._first]
            return not missing or bool(self._failure)

        async with self._news:
            try:
                async with asyncio.timeout(within_seconds):
                    await self._news.wait_for(happened)
            except TimeoutError:
                self._failure = f"{event} has not happened to {missing[:5]} within {within_seconds:g} s"
        if missing:
            raise SetupError(f"process {self.process.pid}, which holds locks to be measured: {self._failure}")
        return {name: self._first[event, name] for name in wanted}

    def last(self, event: str, name: str) -> float | None:
        """When this last happened to a lock."""
        return self._last.get((event, name))

    async def ended(self) -> None:
        """Waits until it has ended, and everything that it said has been heard."""
        await asyncio.wait_for(self.process.wait(), ENDED_SECONDS)
        await asyncio.shield(self._listening)

    async def _listen(self) -> None:
        assert self.process.stdout
        while line := await self.process.stdout.readline():
            async with self._news:
                self._heard(json.loads(line))
                self._news.notify_all()
        async with self._news:
            self._failure = self._failure or "it has ended"
            self._news.notify_all()

    def _heard(self, event: dict[str, Any]) -> None:
        key, at = (event["event"], event.get("name", "")), event["at"]
        self._first.setdefault(key, at)
        self._last[key] = at
        if event["event"] == "acquired":
            self.acquired_seconds.append(event["seconds"])
        if event["event"] == "failed":
            self._failure = f"{event['name']}: {event['message']}"

    def forget(self, event: str, name: str) -> None:
        """What is said about this from now on is heard as new."""
        self._first.pop((event, name), None)
