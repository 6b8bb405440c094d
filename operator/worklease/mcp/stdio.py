"""One agent over stdin and stdout, by the credentials that the client finds. The session is the process."""

import asyncio
import logging
import os
import signal
from typing import Any, cast

from mcp.server.stdio import stdio_server

from worklease.client.client import Client
from worklease.kube.credentials import Source
from worklease.mcp.agent import Agent, Terms
from worklease.mcp.pipes import Pipes
from worklease.mcp.server import server_of

logger = logging.getLogger(__name__)


async def serve(source: Source, instance: str | None, terms: Terms, *, operator: bool) -> None:
    """Until the end of stdin, SIGTERM or SIGINT, or until nobody reads the answers: then every lease is ended as the
    terms say.
    """
    async with await Client.open(source, instance=instance) as client, Agent(client, terms) as agent:

        async def agent_of(_: Any) -> Agent:
            return agent

        server = server_of(agent_of, operator=operator)
        serving = asyncio.create_task(_serve(server))
        loop = asyncio.get_running_loop()
        told = asyncio.Event()

        def end() -> None:
            told.set()
            serving.cancel()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        await asyncio.wait([serving])
        if told.is_set() and not serving.cancelled():  # a conversation that is cut off may end in any error
            logger.info("the conversation was cut off: %r", serving.exception())
        elif not serving.cancelled():
            serving.result()


async def _serve(server: Any) -> None:
    sent = os.dup(1)
    os.dup2(2, 1)  # what is printed by mistake does not come between the messages
    pipes = cast("Any", Pipes(0, sent))
    async with stdio_server(stdin=pipes, stdout=pipes) as (received, answered):
        await server.run(received, answered, server.create_initialization_options())
