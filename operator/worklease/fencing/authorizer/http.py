"""The authorizer over HTTP, for nginx's auth_request (/nginx) and Envoy's ext_authz (/check, also as path_prefix).

/check answers 200, or the refusal with its own status and a problem+json body. nginx passes on nothing but allowed
and forbidden, so /nginx answers 204 or 403, and Worklease-Status and Worklease-Detail say what the client shall see.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from worklease.errors import FencingError
from worklease.fencing.authorizer.checker import Checker
from worklease.fencing.http import CONTENT_TYPE, problem
from worklease.fencing.token import Token

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

NGINX: Final = "/nginx"
CHECK: Final = "/check"


def application(checker: Checker) -> Callable[[Scope, Any, Send], Awaitable[None]]:
    """The ASGI application."""

    async def app(scope: Scope, receive: Any, send: Send) -> None:
        path = scope["path"]
        if path == NGINX:
            await _answer(send, *await _for_nginx(checker, scope["headers"]))
        elif path == CHECK or path.startswith(CHECK + "/"):
            await _answer(send, *await _direct(checker, scope["headers"]))
        elif scope["method"] not in ("GET", "HEAD"):  # A probe's answer must not admit an effect.
            await _answer(send, 404, [], b"")
        elif path == "/healthz":
            await _answer(send, 200, [], b"")
        elif path == "/readyz":
            await _answer(send, *await _ready(checker))
        else:
            await _answer(send, 404, [], b"")

    return app


async def _direct(checker: Checker, headers: Headers) -> tuple[int, Headers, bytes]:
    try:
        await checker.check(Token.from_headers(headers))
    except FencingError as error:
        status, body = problem(error)
        return status, [(b"content-type", CONTENT_TYPE.encode()), (b"cache-control", b"no-store")], body
    return 200, [], b""


async def _for_nginx(checker: Checker, headers: Headers) -> tuple[int, Headers, bytes]:
    status, _, body = await _direct(checker, headers)
    if status == 200:
        return 204, [], b""
    document = json.loads(body)
    detail = str(document.get("detail", document["title"]))
    return (
        403,
        [(b"worklease-status", str(status).encode()), (b"worklease-detail", detail.encode("ascii", "replace"))],
        b"",
    )


async def _ready(checker: Checker) -> tuple[int, Headers, bytes]:
    try:
        await checker.ready()
    except FencingError:
        return 503, [], b""
    return 200, [], b""


async def _answer(send: Send, status: int, headers: Headers, body: bytes) -> None:
    if status != 204:
        headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
