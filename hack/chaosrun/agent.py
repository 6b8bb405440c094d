"""An agent: a process that holds work with the real client, causes effects, hands over, fails and forgets.

After a tenure it sometimes goes on as a zombie would: it says things about the epoch that has passed, and sends an
effect with its token.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import sys
from typing import Any

from worklease.client.client import Client
from worklease.client.handoffs import Offer
from worklease.client.lease import Lease
from worklease.client.speech import stating
from worklease.errors import ApiError, ConfigurationError, EffectFailed, LeaseError
from worklease.kube.credentials import Source
from worklease.kube.session import JSON_PATCH
from worklease.kube.swap import path_of

from .beliefs import Clocks, record_beliefs, renew_by_wall_clock
from .controls import break_agent
from .history import Recorder
from .party import Orders, record_calls, record_watches
from .recipients import RECIPIENTS, deliver

LEASE_SECONDS = 10
JEOPARDY_SECONDS = (0, 2)
LOOPS = 2
ENDINGS = {
    "give back": 25,
    "complete": 12,
    "hand over": 33,
    "fail": 5,
    "fall silent": 15,
    "fail in an effect": 10,
}
"""How often a block ends in which way."""
ANSWERS = {"accept": 50, "accept and forget": 30, "reject": 20}
"""How often an offer is answered in which way."""
HAUNTED = 0.6
"""After how many of its tenures it goes on as a zombie."""
WITHDRAWN = 0.15
AGAIN_SECONDS = 0.5
INBOX_SECONDS = 1.0
FAILURES = (LeaseError, ApiError, ConfigurationError, OSError)


class Agent:
    """One process. What it does next is drawn from its seed; what comes of it is up to everybody else."""

    def __init__(self, orders: Orders, recorder: Recorder, clocks: Clocks) -> None:
        self.orders = orders
        self.recorder = recorder
        self.clocks = clocks
        self.chance = random.Random(orders.seed)

    async def run(self) -> None:
        """For ever: with a new client whenever one could not be opened or has failed."""
        while True:
            try:
                source = Source(self.orders.kubeconfig)
                async with await Client.open(source, clock=self.clocks) as client, asyncio.TaskGroup() as group:
                    self.recorder.write("instance", instance=client.identity.instance)
                    for _ in range(LOOPS):
                        group.create_task(self._hold_for_ever(client))
                    group.create_task(self._answer_for_ever(client))
            except FAILURES:
                await asyncio.sleep(AGAIN_SECONDS)

    async def keep(self) -> None:
        """Holds the first item and does nothing else; again when it was lost."""
        while True:
            with contextlib.suppress(*FAILURES):
                async with (
                    await Client.open(Source(self.orders.kubeconfig), clock=self.clocks) as client,
                    client.hold(
                        self.orders.items[0],
                        namespace=self.orders.namespace,
                        purpose="keeps it",
                        create=False,
                        wait=True,
                    ),
                ):
                    await asyncio.Event().wait()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _hold_for_ever(self, client: Client) -> None:
        while True:
            await self._hold(client, self.chance.choice(self.orders.items))
            await asyncio.sleep(self.chance.uniform(0.1, 1.0))

    async def _hold(self, client: Client, name: str) -> None:
        held: list[Lease] = []
        try:
            async with client.hold(
                name,
                namespace=self.orders.namespace,
                purpose=f"{self.orders.party} works",
                work_type="chaos",
                wait=self.chance.choice((None, 5.0, 20.0)),
                lease_seconds=LEASE_SECONDS,
                jeopardy_seconds=self.chance.choice(JEOPARDY_SECONDS),
                max_silence_seconds=self.chance.choice((None, 2.0)),
            ) as lease:
                held.append(lease)
                await self._work(lease)
        except _ForgottenError:
            pass
        except FAILURES as error:
            self.recorder.write("over", object=name, reason=type(error).__name__, message=str(error)[:300])
        if held and self.chance.random() < HAUNTED:
            await self._haunt(client, held[0])

    async def _work(self, lease: Lease) -> None:
        await self._reconcile(lease)
        for _ in range(self.chance.randint(1, 5)):
            await self._step(lease)
        match self._draw(ENDINGS):
            case "complete":
                await lease.complete("done")
            case "hand over":
                await self._hand_over(lease)
            case "fail":
                raise _ForgottenError
            case "fall silent":
                await asyncio.sleep(LEASE_SECONDS * 2)  # with max_silence_seconds it is not renewed meanwhile
            case "fail in an effect":
                async with lease.effect("ledger", "charge"):
                    raise _ForgottenError

    def _draw(self, weights: dict[str, int]) -> str:
        return self.chance.choices(list(weights), list(weights.values()))[0]

    async def _step(self, lease: Lease) -> None:
        recipient = self.chance.choice((*RECIPIENTS, "checkpoint", "pause", "pause"))
        if recipient == "checkpoint":
            await lease.checkpoint("s3://work/part", f"sha256:{secrets.token_hex(8)}")
        elif recipient == "pause":
            await asyncio.sleep(self.chance.uniform(0.5, 5.0))
        else:
            async with lease.effect(recipient, "charge") as effect:
                if not await deliver(self.orders.socket, recipient, lease.key, lease.epoch, effect.id):
                    raise EffectFailed("the recipient refused it")

    async def _reconcile(self, lease: Lease) -> None:
        """Says of effects that others left behind what became of them; it cannot know, so at times it says so."""
        for left in await lease.unreconciled():
            await lease.reconcile(left.id, self.chance.choice(("Succeeded", "Failed", "Failed")), "found out")

    async def _hand_over(self, lease: Lease) -> None:
        others = [name for name in self.orders.agents if name != self.orders.username]
        if not others:
            return
        offer = await lease.hand_over(
            self.chance.choice(others), subject="go on", accept_within_seconds=6, claim_within_seconds=6
        )
        if self.chance.random() < WITHDRAWN:
            await offer.withdraw("changed my mind")
        await offer.settled()

    async def _haunt(self, client: Client, lease: Lease) -> None:
        """Speaks about the epoch that has passed, and sends an effect with its token."""
        epoch = lease.epoch
        sayings: tuple[Any, ...] = (
            stating(renewal={"epoch": epoch, "renewTime": "2026-01-01T00:00:00Z"}),
            stating(release={"epoch": epoch, "reason": "late"}),
            stating(completion={"epoch": epoch, "outcome": "Succeeded", "message": "late"}),
            stating(checkpoint={"epoch": epoch, "uri": "s3://late", "digest": "sha256:late", "previousDigest": ""}),
            [{"op": "add", "path": "/spec/effects/-", "value": _effect(epoch)}],
            stating(claim=_claim(client, epoch)),
        )
        await asyncio.sleep(self.chance.uniform(0.0, 8.0))
        path = path_of(self.orders.namespace, lease.key.partition("/")[2])
        for patch in self.chance.sample(sayings, 2):
            with contextlib.suppress(ApiError):
                await client.session.request("PATCH", path, patch, content_type=JSON_PATCH, timeout_seconds=2.0)
        with contextlib.suppress(OSError):
            for recipient in RECIPIENTS:
                await deliver(self.orders.socket, recipient, lease.key, epoch, f"late-{secrets.token_hex(4)}")

    async def _answer_for_ever(self, client: Client) -> None:
        while True:
            with contextlib.suppress(*FAILURES):
                for offer in await client.inbox(self.orders.namespace):
                    await self._answer(client, offer)
            await asyncio.sleep(INBOX_SECONDS)

    async def _accept_and_forget(self, client: Client, offer: Offer) -> None:
        path = path_of(self.orders.namespace, offer.name, plural="handoffs")
        accepted = stating(response={"decision": "Accepted", "reason": "and will not come"})
        await client.session.request("PATCH", path, accepted, content_type=JSON_PATCH)

    async def _answer(self, client: Client, offer: Offer) -> None:
        match self._draw(ANSWERS):
            case "reject":
                await offer.reject("no time")
            case "accept and forget":
                await self._accept_and_forget(client, offer)
            case "accept":
                async with offer.accept(purpose=f"{self.orders.party} goes on") as lease:
                    await self._reconcile(lease)
                    for _ in range(2):
                        await self._step(lease)


class _ForgottenError(Exception):
    """The work failed."""


def _effect(epoch: int) -> dict[str, Any]:
    made = {"id": f"late-{secrets.token_hex(4)}", "epoch": epoch, "state": "Attempted"}
    return {**made, "recipient": "ledger", "action": "charge"}


def _claim(client: Client, epoch: int) -> dict[str, Any]:
    me = client.identity
    made = {"epoch": max(epoch - 1, 0), "id": secrets.token_hex(8), "purpose": "late"}
    return {**made, "holderIdentity": me.username, "instance": me.instance}


def main() -> None:
    """Is the agent of the orders on the command line, until it is killed."""
    orders = Orders.read(sys.argv[1])
    recorder = Recorder(orders.directory, orders.party)
    clocks = Clocks(recorder, orders.directory / f"clock-{orders.company}-{orders.username}.json")
    record_calls(recorder)
    record_watches(recorder)
    record_beliefs(recorder)
    if orders.options.get("wall_renew_times"):
        renew_by_wall_clock()
    break_agent(orders.without)
    agent = Agent(orders, recorder, clocks)
    asyncio.run(agent.keep() if orders.options.get("keep") else agent.run())


if __name__ == "__main__":
    main()
