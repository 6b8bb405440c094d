"""From wanting work to holding it: waiting, lost answers, late grants, and giving up at any moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import worklease
from support.cluster import Cluster, Identity
from support.holding import CancelledAt, client_of, losing_answers, until
from support.operators import operating
from support.proxy import Proxy
from support.speaking import Agent, Work
from support.waiting import pass_time, wait_for
from worklease import Standing

CANCELLATIONS_MAX = 80


@pytest.mark.usefixtures("operator")
def test_a_waiter_holds_as_soon_as_the_work_is_free(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity, proxy: Proxy, tmp_path: Path
) -> None:
    """Of many who wait one holds at a time, each in its turn, and all get it."""
    holders: list[int] = []

    async def waiter(client: worklease.Client) -> None:
        async with client.hold("w", purpose="p", namespace=namespace, wait=True) as lease:
            holders.append(lease.epoch)
            assert sum(1 for epoch in holders if epoch > lease.epoch) == 0

    async def main() -> None:
        watched = proxy.kubeconfig(tmp_path, other.api.token)
        async with client_of(agent) as first, client_of(other, kubeconfig=watched) as second:
            async with first.hold("w", purpose="p", namespace=namespace):
                tasks = [asyncio.create_task(waiter(client)) for client in (second, first) * 5]
                await until(lambda: proxy.watches() == 5, "the waiters to watch")
                assert not holders
            async with asyncio.timeout(60):
                await asyncio.gather(*tasks)

    asyncio.run(main())
    assert len(holders) == len(set(holders)) == 10
    assert holders == sorted(holders)


@pytest.mark.usefixtures("operator")
def test_waiting_ends_when_the_caller_said_so(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """WaitedTooLong after the given time; suspended work is waited for too."""
    work = Work.create(cluster, namespace, suspend=True)

    async def main() -> None:
        async with client_of(agent) as client:
            with pytest.raises(worklease.WorkIsSuspended):
                async with client.hold(work.name, purpose="p", namespace=namespace):
                    raise AssertionError("held")
            with pytest.raises(worklease.WaitedTooLong, match=r"within 0\.5 s"):
                async with client.hold(work.name, purpose="p", namespace=namespace, wait=0.5):
                    raise AssertionError("held")
            resumed = asyncio.create_task(asyncio.to_thread(work.say, cluster.admin, suspend=False))
            async with client.hold(work.name, purpose="p", namespace=namespace, wait=60) as lease:
                assert lease.standing is Standing.HELD
            await resumed

    asyncio.run(main())


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("create", [True, False])
def test_a_claim_whose_answer_was_lost_is_not_a_refusal(
    cluster: Cluster, namespace: str, agent: Identity, create: bool
) -> None:
    """The claim is repeated with its id: the beginner holds, once (case 36)."""
    if not create:
        Work.create(cluster, namespace, "w")

    async def main() -> None:
        async with client_of(agent) as client:
            with losing_answers(client, "POST" if create else "PATCH"):
                async with client.hold("w", purpose="p", namespace=namespace) as lease:
                    assert lease.standing is Standing.HELD

    asyncio.run(main())
    assert len(Work(cluster, namespace, "w").reaches("Released")["history"]) == 1


@pytest.mark.usefixtures("operator")
def test_a_renewal_whose_answer_was_lost_is_not_a_loss(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """It is repeated with a later renewTime, and the lease goes on (case 36)."""

    async def main() -> None:
        async with (
            client_of(agent) as client,
            client.hold("w", purpose="p", namespace=namespace, lease_seconds=10) as lease,
        ):
            deadline = lease.deadline
            with losing_answers(client, "PATCH", 2) as lost:
                await until(lambda: len(lost) == 2, "two renewals whose answers are lost")
                await until(lambda: lease.deadline > deadline, "a renewal that is answered")
            assert lease.standing is Standing.HELD

    asyncio.run(main())
    assert len(Work(cluster, namespace, "w").reaches("Released")["history"]) == 1


def test_a_grant_that_comes_late_is_renewed_before_it_is_used(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """Its time counts from the claim: when much of it is over, the block runs only after a renewal (case 10)."""
    work = Work.create(cluster, namespace)

    async def main() -> None:
        async with client_of(agent) as client:
            entering = asyncio.create_task(hold(client))
            await until(lambda: "claim" in work.read()["spec"], "the claim")
            await asyncio.to_thread(pass_time, 6.0)
            with operating(cluster, namespace):
                await entering

    async def hold(client: worklease.Client) -> None:
        async with client.hold(work.name, purpose="p", namespace=namespace) as lease:
            assert work.read()["spec"]["renewal"]["epoch"] == lease.epoch
            assert lease.standing is Standing.HELD

    asyncio.run(main())


@pytest.mark.usefixtures("operator")
def test_cancelled_at_any_moment_nothing_is_left_behind(
    cluster: Cluster, namespace: str, agent: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancellation at every await is a way out: no task is left, the work is free long before the lease lapses, and
    no effect is left open without a word about it. What is said at the end is given the time of a busy server.
    """
    for bound in (
        "deciding.ABANDON_SECONDS",
        "lease.RELEASE_SECONDS",
        "client.RELEASE_SECONDS",
        "lease.RECORD_SECONDS",
    ):
        monkeypatch.setattr(f"worklease.client.{bound}", 25.0)

    async def once(client: worklease.Client, name: str) -> None:
        async with (
            client.hold(name, purpose="p", namespace=namespace, lease_seconds=3600) as lease,
            lease.effect("ledger", "note"),
        ):
            await asyncio.sleep(0)

    async def main() -> list[str]:
        async with client_of(agent) as client:
            whole = CancelledAt(once(client, "whole"), 0)
            await whole
            before = asyncio.all_tasks()
            names = [f"w{number}" for number in range(1, min(whole.seen, CANCELLATIONS_MAX) + 1)]
            for number, name in enumerate(names, start=1):
                try:
                    async with asyncio.timeout(30):
                        task = asyncio.create_task(cancelled(client, name, number))
                        await task
                except asyncio.CancelledError:
                    pass
                await asyncio.sleep(0)
                assert asyncio.all_tasks() <= before, f"cancelled at suspension {number}"
        return names

    async def cancelled(client: worklease.Client, name: str, number: int) -> None:
        await CancelledAt(once(client, name), number)

    names = asyncio.run(main())
    assert len(names) >= 6
    held = [Work(cluster, namespace, name) for name in names]
    there = [work for work in held if cluster.api.get(work.path).ok]
    wait_for(lambda: all(work.status["phase"] != "Held" for work in there), "all of the work to be free", 60.0)
    logged = {effect["state"] for work in there for effect in work.read()["spec"]["effects"]}
    assert "Succeeded" in logged
    assert "Attempted" not in logged


@pytest.mark.usefixtures("operator")
def test_somebody_else_may_claim_what_a_waiter_could_not(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """An administrator who takes over is not disturbed by who waits: the waiter gets it afterwards."""
    work = Work.create(cluster, namespace, lease_seconds=60)
    administrator = Agent.of(cluster.admin)

    async def main() -> int:
        async with client_of(agent) as client:
            first = work.hold(Agent.of(agent))
            waiting = asyncio.create_task(waiter(client))
            await asyncio.to_thread(
                lambda: work.say(
                    administrator,
                    revocation={"epoch": first, "reason": "taken over"},
                    claim=administrator.claim(first),
                ).must()
            )
            await until(lambda: work.epoch > first and work.status["phase"] == "Held", "the takeover")
            taken = work.epoch
            assert not waiting.done()
            await asyncio.to_thread(lambda: work.release(administrator, taken).must())
            assert await waiting > taken
            return taken

    async def waiter(client: worklease.Client) -> int:
        async with client.hold(work.name, purpose="p", namespace=namespace, wait=True) as lease:
            return lease.epoch

    asyncio.run(main())
    assert work.history[-2]["instance"] == administrator.instance
