"""What both kinds of middleware share: the fence of one request, and refusals as problem details (RFC 9457).

The request's fence is meant to be called inside the transaction that has the effect. A mark moved at the door
instead, before the application runs, is check-then-act: a request that has passed may take effect after a newer one.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from worklease.errors import (
    EffectMismatch,
    FencingError,
    MalformedToken,
    MarkUnavailable,
    MissingToken,
    NoStanding,
    OtherLease,
    StaleEpoch,
)
from worklease.fencing.token import Token

FENCE_KEY: Final = "worklease.fence"
"""Where the request's fence is found: in the ASGI scope or the WSGI environ."""

WEBSOCKET: Final = "WEBSOCKET"
"""What `protected` is told as a websocket's method: its handshake is a GET, but effects come through it."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
CONTENT_TYPE: Final = "application/problem+json"
MAX_DETAIL: Final = 1024


class Problem(NamedTuple):
    """How a refusal is answered: `when` is for the documentation, `fields` are members beside the standard ones."""

    status: int
    name: str
    title: str
    when: str
    fields: tuple[str, ...] = ()


PROBLEMS: Final[dict[type[FencingError], Problem]] = {
    StaleEpoch: Problem(
        412,
        "stale-epoch",
        "The lease has passed to a later tenure",
        "a later epoch has been here",
        ("lease", "epoch", "highest"),
    ),
    NoStanding: Problem(
        412, "no-standing", "The epoch has no standing now", "the live check says no", ("lease", "epoch")
    ),
    MissingToken: Problem(
        428,
        "missing-token",
        "This request needs a fencing token",
        "headers missing on a protected request, or where the fence is called",
    ),
    MalformedToken: Problem(
        400, "malformed-token", "The fencing token is malformed", "malformed or repeated headers, on any request"
    ),
    OtherLease: Problem(
        403,
        "other-lease",
        "The fencing token is for other work",
        "the token is for other work than `lease=` says",
        ("lease",),
    ),
    EffectMismatch: Problem(
        422,
        "effect-mismatch",
        "The effect's id was used for a different request",
        "the effect's id was used for a different request",
    ),
    MarkUnavailable: Problem(
        503, "mark-unavailable", "The mark cannot be read or moved", "the mark cannot be read or moved"
    ),
}
REFUSED: Final = Problem(503, "refused", "The effect was refused", "a refusal of your own, any other `FencingError`")

Mark = Callable[[Any, Token], object]
Door = Callable[[Token], object]
Protected = Callable[[str, str], bool]


def unsafe_method(method: str, path: str) -> bool:
    """What needs a token unless told otherwise: every request that may have an effect by its method (RFC 9110)."""
    return method not in SAFE_METHODS


def problem(error: FencingError) -> tuple[int, bytes]:
    """The HTTP status and the problem+json body of a refusal."""
    kind = next((PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS), REFUSED)
    body: dict[str, Any] = {"type": _urn(kind), "title": kind.title, "status": kind.status}
    if kind.status != 503:  # What a store says of itself is for its owner's log, not for the sender.
        body["detail"] = str(error)[:MAX_DETAIL]
    body |= {field: getattr(error, field) for field in kind.fields}
    return kind.status, json.dumps(body).encode()


def _urn(kind: Problem) -> str:
    return f"urn:worklease:problem:{kind.name}"


def table() -> str:
    """The refusals as a table in Markdown."""
    rows = [
        f"| {kind.when} | {kind.status} | `{_urn(kind)}`"
        + (f", with {', '.join(f'`{field}`' for field in kind.fields)}" if kind.fields else "")
        + " |"
        for kind in (*PROBLEMS.values(), REFUSED)
    ]
    return "\n".join(["| | answer | `type` of the problem+json body |", "|---|---|---|", *rows])


def decided(answer: object, what: str) -> None:
    """Raises TypeError when a door or a mark has given something that has yet to decide, or a verdict to be read.

    Both refuse by raising a FencingError. An answer that would be dropped must not be what would have refused.
    """
    if inspect.isawaitable(answer) or inspect.isasyncgen(answer):
        if callable(close := getattr(answer, "close", None)):
            close()  # Or Python would warn that it was never awaited, which is what is said here.
        raise TypeError(f"{what} returned a coroutine: give a synchronous one")
    if answer is False or inspect.isgenerator(answer) or callable(answer):
        raise TypeError(f"{what} returned {type(answer).__name__} {answer!r:.80}: to refuse, raise a FencingError")


class RequestFence:
    """The fence of one request. It remembers that it refused, so that no framework can turn that into a success."""

    def __init__(self, headers: Iterable[tuple[str | bytes, str | bytes]], mark: Mark | None) -> None:
        self.refusal: FencingError | None = None
        self._mark = mark
        try:
            self.optional_token: Token | None = Token.from_headers(headers)
        except MissingToken as error:
            self.optional_token, self._missing = None, error

    @property
    def token(self) -> Token:
        """The request's token; MissingToken when it has none."""
        if self.optional_token is None:
            self.refusal = self._missing
            raise self._missing
        return self.optional_token

    def __call__(self, transaction: Any, lease: str | None = None) -> Token:
        """Checks and moves the mark in the effect's transaction, or raises; answers with the token.

        Name the `lease` that the effect belongs to wherever the application knows it: a sender that lost this
        work may well hold another.
        """
        if self._mark is None:
            raise TypeError("the middleware was made without `mark`, so this fence has nothing to call: give it one")
        try:
            token = self.token
            if lease is not None and token.lease != lease:
                raise OtherLease(token.lease, lease)
            decided(self._mark(transaction, token), "`mark`")
        except FencingError as error:
            self.refusal = error
            raise
        if isinstance(self.refusal, MarkUnavailable):  # As when a lock was waited for by trying again.
            self.refusal = None
        return token

    def overrules(self, status: int) -> FencingError | None:
        """The refusal that an application's answer hides. An answer that refuses in its own words stands."""
        return self.refusal if self.refusal is not None and not 400 <= status < 500 else None


def require_a_way(mark: Mark | None, door: Door | None) -> None:
    """A middleware that fences nothing is a mistake, found when the application starts."""
    if mark is None and door is None:
        raise TypeError(
            "give `mark`, for the application to call in its transaction, such as worklease.fencing.sql.fence; "
            "or `door`, to be called before the application"
        )
