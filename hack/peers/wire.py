"""A way to a server that can fall silent: connections stay, new ones are taken, and nothing comes through."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

CHUNK_BYTES = 2**16


class Wire:
    """Use it with `async with`; `port` is where to connect instead of the server."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._server_port = port
        self._passing = asyncio.Event()
        self._passing.set()
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._taken, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def fall_silent(self) -> None:
        """From now on nothing is passed on, in either direction, and no connection is closed."""
        self._passing.clear()

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Cancelled, it ends as if it had run out: asyncio would print a traceback for each connection.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            upstream_reader, upstream_writer = await asyncio.open_connection(self._host, self._server_port)
            try:
                async with asyncio.TaskGroup() as pumps:
                    pumps.create_task(self._pump(reader, upstream_writer))
                    pumps.create_task(self._pump(upstream_reader, writer))
            finally:
                upstream_writer.close()
                writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while content := await reader.read(CHUNK_BYTES):
                await self._passing.wait()
                writer.write(content)
                await writer.drain()
            await self._passing.wait()
            writer.close()
