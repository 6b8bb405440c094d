"""Systems that receive effects, in a process of their own, and how an agent reaches them.

`ledger` has a fence: a mark in SQLite, moved in the transaction of the effect. `vault` asks the API server as well,
right before. `mailbox` has none, and shows what a fence is for.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Mapping
from typing import Any

from worklease.errors import ApiError, FencingError, MarkUnavailable
from worklease.fencing import live, sqlite
from worklease.fencing.token import Token
from worklease.kube.credentials import Source
from worklease.kube.session import Session
from worklease.kube.swap import read

from .history import Recorder
from .party import Orders

RECIPIENTS = {"ledger": "mark", "vault": "mark and live", "mailbox": "none"}
"""Each with its fence."""
WITHIN_SECONDS = 5.0


async def deliver(socket: str, recipient: str, lease: str, epoch: int, effect: str) -> bool:
    """Sends an effect; whether the recipient admitted it. Raises OSError when nothing is known."""
    async with asyncio.timeout(WITHIN_SECONDS):
        reader, writer = await asyncio.open_unix_connection(socket)
        try:
            sent = {"recipient": recipient, "lease": lease, "epoch": epoch, "effect": effect}
            writer.write(json.dumps(sent).encode() + b"\n")
            return (await reader.readline()).strip() == b"admitted"
        finally:
            writer.close()


class Recipients:
    """All three: one effect at a time, so that the order in the history is the order in the database."""

    def __init__(self, orders: Orders, recorder: Recorder, session: Session) -> None:
        self._recorder = recorder
        self._session = session
        self._fenced = orders.without != "fence"
        self._database = sqlite3.connect(orders.directory / f"recipients-{orders.company}.sqlite", isolation_level=None)
        sqlite.install(self._database)
        self._database.execute("CREATE TABLE IF NOT EXISTS effect (recipient TEXT, lease TEXT, epoch INTEGER, id TEXT)")

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = json.loads(await reader.readline())
        recipient, lease, epoch = sent["recipient"], sent["lease"], sent["epoch"]
        outcome = "admitted"
        asked_at: float | None = None
        try:
            if "live" in RECIPIENTS[recipient] and self._fenced:
                asked_at = self._recorder.write("asked", effect=sent["effect"])
                await self._verify(lease, epoch)
            self._store(recipient, Token(f"{recipient}/{lease}", epoch), sent["effect"])
        except FencingError as refusal:
            outcome = type(refusal).__name__
        self._recorder.write("delivery", **sent, fence=RECIPIENTS[recipient], outcome=outcome, asked_at=asked_at)
        writer.write(b"admitted\n" if outcome == "admitted" else b"refused\n")
        writer.close()

    def _store(self, recipient: str, token: Token, effect: str) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            if "mark" in RECIPIENTS[recipient] and self._fenced:
                sqlite.fence(self._database, token)
            row = (recipient, token.lease, token.epoch, effect)
            self._database.execute("INSERT INTO effect VALUES (?, ?, ?, ?)", row)
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    async def _verify(self, lease: str, epoch: int) -> None:
        namespace, _, name = lease.partition("/")
        try:
            work: Mapping[str, Any] = await read(self._session, namespace, name)
        except ApiError as error:
            raise MarkUnavailable(f"the API server could not be asked: {type(error).__name__}") from error
        live.standing(work, lease, epoch)


async def serve(orders: Orders) -> None:
    """For ever."""
    recorder = Recorder(orders.directory, orders.party)
    async with await Session.open(Source(orders.kubeconfig), user_agent="worklease-chaos") as session:
        server = await asyncio.start_unix_server(Recipients(orders, recorder, session).receive, orders.socket)
        async with server:
            await server.serve_forever()


def main() -> None:
    """Is the recipients of the orders on the command line, until it is killed."""
    asyncio.run(serve(Orders.read(sys.argv[1])))


if __name__ == "__main__":
    main()
