"""The mark in Redis: one script checks the epoch, moves the mark and runs the effect's commands, as one step.

A mark is exactly as durable as the effects beside it: a failover that loses the last writes loses both. It must
not be evicted: keep it in an instance without eviction, or with a volatile-* policy (marks have no expiry).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any, Final

from redis import Redis
from redis.exceptions import ReadOnlyError, ResponseError

from worklease.errors import MarkUnavailable, StaleEpoch
from worklease.fencing.token import Token

SCRIPT: Final = resources.files("worklease.fencing").joinpath("redis.lua").read_text(encoding="utf-8")
MAX_COMMANDS: Final = 64
MAX_WORDS: Final = 1024

Word = str | bytes | int


class Fence:
    """Runs effects in one Redis database under the marks kept there."""

    def __init__(self, client: Redis, prefix: str = "worklease:mark:") -> None:
        self._script = client.register_script(SCRIPT)
        if inspect.iscoroutinefunction(type(self._script).__call__):
            raise TypeError("this client is asynchronous: give a synchronous one, and call `run` in a thread")
        self._prefix = prefix

    def mark_key(self, lease: str) -> str:
        """The key of a lease's mark. In a cluster give the effect's keys the same hash tag, {LEASE}."""
        return f"{self._prefix}{{{lease}}}"

    def run(self, token: Token, commands: Iterable[Sequence[Word]], keys: Sequence[str] = ()) -> list[Any]:
        """Runs the commands, such as ("INCRBY", "balance", 5), unless a later epoch has been here: StaleEpoch.

        `keys` names what the commands touch, which Redis Cluster needs to know. Gives the replies. Redis does not
        undo: of commands of which one fails (ResponseError) the earlier ones have happened. Without commands this
        only moves the mark, and an effect somewhere else is then not protected against what comes in between.
        """
        words: list[Word] = []
        for number, command in enumerate(commands):
            if number >= MAX_COMMANDS or not 1 <= len(command) <= MAX_WORDS:
                raise ValueError(f"an effect has at most {MAX_COMMANDS} commands of 1 to {MAX_WORDS} words")
            words += [len(command), *command]
        try:
            replies: list[Any] = self._script(keys=[self.mark_key(token.lease), *keys], args=[str(token.epoch), *words])
        except ReadOnlyError as error:  # Every write is refused there, so that none has happened.
            raise MarkUnavailable("this Redis is a replica, so the effect is refused: ask its primary") from error
        except ResponseError as error:
            code, _, highest = str(error).partition(" ")
            if code == "STALEEPOCH" and highest.isdecimal():
                raise StaleEpoch(token.lease, token.epoch, int(highest)) from error
            if code == "BADEPOCH":
                raise MarkUnavailable(f"{self.mark_key(token.lease)} does not hold a mark: {error}") from error
            raise
        if not isinstance(replies, list):
            raise TypeError("this client queues commands, so nothing was checked: give the client, not a pipeline")
        return replies
