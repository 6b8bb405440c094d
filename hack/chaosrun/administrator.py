"""A scripted administrator: revokes, takes over, suspends, reopens, deletes what is done, gives work to somebody."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import sys
from typing import Any

from worklease.client.speech import stating
from worklease.errors import ApiError, ConfigurationError, NotFound
from worklease.kube.credentials import Source
from worklease.kube.session import JSON_PATCH, Session
from worklease.kube.swap import path_of, read

from .history import Recorder
from .party import Orders, record_calls

INSTANCE = "host:administrator/1"
PAUSE_SECONDS = (1.0, 4.0)
TIMEOUT_SECONDS = 3.0
HELD_SECONDS = 2.0
GIVEN_BACK = 0.8
DOES = {
    "suspended": {"resume": 1},
    "Completed": {"delete": 40, "revoke": 60},
    "held": {"revoke": 25, "take over": 30, "give": 15, "nothing": 30},
    "free": {"suspend": 20, "nothing": 80},
}
"""What it does about an item, by its state, and how often."""


class Administrator:
    """One with the role worklease-admin."""

    def __init__(self, orders: Orders, session: Session) -> None:
        self._orders = orders
        self._session = session
        self._chance = random.Random(orders.seed)

    async def run(self) -> None:
        """For ever: does something about one item after another."""
        while True:
            await asyncio.sleep(self._chance.uniform(*PAUSE_SECONDS))
            with contextlib.suppress(ApiError):
                await self.act(self._chance.choice(self._orders.items))

    async def act(self, name: str) -> None:
        """What suits the phase of the item, or the next thing at random."""
        try:
            work = await read(self._session, self._orders.namespace, name)
        except NotFound:
            return
        epoch, status = work["status"]["epoch"], work["status"]
        held = status["phase"] in ("Held", "Jeopardy") or "successor" in status
        state = "suspended" if work["spec"].get("suspend") else "held" if held else status["phase"]
        does = DOES.get(state, DOES["free"])
        match self._chance.choices(list(does), list(does.values()))[0]:
            case "resume":
                await self._say(name, suspend=False)
            case "suspend":
                await self._say(name, suspend=True)
            case "revoke":
                await self._say(name, revocation=_revocation(epoch, "wrong amount"))
            case "take over":
                await self._take_over(name, epoch)
            case "give":
                await self._give(name)
            case "delete":
                await self._delete(name)

    async def _take_over(self, name: str, epoch: int) -> None:
        claim = {
            "epoch": epoch,
            "id": secrets.token_hex(8),
            "holderIdentity": self._orders.username,
            "instance": INSTANCE,
            "purpose": "takes over",
        }
        await self._say(name, revocation=_revocation(epoch, "takeover"), claim=claim)
        await asyncio.sleep(HELD_SECONDS)
        work = await read(self._session, self._orders.namespace, name)
        if work["status"].get("claimID") == claim["id"] and self._chance.random() < GIVEN_BACK:
            await self._say(name, release={"epoch": work["status"]["epoch"], "reason": "taken over, and given back"})

    async def _give(self, name: str) -> None:
        spec = {
            "workLeaseName": name,
            "to": {"holderIdentity": self._chance.choice(self._orders.agents)},
            "subject": "by order",
            "acceptWithinSeconds": 6,
            "claimWithinSeconds": 6,
        }
        metadata = {"name": f"order-{secrets.token_hex(4)}", "namespace": self._orders.namespace}
        body = {"apiVersion": "worklease.dev/v1alpha1", "kind": "Handoff", "metadata": metadata, "spec": spec}
        path = path_of(self._orders.namespace, plural="handoffs")
        await self._session.request("POST", path, body, timeout_seconds=TIMEOUT_SECONDS)

    async def _delete(self, name: str) -> None:
        path = path_of(self._orders.namespace, name)
        await self._session.request("DELETE", path, timeout_seconds=TIMEOUT_SECONDS)

    async def _say(self, name: str, **said: Any) -> None:
        path = path_of(self._orders.namespace, name)
        await self._session.request(
            "PATCH", path, stating(**said), content_type=JSON_PATCH, timeout_seconds=TIMEOUT_SECONDS
        )


def _revocation(epoch: int, reason: str) -> dict[str, Any]:
    return {"epoch": epoch, "reason": reason}


async def run(orders: Orders) -> None:
    """Opens the way to the API server, again when that fails."""
    while True:
        try:
            async with await Session.open(Source(orders.kubeconfig), user_agent="worklease-chaos") as session:
                await Administrator(orders, session).run()
        except (ApiError, ConfigurationError):
            await asyncio.sleep(0.5)


def main() -> None:
    """Is the administrator of the orders on the command line, until it is killed."""
    orders = Orders.read(sys.argv[1])
    record_calls(Recorder(orders.directory, orders.party))
    asyncio.run(run(orders))


if __name__ == "__main__":
    main()
