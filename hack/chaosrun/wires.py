"""The network between each party and the API server: a proxy of its own, which ends TLS with the server's certificate.

Since it reads HTTP it can lose the answer to a write that has happened, answer for the server, and slow a watch down.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from .faults import Network

HOP_BY_HOP = {"transfer-encoding", "connection", "content-length", "content-encoding", "host"}
STARTED_WITHIN_SECONDS = 10.0
DELAY_SECONDS = 1.4
"""Longer than a renewal takes, shorter than the 1.7 s that a request of a lease of 10 s may take."""
SLOW_WATCH_SECONDS = 2.0


class Wire:
    """One party's way to the API server; `faults` are the kinds that it suffers from now."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self.faults: set[Network] = set()
        self.late_seconds = DELAY_SECONDS
        self.hold: Callable[[str, str], float] = lambda method, path: 0.0
        """Given method and path: how many seconds a request is held back before the server gets it."""
        self._open: set[asyncio.Transport] = set()
        self._healed: dict[Network, asyncio.Event] = {}

    async def begin(self, fault: Network) -> None:
        """From now on it suffers from this."""
        self.faults.add(fault)
        self._healed[fault] = asyncio.Event()
        if fault is Network.CUT:
            for transport in tuple(self._open):
                transport.abort()

    async def end(self, fault: Network) -> None:
        """It does no longer. What hung is cut: no server answers after so long."""
        self.faults.discard(fault)
        self._healed.pop(fault, asyncio.Event()).set()

    async def handle(self, server: str, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        """Hands one request on, or does not."""
        transport = request.transport
        assert transport is not None
        self._open.add(transport)
        try:
            return await self._handle(server, session, request, transport)
        except (aiohttp.ClientError, ConnectionError):
            transport.abort()
            return web.Response(status=502)
        finally:
            self._open.discard(transport)

    async def _handle(
        self, server: str, session: aiohttp.ClientSession, request: web.Request, transport: asyncio.Transport
    ) -> web.StreamResponse:
        if Network.CUT in self.faults:
            transport.abort()
            return web.Response(status=502)
        if await self._hung():
            transport.abort()
        for fault, status in ((Network.TOO_MANY, 429), (Network.BROKEN, 500)):
            if fault in self.faults:
                return _refusal(status)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        body = await request.read()
        await asyncio.sleep(self.hold(request.method, request.path))
        async with session.request(
            request.method, server + request.path_qs, headers=headers, data=body or None, timeout=None
        ) as answer:
            given = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            if request.query.get("watch") == "true" and answer.status == 200:
                return await self._stream(request, transport, answer, given)
            content = await answer.read()
            if Network.DELAY in self.faults:
                await asyncio.sleep(self.late_seconds)
            if Network.DROP in self.faults and request.method != "GET":
                transport.abort()
            await self._hung()
            return web.Response(status=answer.status, headers=given, body=content)

    async def _stream(
        self,
        request: web.Request,
        transport: asyncio.Transport,
        answer: aiohttp.ClientResponse,
        given: dict[str, str],
    ) -> web.StreamResponse:
        stream = web.StreamResponse(status=200, headers=given)
        await stream.prepare(request)
        with contextlib.suppress(ConnectionError):
            async for line in answer.content:
                if Network.SLOW_WATCH in self.faults:
                    await asyncio.sleep(SLOW_WATCH_SECONDS)
                if await self._hung():
                    transport.abort()
                await stream.write(line)
        return stream

    async def _hung(self) -> bool:
        """Waits while nothing is answered; whether it had to."""
        if Network.HANG not in self.faults:
            return False
        await self._healed[Network.HANG].wait()
        return True


def _refusal(status: int) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": "injected by a fault"}
    return web.json_response(body, status=status, headers={"Retry-After": "1"} if status == 429 else {})


class Wires:
    """All of them, in a thread. Use it with `with`."""

    def __init__(self, server: str, certificate: Path, key: Path, ca_file: Path) -> None:
        self._server = server
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ours.load_cert_chain(certificate, key)
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession | None = None
        self._runners: list[web.AppRunner] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)

    def __enter__(self) -> Wires:
        self._thread.start()
        self._call(self._open())
        return self

    def __exit__(self, *exc: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STARTED_WITHIN_SECONDS)
        self._loop.close()

    def add(self, name: str) -> Wire:
        """A new wire, which works."""
        wire = Wire(name)
        self._call(self._serve(wire))
        return wire

    def begin(self, wire: Wire, fault: Network) -> None:
        self._call(wire.begin(fault))

    def end(self, wire: Wire, fault: Network) -> None:
        self._call(wire.end(fault))

    def _call(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(STARTED_WITHIN_SECONDS)

    async def _open(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, read_bufsize=2**21, auto_decompress=True)

    async def _close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()
        if self._session:
            await self._session.close()

    async def _serve(self, wire: Wire) -> None:
        application = web.Application(client_max_size=2**24)
        session = self._session
        assert session

        async def handle(request: web.Request) -> web.StreamResponse:
            return await wire.handle(self._server, session, request)

        application.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(
            application, access_log=None, handle_signals=False, shutdown_timeout=0.1, handler_cancellation=True
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._ours).start()
        wire.port = runner.addresses[0][1]
        self._runners.append(runner)
