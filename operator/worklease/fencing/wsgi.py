"""WSGI middleware: every protected request carries a token, and a refusal is a problem+json answer.

Flask: `app.wsgi_app = FenceMiddleware(app.wsgi_app, mark=sql.fence)`; Django: wrap `application` in wsgi.py. Views
take the request's fence from `request.environ["worklease.fence"]` and call it in their transaction.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any

from worklease.errors import FencingError
from worklease.fencing.http import (
    CONTENT_TYPE,
    FENCE_KEY,
    Door,
    Mark,
    Protected,
    RequestFence,
    decided,
    problem,
    require_a_way,
    unsafe_method,
)
from worklease.fencing.token import CLAIM_HEADER, EPOCH_HEADER, LEASE_HEADER

StartResponse = Callable[..., Callable[[bytes], object]]
App = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

_NAMES = [(name, "HTTP_" + name.upper().replace("-", "_")) for name in (LEASE_HEADER, EPOCH_HEADER, CLAIM_HEADER)]


class FenceMiddleware:
    """`mark(transaction, token)` is for the application; `door(token)` runs before it."""

    def __init__(
        self, app: App, mark: Mark | None = None, *, door: Door | None = None, protected: Protected = unsafe_method
    ) -> None:
        require_a_way(mark, door)
        self.app = app
        self.mark = mark
        self.door = door
        self.protected = protected

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """One request."""
        try:
            # A server joins a repeated header with commas, which no lease and no epoch can hold.
            fence = RequestFence([(name, environ[key]) for name, key in _NAMES if key in environ], self.mark)
            path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
            if self.protected(environ["REQUEST_METHOD"], path):
                token = fence.token
                if self.door is not None:
                    decided(self.door(token), "`door`")
        except FencingError as error:
            return _refuse(environ, start_response, error)
        return _Guarded(self.app, environ, start_response, fence).run()


class _Guarded:
    """One call of the application, whose answer is withheld until it is known not to hide a refusal."""

    def __init__(self, app: App, environ: dict[str, Any], start_response: StartResponse, fence: RequestFence) -> None:
        self._app = app
        self._environ = {**environ, FENCE_KEY: fence}
        self._start_response = start_response
        self._fence = fence
        self._started = False
        self._replacement: Iterable[bytes] | None = None

    def run(self) -> Iterable[bytes]:
        try:
            body = self._app(self._environ, self._start)
        except FencingError as error:
            return self._refuse_or_raise(error)
        if self._replacement is not None:
            _close(body)
            return self._replacement
        return body if self._started else self._later(body)

    def _start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
        if hidden := self._fence.overrules(int(status[:3])):
            self._replacement = _refuse(self._environ, self._start_response, hidden)
            return lambda data: None
        self._started = True
        return self._start_response(status, headers, exc_info) if exc_info else self._start_response(status, headers)

    def _later(self, body: Iterable[bytes]) -> Iterator[bytes]:
        """The body of an application that starts its answer only when it is read."""
        try:
            for chunk in body:
                if self._replacement is not None:
                    break
                yield chunk
        except FencingError as error:
            self._replacement = self._refuse_or_raise(error)
        finally:
            _close(body)
        if self._replacement is not None:
            yield from self._replacement

    def _refuse_or_raise(self, error: FencingError) -> Iterable[bytes]:
        if self._started:
            raise error
        return _refuse(self._environ, self._start_response, error)


def _refuse(environ: dict[str, Any], start_response: StartResponse, error: FencingError) -> Iterable[bytes]:
    status, body = problem(error)
    headers = [("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
    exc_info = sys.exc_info()
    start_response(f"{status} {HTTPStatus(status).phrase}", headers, *([exc_info] if exc_info[0] else []))
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def _close(body: Iterable[bytes]) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        close()
