"""Directed scenes, one for each negative control: what happens is such that what it breaks would show.

Played with nothing broken, each must leave a history without a violation; with its control, one that is caught.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from worklease.client.speech import stating
from worklease.errors import NotFound, Refused
from worklease.kube.credentials import Source
from worklease.kube.session import JSON_PATCH, Session
from worklease.kube.swap import path_of, read

from . import history
from .faults import Network
from .history import Recorder
from .party import record_session
from .recipients import deliver
from .setting import ADMINISTRATOR, Company

ITEM = "item-0"
WITHIN_SECONDS = 40.0
POLL_SECONDS = 0.02
SLOW_LEASE_SECONDS, LATE_SECONDS = 16, 2.0
"""How late answers come: a request of a lease of 16 s may take 2.7 s."""
ON_ITS_WAY_SECONDS = 3.0
GRANTED_AND_RENEWED = 2
"""Beliefs in one epoch: one from the grant, one from the first renewal whose answer was late."""
State = dict[str, Any]


class Scene:
    """A company with one item, and people who speak to it by hand. Use it with `async with`."""

    def __init__(self, company: Company) -> None:
        self.company = company
        self._sessions: dict[str, Session] = {}

    async def __aenter__(self) -> Scene:
        setting = self.company.setting
        for user in (*setting.agents[:2], ADMINISTRATOR):
            session = await Session.open(Source(str(setting.credentials(user))), user_agent="worklease-chaos")
            party = f"{user}#{self.company.name}.0"
            recorder = Recorder(setting.directory, party)
            recorder.write("instance", instance=f"host:{user}/1")
            record_session(session, recorder)
            self._sessions[user] = session
        return self

    async def __aexit__(self, *exc: object) -> None:
        for session in self._sessions.values():
            await session.close()

    @property
    def holder(self) -> str:
        """Who holds first."""
        return self.company.setting.agents[0]

    @property
    def rival(self) -> str:
        """Who wants the work too."""
        return self.company.setting.agents[1]

    async def create(self, lease_seconds: int = 10, jeopardy_seconds: int = 2) -> None:
        """The item, which nobody has claimed."""
        spec = {"work": {"type": "chaos", "id": ITEM}, "leaseDurationSeconds": lease_seconds}
        body = {
            "apiVersion": "worklease.dev/v1alpha1",
            "kind": "WorkLease",
            "metadata": {"name": ITEM, "namespace": self.company.namespace},
            "spec": {**spec, "jeopardyDurationSeconds": jeopardy_seconds},
        }
        path = path_of(self.company.namespace)
        await self._sessions[ADMINISTRATOR].request("POST", path, body)

    async def say(self, user: str, **said: Any) -> None:
        """Says these statements in one write."""
        await self.patch(user, stating(**said))

    async def patch(self, user: str, patch: list[dict[str, Any]]) -> None:
        path = path_of(self.company.namespace, ITEM)
        await self._sessions[user].request("PATCH", path, patch, content_type=JSON_PATCH)

    async def until(self, reached: Callable[[State], bool]) -> State:
        """The item, once this is so. Raises TimeoutError."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while True:
                try:
                    work = await read(self._sessions[ADMINISTRATOR], self.company.namespace, ITEM)
                except NotFound:
                    work = {}
                if work and reached(work):
                    return work
                await asyncio.sleep(POLL_SECONDS)

    def claim(self, user: str, epoch: int) -> State:
        """A fresh claim of a user for itself."""
        made = {"epoch": epoch, "id": secrets.token_hex(8), "purpose": "to play a scene"}
        return {**made, "holderIdentity": user, "instance": f"host:{user}/1"}

    async def held(self, user: str) -> int:
        """The user claims and is granted; returns the epoch."""
        work = await self.until(lambda work: True)
        claim = self.claim(user, work["status"]["epoch"])
        await self.say(user, claim=claim)
        return await self.granted(claim)

    async def granted(self, claim: State) -> int:
        """The epoch of the claim, once it is granted."""
        work = await self.until(lambda work: work["status"].get("claimID") == claim["id"])
        return int(work["status"]["epoch"])

    async def take_over(self, epoch: int) -> State:
        """The administrator revokes and claims in one write; returns the claim."""
        claim = self.claim(ADMINISTRATOR, epoch)
        await self.say(ADMINISTRATOR, revocation={"epoch": epoch, "reason": "a scene"}, claim=claim)
        return claim

    async def deliver(self, epoch: int) -> bool:
        """An effect reaches the recipient with a fence."""
        orders = self.company.orders("", ADMINISTRATOR)
        return await deliver(orders.socket, "ledger", self.company.key(ITEM), epoch, f"late-{secrets.token_hex(4)}")


async def fence(scene: Scene) -> None:
    """After a takeover and the new holder's effect, one of the old holder arrives late."""
    await scene.create()
    epoch = await scene.held(scene.holder)
    later = await scene.granted(await scene.take_over(epoch))
    await scene.deliver(later)
    await scene.deliver(epoch)


async def swap(scene: Scene) -> None:
    """While the grant of a re-claim is on its way, the work is taken over."""
    await scene.create()
    epoch = await scene.held(scene.holder)
    on_its_way = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(method: str, path: str) -> float:
        if method != "PUT" or on_its_way.is_set():
            return 0.0
        loop.call_soon_threadsafe(on_its_way.set)
        return ON_ITS_WAY_SECONDS

    scene.company.members["operator-0"].wire.hold = hold
    again = scene.claim(scene.holder, epoch)
    await scene.say(scene.holder, claim=again)
    async with asyncio.timeout(WITHIN_SECONDS):
        await on_its_way.wait()
    taken = await scene.take_over(epoch)
    await scene.until(lambda work: work["status"].get("claimID") in (again["id"], taken["id"]))


async def epochs(scene: Scene) -> None:
    """The work is taken over."""
    await scene.create()
    epoch = await scene.held(scene.holder)
    await scene.granted(await scene.take_over(epoch))


async def clock(scene: Scene) -> None:
    """The holder's clock is an hour behind; it renews all the same."""
    await scene.create()
    epoch = await scene.held(scene.holder)
    behind = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await scene.say(scene.holder, renewal={"epoch": epoch, "renewTime": behind})
    # An honest operator lets it lapse, and expire, after its whole time.
    await scene.until(lambda work: work["status"]["phase"] in ("Jeopardy", "Expired"))


async def rule(scene: Scene) -> None:
    """The tenure is revoked, the operator has not seen it yet, and the holder logs one more effect."""
    await scene.create()
    epoch = await scene.held(scene.holder)
    operator = scene.company.members["operator-0"].process
    assert operator
    operator.send(signal.SIGSTOP)
    try:
        await scene.say(ADMINISTRATOR, revocation={"epoch": epoch, "reason": "a scene"})
        effect = {"id": "one-more", "epoch": epoch, "recipient": "ledger", "action": "charge", "state": "Attempted"}
        try:
            await scene.patch(scene.holder, [{"op": "add", "path": "/spec/effects/-", "value": effect}])
        except Refused:
            return
    finally:
        operator.send(signal.SIGCONT)


async def sending(scene: Scene) -> None:
    """The answers to a holder's renewals come late, then it is cut off; a rival claims as soon as it may."""
    await scene.create(SLOW_LEASE_SECONDS, jeopardy_seconds=0)
    keeper = scene.company.members[scene.holder]
    party = f"{keeper.name}#{scene.company.name}.1"
    file = scene.company.setting.directory / f"history-{party}.jsonl"

    def believed() -> int:
        epochs = [record["epoch"] for record in history.read(file) if record["kind"] == "belief"]
        return epochs.count(epochs[-1]) if epochs else 0

    await scene.until(lambda work: work["status"]["phase"] == "Held")
    wires = scene.company.setting.wires
    keeper.wire.late_seconds = LATE_SECONDS
    wires.begin(keeper.wire, Network.DELAY)
    await scene.until(lambda work: believed() >= GRANTED_AND_RENEWED)
    wires.begin(keeper.wire, Network.CUT)
    await scene.until(lambda work: work["status"]["phase"] == "Expired")
    await scene.held(scene.rival)
    wires.end(keeper.wire, Network.CUT)
    wires.end(keeper.wire, Network.DELAY)


SCENES: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "fence": fence,
    "swap": swap,
    "epochs": epochs,
    "clock": clock,
    "rule": rule,
    "sending": sending,
}
"""By the control that they are for."""
