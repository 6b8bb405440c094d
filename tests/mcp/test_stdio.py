"""What a server over stdio is spared nothing of: lines that are no messages, and agents that stop reading."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.cluster import Cluster, Identity
from support.holding import until
from support.speaking import Work

pytestmark = pytest.mark.usefixtures("operator")
WITHIN_SECONDS = 60.0
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
NO_MESSAGES = (b"no json", b"\xff\xfe\x00", b"[]", b"{}", b"", b"[" * 100000, b'{"jsonrpc": "2.0", "id": "\\ud800"}')


class Raw:
    """A server whose messages a test writes itself."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._id = 0

    def send(self, method: str, **params: Any) -> int:
        """A request; its id."""
        assert self.process.stdin
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        return self._id

    def call(self, tool: str, **arguments: Any) -> int:
        """A call of a tool; its id."""
        return self.send("tools/call", name=tool, arguments=arguments)

    async def answer(self, to: int) -> dict[str, Any]:
        """The answer to a request."""
        assert self.process.stdout
        async with asyncio.timeout(WITHIN_SECONDS):
            while True:
                answer: dict[str, Any] = json.loads(await self.process.stdout.readline())
                if answer.get("id") == to:
                    return answer

    async def ended(self) -> tuple[int, str]:
        """Waits for its end: the exit status, and what it wrote to stderr."""
        assert self.process.stderr
        async with asyncio.timeout(WITHIN_SECONDS):
            return await self.process.wait(), (await self.process.stderr.read()).decode()


@contextlib.asynccontextmanager
async def raw(identity: Identity) -> AsyncIterator[Raw]:
    """A server that has been initialized."""
    arguments = ("-m", "worklease.mcp", "--kubeconfig", str(identity.kubeconfig))
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        server = Raw(process)
        await server.answer(server.send("initialize", **INITIALIZE))
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def test_lines_that_are_no_messages_end_nothing(namespace: str, agent: Identity) -> None:
    """Whatever they are, what comes after them is answered."""

    async def main() -> None:
        async with raw(agent) as server:
            assert server.process.stdin
            held = await server.answer(server.call("claim", work=f"{namespace}/w", purpose="p", create=True))
            assert not held["result"].get("isError")
            for line in NO_MESSAGES:
                server.process.stdin.write(line + b"\n")
            for arguments in ([1, 2], "x", 7):
                answer = await server.answer(server.send("tools/call", name="renew", arguments=arguments))
                assert answer["error"]["code"] == -32602
            huge = await server.answer(server.call("renew", work="w" * 2**20))
            assert huge["result"]["structuredContent"]["refusal"]["reason"] == "WrongArguments"
            assert len(json.dumps(huge)) < 4096
            many = await server.answer(server.call("renew", **{f"k{number}": "v" for number in range(20000)}))
            assert len(many["result"]["structuredContent"]["refusal"]["problems"]) <= 8
            assert "result" in await server.answer(server.call("renew", work=f"{namespace}/w"))

    asyncio.run(main())


def test_a_line_without_an_end_ends_the_session(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """At 4 MiB: the work is given back."""

    async def main() -> tuple[int, str]:
        async with raw(agent) as server:
            assert server.process.stdin
            await server.answer(server.call("claim", work=f"{namespace}/w", purpose="p", create=True))
            server.process.stdin.write(b"x" * (2**22 + 2**17))
            return await server.ended()

    assert asyncio.run(main()) == (0, "")
    assert Work(cluster, namespace, "w").reaches("Released")


def test_an_agent_that_closes_its_end_has_ended_its_session(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """The answer that nobody takes is no failure of the server: it gives the work back, without a traceback."""

    async def main() -> tuple[int, str]:
        async with raw(agent) as server:
            await server.answer(server.call("claim", work=f"{namespace}/w", purpose="p", create=True))
            server.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
            server.call("renew", work=f"{namespace}/w")
            return await server.ended()

    assert asyncio.run(main()) == (0, "")
    assert Work(cluster, namespace, "w").reaches("Released")


def test_a_server_whose_agent_reads_nothing_ends_when_it_is_told_to(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """Its answers fill the pipe, and it renews all the same; on SIGTERM it gives the work back (case 9)."""
    work = Work(cluster, namespace, "w")

    async def main() -> tuple[int, str]:
        async with raw(agent) as server:
            assert server.process.stdin
            asked = {"work": f"{namespace}/w", "purpose": "p", "create": True, "lease_seconds": 10}
            await server.answer(server.call("claim", **asked))
            server.process._transport.get_pipe_transport(1).pause_reading()  # type: ignore[attr-defined]
            before = work.read()["spec"].get("renewal")
            for _ in range(1000):
                server.call("status", work=f"{namespace}/w")
            await until(lambda: work.read()["spec"].get("renewal") != before, "a renewal")
            server.process.terminate()
            await asyncio.to_thread(work.reaches, "Released")
            server.process._transport.get_pipe_transport(1).resume_reading()  # type: ignore[attr-defined]
            return await server.ended()

    status, told = asyncio.run(main())
    assert (status, "Traceback" in told) == (0, False)
