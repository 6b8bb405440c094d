"""The end of a run: an administrator takes every item from whoever has it, holds it, and gives it back.

That this works with every fault healed is what `the operator and administrators can always act` means.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Any

from worklease.client.speech import stating
from worklease.errors import ApiError, NotFound
from worklease.kube.credentials import Source
from worklease.kube.session import JSON_PATCH, Session
from worklease.kube.swap import path_of, read

from .history import Recorder
from .party import Orders, record_session

WITHIN_SECONDS = 40.0
POLL_SECONDS = 0.2
INSTANCE = "host:settler/1"
HELD = ("Held", "Jeopardy")


async def settle(orders: Orders, recorder: Recorder) -> dict[str, str]:
    """What could not be settled in time, with what it was waiting for."""
    async with await Session.open(Source(orders.kubeconfig), user_agent="worklease-chaos") as session:
        record_session(session, recorder)
        found = await asyncio.gather(*(_Item(session, orders, name).settle() for name in orders.items))
    return {f"{orders.namespace}/{name}": why for name, why in zip(orders.items, found, strict=True) if why}


class _Item:
    def __init__(self, session: Session, orders: Orders, name: str) -> None:
        self._session = session
        self._orders = orders
        self._name = name
        self._waits_for = ""

    async def settle(self) -> str:
        try:
            async with asyncio.timeout(WITHIN_SECONDS):
                await self._taken()
        except (TimeoutError, ApiError) as error:
            return f"{self._waits_for}: {type(error).__name__} {error}"[:500]
        return ""

    async def _taken(self) -> None:
        with contextlib.suppress(NotFound):
            work = await self._until("no claim to be pending", lambda work: not _pending(work))
            if work["spec"].get("suspend"):
                await self._say(suspend=False)
            epoch, claim_id = work["status"]["epoch"], secrets.token_hex(8)
            claim = {"epoch": epoch, "id": claim_id, "purpose": "settles", "instance": INSTANCE}
            said: dict[str, Any] = {"claim": {**claim, "holderIdentity": self._orders.username}}
            if work["status"]["phase"] in (*HELD, "Completed") or work["status"].get("successor"):
                said["revocation"] = {"epoch": epoch, "reason": "the run is over"}
            self._waits_for = f"{work['status']['phase']} to be taken over at epoch {epoch}"
            await self._say(**said)
            work = await self._until("its own grant", lambda work: work["status"].get("claimID") == claim_id)
            await self._say(release={"epoch": work["status"]["epoch"], "reason": "settled"})
            await self._until("the release", lambda work: work["status"]["phase"] == "Released")

    async def _until(self, what: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        self._waits_for = what
        while True:
            work = await read(self._session, self._orders.namespace, self._name)
            if reached(work):
                return work
            await asyncio.sleep(POLL_SECONDS)

    async def _say(self, **said: Any) -> None:
        path = path_of(self._orders.namespace, self._name)
        await self._session.request("PATCH", path, stating(**said), content_type=JSON_PATCH)


def _pending(work: dict[str, Any]) -> bool:
    claim, status = work["spec"].get("claim"), work["status"]
    return claim is not None and claim["epoch"] == status["epoch"] and claim["id"] != status.get("observedClaimID")
