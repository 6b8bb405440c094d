"""What a system that receives effects uses to refuse standing that has expired; imports nothing of the rest.

Importing it needs the standard library only. The marks live in modules of their own: sqlite, sql (SQLAlchemy),
redis; so do the HTTP middleware (asgi, wsgi), idempotency and the authorizer.
"""

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
from worklease.fencing.live import standing, verify
from worklease.fencing.token import MAX_EPOCH, Token

__all__ = [
    "MAX_EPOCH",
    "EffectMismatch",
    "FencingError",
    "MalformedToken",
    "MarkUnavailable",
    "MissingToken",
    "NoStanding",
    "OtherLease",
    "StaleEpoch",
    "Token",
    "standing",
    "verify",
]
