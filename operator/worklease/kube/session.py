"""The one door to the API server: requests with a deadline each, answers as JSON, failures with one meaning each."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import aiohttp

from worklease.errors import (
    ApiError,
    ConfigurationError,
    Conflict,
    Forbidden,
    NotFound,
    Refused,
    Unanswered,
    Unauthenticated,
    Unavailable,
)
from worklease.kube.clock import ServerClock
from worklease.kube.credentials import Credentials, Source

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 10.0
READ_BUFFER_BYTES = 2**21
CONNECTIONS_MAX = 64


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer."""

    status: int
    body: dict[str, Any]


class Session:
    """One authenticated connection pool. Open it with `async with await Session.open(...)`.

    By aiohttp alone: the generated client of `kubernetes.aio`, with raw bodies too, costs 1.8 times the processor time.
    """

    def __init__(self, credentials: Credentials, *, user_agent: str) -> None:
        self.credentials = credentials
        self.server_clock = ServerClock()
        self._user_agent = user_agent
        self.answered_at: float | None = None
        """time.monotonic() of the last answer that showed that the store behind the server works."""
        self._http = self.connections()

    @classmethod
    async def open(cls, source: Source | None = None, *, user_agent: str) -> Self:
        """Raises ConfigurationError when no credentials can be loaded."""
        return cls(await Credentials.load(source), user_agent=user_agent)

    def connections(
        self, response_class: type[aiohttp.ClientResponse] = aiohttp.ClientResponse, *, limit: int = CONNECTIONS_MAX
    ) -> aiohttp.ClientSession:
        """Another pool of at most `limit` connections (0: any number) under the same credentials, for the caller to
        close.
        """
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self.credentials.ssl_context(), limit=limit, keepalive_timeout=60),
            headers={"User-Agent": self._user_agent, "Accept": JSON},
            middlewares=(self._authorize,),
            proxy=self.credentials.proxy,
            read_bufsize=READ_BUFFER_BYTES,
            response_class=response_class,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.close()

    async def _authorize(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        value = await self.credentials.authorization()
        if value is not None:
            request.headers["Authorization"] = value
        sent_at = time.monotonic()
        response = await handler(request)
        self.server_clock.hear(response.headers.get("Date"), sent_at)
        if response.status == 401 and value is not None:
            await self.credentials.renew(value)
            renewed = await self.credentials.authorization()
            if renewed is not None and renewed != value:
                response.close()
                request.headers["Authorization"] = renewed
                response = await handler(request)
        return response

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> Answer:
        """Send one request and read its whole answer.

        Raises Unanswered, Unavailable, Unauthenticated, NotFound, Conflict or Refused: all of them ApiError.
        """
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._http.request(
                    method,
                    self.credentials.server + path,
                    data=data,
                    headers={"Content-Type": content_type} if data is not None else None,
                    server_hostname=self.credentials.tls_server_name,
                    allow_redirects=False,
                ) as response,
            ):
                raw = await response.read()
                status, retry_after = response.status, response.headers.get("Retry-After", "")
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            # What was cancelled is a task that opens the connection, on which another request of ours waits too.
            raise Unanswered(f"{method} {path}: the connection was given up") from None
        except ConfigurationError as error:
            raise Unauthenticated(f"{method} {path}: {error}") from error
        except TimeoutError as error:
            raise Unanswered(f"{method} {path}: no answer within {timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unanswered(f"{method} {path}: {type(error).__name__}: {error}") from error
        answer = _parsed(raw)
        if status < 300 or status == 409:  # other refusals may be given without asking the store
            self.answered_at = time.monotonic()
        if status < 300:
            return Answer(status, answer)
        raise failure(status, f"{method} {path}", answer, retry_after)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(raw)
    except ValueError:
        return {"message": raw[:500].decode(errors="replace")}
    return parsed if isinstance(parsed, dict) else {"message": str(parsed)[:500]}


_MEANINGS: dict[int, Callable[..., ApiError]] = {401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Conflict}


def failure(status: int, what: str, answer: dict[str, Any], retry_after: str = "") -> ApiError:
    """The one meaning of an answer that is not a success."""
    message = str(answer.get("message") or f"{what}: answered {status}")
    reason = str(answer.get("reason") or "")
    if status == 429 or status >= 500:
        seconds = float(retry_after) if retry_after.isdigit() else 0.0
        return Unavailable(message, status=status, reason=reason, retry_after_seconds=seconds)
    return _MEANINGS.get(status, Refused)(message, status=status, reason=reason)
