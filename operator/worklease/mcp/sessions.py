"""Whose sessions there are over HTTP, and how many: a user that opens more than its share keeps nobody else out."""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp.server.auth.provider import AccessToken
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION_HEADER = "mcp-session-id"
BODY_BYTES_MAX = 2**20

Owner = tuple[str, str | None, str]
"""Who calls: the username, the pod if the token is bound to one, and what stands for the groups. One session's requests
may come with different tokens, as they are renewed, but never with one that may do something else."""


def owner_of(token: AccessToken) -> Owner:
    """Whose token this is."""
    return token.client_id, token.subject, (token.claims or {}).get("iss", "")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one server takes on."""

    sessions_max: int = 200
    sessions_per_user_max: int = 20
    idle_seconds: float = 1800.0


@dataclass(slots=True)
class _Open:
    """A session that the SDK has opened, until it is deleted or idle for too long."""

    username: str
    requests: int
    used_at: float


class Sessions:
    """Before the SDK opens a session, its user must have room for one; a session that is deleted ends its agent."""

    def __init__(self, app: ASGIApp, bounds: Bounds, leave: Callable[[AccessToken, str], Awaitable[None]]) -> None:
        self._app = app
        self._bounds = bounds
        self._leave = leave
        self._open: dict[str, _Open] = {}
        self._opening: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        user: AccessToken = request.user.access_token
        session_id = request.headers.get(SESSION_HEADER)
        if session_id is None and scope["method"] == "POST":
            await self._perhaps_opening(user.client_id, scope, receive, send)
            return
        known = self._open.get(session_id or "")
        ends = known is not None and scope["method"] == "DELETE" and known.username == user.client_id
        try:
            if session_id is not None and ends:
                del self._open[session_id]  # before the answer: its owner may open the next one upon it
            if known is not None:
                known.requests += 1
            await self._app(scope, receive, send)
        finally:
            if known is not None:
                known.requests -= 1
                known.used_at = time.monotonic()
        if session_id is not None and scope["method"] == "DELETE":
            await self._leave(user, session_id)

    async def _perhaps_opening(self, username: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        if body is None:
            await PlainTextResponse("a request is at most 1 MiB", status_code=413)(scope, receive, send)
            return
        opening = _opens(body)
        if opening and self._count(username) >= self._bounds.sessions_per_user_max:
            refusal = PlainTextResponse("this user has as many sessions as it may have: end one", status_code=429)
            await refusal(scope, receive, send)
            return
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                for name, value in message.get("headers", ()):
                    if name.lower() == SESSION_HEADER.encode():
                        self._open[value.decode()] = _Open(username, 0, time.monotonic())
            await send(message)

        if opening:
            self._opening.append(username)
        try:
            await self._app(scope, again, noting)
        finally:
            if opening:
                self._opening.remove(username)

    def _count(self, username: str) -> int:
        """How many sessions of this user are open, or about to be."""
        idle_since = time.monotonic() - self._bounds.idle_seconds
        for session_id, known in tuple(self._open.items()):
            if not known.requests and known.used_at < idle_since:
                del self._open[session_id]
        return self._opening.count(username) + sum(1 for known in self._open.values() if known.username == username)


async def _body(receive: Receive) -> bytes | None:
    """The whole of it; None when it is too long."""
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            return None
        if not message.get("more_body", False):
            return body


def _opens(body: bytes) -> bool:
    """Whether this asks for a session."""
    try:
        asked = json.loads(body)
    except ValueError:
        return False
    return any(isinstance(one, dict) and one.get("method") == "initialize" for one in _list(asked))


def _list(asked: object) -> list[object]:
    return asked if isinstance(asked, list) else [asked]
