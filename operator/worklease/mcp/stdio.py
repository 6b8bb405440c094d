"""One agent over stdin and stdout, by the credentials that the client finds. The session is the process."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from typing import Any, cast

from mcp.server.stdio import stdio_server

from worklease.client.client import Client
from worklease.kube.credentials import Source
from worklease.mcp.agent import Agent, Terms
from worklease.mcp.server import server_of

LINE_MAX_BYTES = 2**22


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
    lines = cast("Any", await _lines())
    async with stdio_server(stdin=lines) as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


async def _lines() -> AsyncGenerator[str, None]:
    """Lines of stdin without a thread, which nothing could interrupt; a line that is too long ends the session."""
    reader = asyncio.StreamReader(limit=LINE_MAX_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def lines() -> AsyncGenerator[str, None]:
        while line := await reader.readline():
            yield line.decode(errors="replace")

    return lines()
