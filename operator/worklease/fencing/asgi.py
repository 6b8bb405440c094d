"""ASGI middleware: every protected request carries a token, and a refusal is a problem+json answer.

FastAPI and Starlette: `app.add_middleware(FenceMiddleware, mark=sql.fence)`. Handlers take the request's fence from
`request.scope["worklease.fence"]` and call it in their transaction.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from worklease.errors import FencingError
from worklease.fencing.http import (
    CONTENT_TYPE,
    FENCE_KEY,
    WEBSOCKET,
    Door,
    Mark,
    Protected,
    RequestFence,
    decided,
    problem,
    require_a_way,
    unsafe_method,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

POLICY_VIOLATION = 1008


class FenceMiddleware:
    """`mark(transaction, token)` is for the application; `door(token)`, sync or async, runs before it."""

    def __init__(
        self, app: App, mark: Mark | None = None, *, door: Door | None = None, protected: Protected = unsafe_method
    ) -> None:
        require_a_way(mark, door)
        self.app = app
        self.mark = mark
        self.door = door
        self.protected = protected

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """One request, or one websocket."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        try:
            fence = RequestFence(scope["headers"], self.mark)
            method = WEBSOCKET if scope["type"] == "websocket" else scope["method"]
            if self.protected(method, scope["path"]):
                await self._admit(fence)
        except FencingError as error:
            await _refuse(scope, receive, send, error)
            return

        started = replaced = False

        async def guarded(message: Message) -> None:
            nonlocal started, replaced
            if message["type"] == "http.response.start" and (hidden := fence.overrules(message["status"])):
                started = replaced = True
                await _refuse(scope, receive, send, hidden)
            elif not replaced:
                started = started or message["type"] in ("http.response.start", "websocket.accept")
                await send(message)

        try:
            await self.app({**scope, FENCE_KEY: fence}, receive, guarded)
        except FencingError as error:
            if started:
                raise
            await _refuse(scope, receive, send, error)

    async def _admit(self, fence: RequestFence) -> None:
        token = fence.token
        if self.door is None:
            return
        if inspect.iscoroutinefunction(self.door):
            answer = await self.door(token)
        else:
            answer = await asyncio.to_thread(self.door, token)
            if inspect.isawaitable(answer):  # Such as what a lambda around an asynchronous door gives.
                answer = await answer
        decided(answer, "`door`")


async def _refuse(scope: MutableMapping[str, Any], receive: Receive, send: Send, error: FencingError) -> None:
    status, body = problem(error)
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": type(error).__name__})
        return
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
