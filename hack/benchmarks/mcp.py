"""What a tool call adds to the client's own call: checkpoints of one holder, in turns, directly and through tools.

Calls that the server answers by itself, in the same turns, say how much of that is the way there and back: the SDK on
both sides, two processes and their connection.
"""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
from mcp import Client as McpClient
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

import mcpserver
from worklease import Client, Source

from .figures import Table, milliseconds, percentile
from .world import World

CALLS = 200
WARM_UP_CALLS = 20
ASKS_NOBODY = "one that asks nobody"

Call = Callable[[str], Awaitable[object]]


async def called(world: World, source: Source) -> None:
    """A statement is one request of the client; a tool call is that, and the way to the server and back."""
    table = Table("a checkpoint: p50 / p99 in ms, in turns")
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(await Client.open(source))
        lease = await stack.enter_async_context(client.hold("direct", purpose="bench", namespace=world.namespace))
        ways: dict[str, Call] = {"the client itself": lambda digest: lease.checkpoint("bench://1", digest)}
        arguments = ["-m", "worklease.mcp", "--kubeconfig", str(source.kubeconfig), "--context", str(source.context)]
        stdio = stdio_client(StdioServerParameters(command=sys.executable, args=arguments))
        agents = {"stdio": await stack.enter_async_context(_agent(world, stdio, "stdio"))}
        credentials = client.session.credentials
        authority = credentials._configuration.ssl_ca_cert
        url, _ = stack.enter_context(mcpserver.serving(credentials.server, authority))
        token = await client.session.credentials.authorization() or ""
        http = await stack.enter_async_context(httpx2.AsyncClient(headers={"Authorization": token}))
        shared = streamable_http_client(url, http_client=http)
        agents["HTTP"] = await stack.enter_async_context(_agent(world, shared, "http"))
        for over, agent in agents.items():
            ways[f"a tool over {over}"] = _calling(agent, f"{world.namespace}/{over.lower()}")
            ways[f"{ASKS_NOBODY}, over {over}"] = _refused(agent)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for index in range(WARM_UP_CALLS + CALLS):
            for way, call in ways.items():
                started = time.perf_counter()
                await call(secrets.token_hex(8))
                if index >= WARM_UP_CALLS:
                    seconds[way].append(time.perf_counter() - started)
    own = percentile(seconds["the client itself"], 50)
    for way, taken in seconds.items():
        added = percentile(taken, 50) - own
        told = added and not way.startswith(ASKS_NOBODY)
        table.row(way, milliseconds(taken, 50, 99), f"adds {added * 1e3:.1f} ms" if told else "")


def _calling(agent: McpClient, work: str) -> Call:
    async def call(digest: str) -> None:
        result = await agent.call_tool("checkpoint", {"work": work, "uri": "bench://1", "digest": digest})
        assert not result.is_error, result.structured_content

    return call


def _refused(agent: McpClient) -> Call:
    """A call about work that the session does not hold: the server knows that without asking."""

    async def call(digest: str) -> None:
        result = await agent.call_tool("checkpoint", {"work": "not-held", "uri": "bench://1", "digest": digest})
        assert result.is_error

    return call


@contextlib.asynccontextmanager
async def _agent(world: World, transport: object, name: str) -> AsyncIterator[McpClient]:
    """An agent that holds a work item of its own, in the benchmark's namespace."""
    async with McpClient(transport) as agent:  # type: ignore[arg-type]
        asked = {"work": f"{world.namespace}/{name}", "purpose": "bench", "create": True}
        result = await agent.call_tool("claim", asked)
        assert not result.is_error, result.structured_content
        yield agent
