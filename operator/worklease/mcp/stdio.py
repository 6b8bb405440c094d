"""One agent over stdin and stdout, by the credentials that the client finds. The session is the process."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import CancelledError
from typing import Any, cast

from mcp.server.stdio import stdio_server

from worklease.client.client import Client
from worklease.kube.credentials import Source
from worklease.mcp.agent import Agent, Terms
from worklease.mcp.server import server_of

LINE_MAX_BYTES = 2**22
CHUNK_BYTES = 2**16
CHUNKS_MAX = 16


async def serve(source: Source, instance: str | None, terms: Terms, *, operator: bool) -> None:
    """Until the end of stdin, SIGTERM or SIGINT: then every lease is ended as the terms say."""
    async with await Client.open(source, instance=instance) as client, Agent(client, terms) as agent:

        async def agent_of(_: Any) -> Agent:
            return agent

        server = server_of(agent_of, operator=operator)
        serving = asyncio.create_task(_serve(server))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        await asyncio.wait([serving])
        if not serving.cancelled():
            serving.result()


async def _serve(server: Any) -> None:
    lines = cast("Any", _lines())
    async with stdio_server(stdin=lines) as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


async def _lines() -> AsyncGenerator[str, None]:
    """The lines of stdin; one that is too long ends the session.

    They are read in a thread that nobody waits for: a read cannot be interrupted, and a stdin that does not block would
    make a stdout of the same socket or terminal not block either.
    """
    chunks: asyncio.Queue[bytes] = asyncio.Queue(CHUNKS_MAX)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read, args=(chunks, loop), name="stdin", daemon=True).start()
    rest = bytearray()
    while (chunk := await chunks.get()) and len(rest) <= LINE_MAX_BYTES:
        *complete, last = chunk.split(b"\n")
        for part in complete:
            yield (bytes(rest) + part).decode(errors="replace")
            rest.clear()
        rest += last


def _read(chunks: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Reads until the end, which is an empty chunk; without Python's buffer, whose lock would outlive the thread."""
    chunk = b"-"
    while chunk:
        try:
            chunk = os.read(0, CHUNK_BYTES)
        except OSError:
            chunk = b""
        putting = chunks.put(chunk)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        except (RuntimeError, CancelledError):  # the loop has ended
            putting.close()
            return
