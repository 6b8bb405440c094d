"""The effect's id with its answer, in the effect's own transaction: who sends it again gets the first answer.

The fence decides who may have an effect now; this decides whether it has happened already. A successor that finds
an effect recorded as Attempted sends it again under the same id and its own, higher, epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    MetaData,
    String,
    Table,
    Text,
    func,
    select,
    text,
    update,
)

from worklease.errors import EffectMismatch, MalformedToken, MarkUnavailable
from worklease.fencing.sql import fence
from worklease.fencing.token import MAX_CLAIM, MAX_LEASE, Token

MAX_RESULT: Final = 65536

metadata = MetaData()
effect = Table(
    "worklease_effect",
    metadata,
    Column("lease", String(MAX_LEASE), primary_key=True),
    Column("id", String(MAX_CLAIM), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("request_digest", String(64), nullable=False),
    Column("result", Text),
    Column("recorded_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

_BEGIN = text(
    "INSERT INTO worklease_effect (lease, id, epoch, request_digest) VALUES (:lease, :id, :epoch, :request_digest) "
    "ON CONFLICT (lease, id) DO NOTHING"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the effect gave, and whether it happened in an earlier transaction."""

    result: str
    replayed: bool


def install(connection: Connection) -> None:
    """Creates the table of the effects unless it is there. Delete old rows by `recorded_at` when they may go."""
    metadata.create_all(connection)


def once(connection: Connection, token: Token, effect_id: str, request: bytes, perform: Callable[[], str]) -> Answer:
    """Fences, then gives the first answer to this id, or performs the effect now and keeps its answer.

    `request` is what was asked for: the same id with another request is EffectMismatch. Two that come at once wait
    for each other. `perform` works in this transaction; what it raises rolls back with it, and the id stays free.
    """
    if not 1 <= len(effect_id) <= MAX_CLAIM or not all("!" <= character <= "~" for character in effect_id):
        raise MalformedToken(f"an effect's id is 1 to {MAX_CLAIM} visible ASCII characters")
    fence(connection, token)
    digest = hashlib.sha256(request).hexdigest()
    key = (effect.c.lease == token.lease) & (effect.c.id == effect_id)
    values = {"lease": token.lease, "id": effect_id, "epoch": token.epoch, "request_digest": digest}
    begun = connection.execute(_BEGIN, values).rowcount
    if begun not in (0, 1):
        raise MarkUnavailable("this driver does not tell whether the effect is new, so it is refused")
    if begun == 0:
        first = connection.execute(select(effect.c.request_digest, effect.c.result).where(key)).one()
        if first.request_digest != digest:
            raise EffectMismatch(
                f"effect {effect_id} of {token.lease} was a different request before; a new effect needs a new id"
            )
        if first.result is None:
            raise MarkUnavailable(
                f"effect {effect_id} of {token.lease} was begun and has no answer, since a transaction was committed "
                "although `perform` had failed: find out whether it happened, then delete its row or give it its result"
            )
        return Answer(first.result, replayed=True)
    result = perform()
    if len(result) > MAX_RESULT:
        raise ValueError(
            f"the answer to be kept is longer than {MAX_RESULT} characters; keep a reference to it instead"
        )
    connection.execute(update(effect).where(key).values(result=result))
    return Answer(result, replayed=False)
