"""Agents in tests: the SDK's own client beside a real server, over stdio or HTTP, under an identity's credentials."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

import httpx2
from mcp import Client, MCPDeprecationWarning, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

import mcpserver
from support.cluster import Cluster, Identity
from support.waiting import POLL_SECONDS

CALL_SECONDS = 120.0
MODES = ("legacy", "auto")
"""The handshake of the protocols up to 2025-11-25, and whatever is newest."""


@dataclass
class Agent:
    """One agent: what it calls, and what it is answered."""

    client: Client
    updated: asyncio.Queue[str]
    """The resources of which it was told that they have changed."""
    process_id: int = 0

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a call that must not be refused."""
        result = await self.client.call_tool(tool, arguments, read_timeout_seconds=CALL_SECONDS)
        assert not result.is_error, f"{tool}: {result.structured_content}"
        return cast("dict[str, Any]", result.structured_content)

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The refusal of a call that must be refused."""
        result = await self.client.call_tool(tool, arguments, read_timeout_seconds=CALL_SECONDS)
        assert result.is_error, f"{tool}: {result.structured_content}"
        assert result.structured_content is not None
        return cast("dict[str, Any]", result.structured_content["refusal"])

    async def until(self, tool: str, holds: Any, **arguments: Any) -> dict[str, Any]:
        """Calls until what is answered is as wanted."""
        async with asyncio.timeout(CALL_SECONDS):
            while True:
                if holds(answer := await self.call(tool, **arguments)):
                    return answer
                await asyncio.sleep(POLL_SECONDS)

    @contextlib.asynccontextmanager
    async def following(self, uri: str) -> AsyncIterator[None]:
        """Is told of changes of a resource, in the way of the protocol that it speaks."""
        if self.client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            with warnings.catch_warnings(action="ignore", category=MCPDeprecationWarning):
                await self.client.subscribe_resource(uri)
            yield
            return
        async with self.client.listen(resource_subscriptions=[uri]) as events:

            async def follow() -> None:
                async for event in events:
                    assert isinstance(event, ResourceUpdated)
                    self.updated.put_nowait(event.uri)

            following = asyncio.create_task(follow())
            try:
                yield
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)


@contextlib.asynccontextmanager
async def connected(transport: Any, mode: str) -> AsyncIterator[Agent]:
    """An agent over a transport of the SDK."""
    updated: asyncio.Queue[str] = asyncio.Queue()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification) and mode == "legacy":
            updated.put_nowait(message.params.uri)  # otherwise a stream of events brings it: see following()

    async with Client(transport, mode=mode, message_handler=heard) as client:
        yield Agent(client, updated)


@contextlib.asynccontextmanager
async def over_stdio(
    identity: Identity, *flags: str, mode: str = "auto", kubeconfig: Path | None = None
) -> AsyncIterator[Agent]:
    """An agent whose server is a process of its own."""
    path = str(kubeconfig or identity.kubeconfig)
    arguments = ["-m", "worklease.mcp", "--kubeconfig", path, *flags]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    with open(os.devnull, "w") as nowhere:  # noqa: ASYNC230 - the null device does not block
        async with connected(stdio_client(server, errlog=cast(TextIO, nowhere)), mode) as agent:
            agent.process_id = _child_of_ours(path)
            yield agent


def _child_of_ours(text: str) -> int:
    """The newest server among our children that was started with this kubeconfig."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                if "worklease.mcp" in command and text in command and int(parent) == os.getpid():
                    found.append(int(entry.name))
    return max(found)


@dataclass
class HttpServer:
    """A shared server, with no credentials of its own."""

    url: str
    process: subprocess.Popen[bytes]

    @contextlib.asynccontextmanager
    async def agent(self, token: str, mode: str = "auto") -> AsyncIterator[Agent]:
        """An agent that calls with this token."""
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=CALL_SECONDS) as http,
            connected(streamable_http_client(self.url, http_client=http), mode) as agent,
        ):
            yield agent


@contextlib.contextmanager
def over_http(cluster: Cluster, log: Path, *flags: str) -> Iterator[HttpServer]:
    """A shared server, whose output goes to `log`."""
    with (
        log.open("wb") as written,
        mcpserver.serving(cluster.server, str(cluster.ca_file), *flags, output=written) as (url, process),
    ):
        yield HttpServer(url, process)
