"""A proxy before the API server that can be told to go wrong, as networks and servers do."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from support.cluster import Cluster

HOP_BY_HOP = {"transfer-encoding", "connection", "content-length", "content-encoding", "host"}
STARTED_WITHIN_SECONDS = 10.0


class Proxy:
    """Hands requests on, in clear text towards who asks. What it does to answers can be set from any thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._server = cluster.server
        self._tls = ssl.create_default_context(cafile=str(cluster.ca_file))
        self._tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._streams: dict[web.StreamResponse, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self.refuse: Callable[[str, bool], int] = lambda path, watching: 0
        """Given the path and whether it is a watch: a status to answer instead of asking the server; 0 for none."""
        self.refusal_headers: dict[str, str] = {}
        """The headers of such an answer."""
        self.instead: Callable[[str], dict[str, Any] | None] = lambda path: None
        """Given the path: what to answer, with 200, instead of asking the server; None for nothing."""
        self.swallow: Callable[[dict[str, Any]], bool] = lambda event: False
        """Given an event of a watch: whether it is not handed on."""
        self.reword: Callable[[str, bytes], bytes] = lambda path, body: body
        """Given the path of a request that is no watch, and the answer's body: what is answered instead."""
        self.ahead_seconds: Callable[[str], float] = lambda path: 0.0
        """Given the path: how far ahead the Date of the answer is."""
        self._frozen: set[web.StreamResponse] = set()
        self.port = 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="proxy", daemon=True)
        self._thread.start()
        assert self._ready.wait(STARTED_WITHIN_SECONDS), "the proxy did not start"

    def kubeconfig(self, directory: Path, token: str) -> Path:
        """A kubeconfig that leads here."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        path = directory / "kubeconfig-proxy"
        path.write_text(json.dumps(content))
        return path

    def watches(self) -> int:
        """How many watches are open."""
        return len(self._streams)

    def freeze(self) -> None:
        """Keeps the watches that are open silent from now on."""
        self._frozen |= self._streams.keys()

    def inject(self, data: bytes, kind: str = "") -> None:
        """Writes these bytes into every open watch, or into those of one kind."""
        self._call(self._inject, data, kind, False)

    def cut(self, data: bytes = b"") -> None:
        """Ends every open watch abruptly, after these bytes."""
        self._call(self._inject, data, "", True)

    def stop(self) -> None:
        """Ends it."""
        assert self._loop
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STARTED_WITHIN_SECONDS)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> None:
        assert self._loop
        asyncio.run_coroutine_threadsafe(function(*arguments), self._loop).result(STARTED_WITHIN_SECONDS)

    async def _inject(self, data: bytes, kind: str, ending: bool) -> None:
        for stream, path in list(self._streams.items()):
            if not path.endswith(kind):
                continue
            if data:
                await stream.write(data)
            transport = stream._req.transport if stream._req is not None else None
            if ending and transport is not None:
                transport.close()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0), read_bufsize=2**21
        ) as session:
            application = web.Application(client_max_size=2**24)

            async def handle(request: web.Request) -> web.StreamResponse:
                return await self._handle(session, request)

            application.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(
                application, access_log=None, handle_signals=False, shutdown_timeout=0.1, handler_cancellation=True
            )
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _handle(self, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        watching = request.query.get("watch") == "true"
        if status := self.refuse(request.path, watching):
            refusal = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": "broken"}
            return web.json_response(refusal, status=status, headers=self.refusal_headers)
        if (said := self.instead(request.path)) is not None:
            return web.json_response(said)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        body = await request.read()
        async with session.request(
            request.method, self._server + request.path_qs, headers=headers, data=body or None, timeout=None
        ) as answer:
            given = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            if ahead_seconds := self.ahead_seconds(request.path):
                given["Date"] = formatdate(time.time() + ahead_seconds, usegmt=True)
            if not (watching and answer.status == 200):
                body = self.reword(request.path, await answer.read())
                return web.Response(status=answer.status, headers=given, body=body)
            stream = web.StreamResponse(status=200, headers=given)
            await stream.prepare(request)
            self._streams[stream] = request.path
            try:
                async for line in answer.content:
                    if stream in self._frozen:
                        await asyncio.Event().wait()
                    if not self.swallow(json.loads(line)):
                        await stream.write(line)
            except ConnectionError:
                pass  # it was cut
            finally:
                self._streams.pop(stream, None)
                self._frozen.discard(stream)
            return stream
