"""Many agents over streamable HTTP: a session belongs to the user (and the pod) that opened it, and ends by itself.

Since MCP 2026-07-28 requests have no session of their own: then all requests of one user, or of one pod, are one agent.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from worklease.client.client import Client
from worklease.client.identity import Identity, process_instance
from worklease.errors import ApiError, WorkleaseError
from worklease.mcp.agent import Agent, Terms
from worklease.mcp.callers import ApiServer, CallerCredentials, Callers, session_of
from worklease.mcp.refusals import TooMany
from worklease.mcp.server import Context, server_of
from worklease.mcp.sessions import SESSION_HEADER, Bounds, Owner, Sessions, owner_of

logger = logging.getLogger(__name__)

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Key = tuple[Owner, str]
"""Whose session, and the session's id if it has one."""


class Seat:
    """The place of one agent among the sessions."""

    def __init__(self) -> None:
        self.agent: asyncio.Future[tuple[Agent, CallerCredentials]] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None
        self.left = asyncio.Event()


class Agents:
    """Every session's agent. Use it with `async with`: its end ends them all."""

    def __init__(self, server: ApiServer, instance: str | None, terms: Terms, bounds: Bounds) -> None:
        self._server = server
        self._instance = instance or process_instance()
        self._terms = terms
        self._bounds = bounds
        self._seats: dict[Key, Seat] = {}

    async def of(self, context: Context) -> Agent:
        """The agent of a request; its token is the one that the agent speaks with from now on."""
        request = context.request
        assert request is not None
        token: AccessToken = request.user.access_token
        key = owner_of(token), request.headers.get(SESSION_HEADER) or ""
        seat = self._seats.get(key)
        if seat is None:
            if len(self._seats) >= self._bounds.sessions_max:
                raise TooMany("sessions", "this server has as many sessions as it takes on: come back later")
            if sum(1 for owner, _ in self._seats if owner[0] == token.client_id) >= self._bounds.sessions_per_user_max:
                raise TooMany("sessions", "this user has as many sessions as it may have: end one")
            seat = self._seats[key] = Seat()
            seat.task = asyncio.create_task(self._sit(key, seat, token))
        agent, credentials = await asyncio.shield(seat.agent)
        credentials.token = token.token
        return agent

    async def leave(self, user: AccessToken, session_id: str) -> None:
        """The session has been ended by its owner."""
        if seat := self._seats.get((owner_of(user), session_id)):
            seat.left.set()
            if seat.task is not None:
                await asyncio.wait([seat.task])

    async def __aenter__(self) -> "Agents":
        return self

    async def __aexit__(self, *exc: object) -> None:
        seats = tuple(self._seats.values())
        for seat in seats:
            seat.left.set()
        await asyncio.gather(*(seat.task for seat in seats if seat.task), return_exceptions=True)

    async def _sit(self, key: Key, seat: Seat, token: AccessToken) -> None:
        try:
            session, credentials = session_of(self._server, token.token, token.client_id)
            identity = Identity(token.client_id, token.subject or self._instance)
            async with Client(session, identity) as client, Agent(client, self._terms) as agent:
                seat.agent.set_result((agent, credentials))
                await self._until_left(seat, agent)
                self._seats.pop(key, None)
        except WorkleaseError as error:
            logger.warning("a session of %s: %s", token.client_id, error)
            if not seat.agent.done():
                seat.agent.set_exception(error)
        finally:
            if not seat.agent.done():
                seat.agent.set_exception(ApiError("the session could not be opened"))
            if self._seats.get(key) is seat:
                del self._seats[key]

    async def _until_left(self, seat: Seat, agent: Agent) -> None:
        """Until its owner ends it, or nothing has been called for too long."""
        loop, idle = asyncio.get_running_loop(), self._bounds.idle_seconds
        while (rest := agent.called_at + idle - loop.time()) > 0 or agent.calls:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest if rest > 0 else idle):
                    await seat.left.wait()
                    return


def application(
    server: ApiServer, instance: str | None, terms: Terms, bounds: Bounds, *, host: str, operator: bool
) -> Starlette:
    """The ASGI application: without a token that the API server knows, 401 and nothing else."""
    agents = Agents(server, instance, terms, bounds)
    manager = StreamableHTTPSessionManager(
        app=server_of(agents.of, operator=operator),
        session_idle_timeout=bounds.idle_seconds,
        max_sessions=bounds.sessions_max,
        security_settings=_rebinding(host),
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with agents, manager.run():
            yield

    endpoint = RequireAuthMiddleware(Sessions(StreamableHTTPASGIApp(manager), bounds, agents.leave), [])
    return Starlette(
        routes=[Route("/healthz", _healthy), Route(PATH, endpoint)],
        middleware=[Middleware(AuthenticationMiddleware, backend=Callers(server), on_error=_unknown)],
        lifespan=lifespan,
    )


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok")


def _unknown(_: HTTPConnection, error: Any) -> Response:
    return PlainTextResponse(str(error), status_code=503, headers={"Retry-After": "5"})


def _rebinding(host: str) -> TransportSecuritySettings | None:
    """On loopback a web page could be made to call: only loopback's own names are served."""
    if host not in LOOPBACK:
        return None
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=["127.0.0.1:*", "localhost:*", "[::1]:*"],
        allowed_origins=["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"],
    )
