"""Following objects: a server that ends every watch as soon as it is open is not asked without a pause."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from worklease.errors import ApiError, ConfigurationError, Unauthenticated
from worklease.kube import following
from worklease.kube.credentials import Credentials, Source
from worklease.kube.following import Follower
from worklease.kube.session import Session

OBJECT = {"metadata": {"namespace": "team", "name": "item", "resourceVersion": "7"}}
GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
ENDS: dict[str, list[dict[str, Any]]] = {"without a word": [], "because its version is too old": [GONE]}


class Enough(Exception):
    """The test has seen what it wanted."""


async def answering(events: list[dict[str, Any]]) -> web.AppRunner:
    """A server with one object, whose watches bring these events and end."""

    async def answer(request: web.Request) -> web.Response:
        if request.query.get("watch"):
            return web.Response(text="".join(json.dumps(event) + "\n" for event in events))
        if request.path.endswith("/item"):
            return web.json_response(OBJECT)
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": [OBJECT]})

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner


def changes_of(follower: Follower, kind: str) -> AsyncGenerator[Any, None]:
    """One object, or all of them."""
    return follower.follow("team", "item") if kind == "one object" else follower.follow_all("team")


@pytest.mark.parametrize("kind", ["one object", "all objects"])
@pytest.mark.parametrize("end", ENDS)
def test_watches_that_end_at_once_are_opened_again_after_pauses_that_grow(
    kind: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every waiter would ask such a server as fast as it can answer."""
    pauses: list[int] = []

    async def paused(failures: int, _: ApiError) -> None:
        pauses.append(failures)
        if len(pauses) == 3:
            raise Enough

    monkeypatch.setattr(following, "_pause", paused)

    async def story() -> None:
        runner = await answering(ENDS[end])
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
        credentials = Credentials(configuration, "team", Source())
        async with Session(credentials, user_agent="test") as session, Follower(session) as follower:
            try:
                async for _ in changes_of(follower, kind):
                    pass
            except Enough:
                pass
        await runner.cleanup()

    asyncio.run(story())
    assert pauses == [1, 2, 3]


def test_a_token_that_cannot_be_read_for_a_moment_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one who waits is not told that it is over: the file may be there again at the next attempt."""
    failures: list[ApiError] = []

    async def paused(_: int, error: ApiError) -> None:
        failures.append(error)
        raise Enough

    monkeypatch.setattr(following, "_pause", paused)

    async def story() -> None:
        runner = await answering([])
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
        credentials = Credentials(configuration, "team", Source())
        async with Session(credentials, user_agent="test") as session, Follower(session) as follower:
            changes = follower.follow("team", "item")
            await anext(changes)

            async def unreadable() -> str | None:
                raise ConfigurationError("the token cannot be read again")

            monkeypatch.setattr(credentials, "authorization", unreadable)
            with pytest.raises(Enough):
                await anext(changes)
        await runner.cleanup()

    asyncio.run(story())
    assert [type(error) for error in failures] == [Unauthenticated]
