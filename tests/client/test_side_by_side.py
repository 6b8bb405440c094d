"""Several things at once: nested blocks, loops, threads, and ends that meet a renewal or a deadline."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import worklease
from support.cluster import Cluster, Identity
from support.holding import LEASE_SECONDS, Skewed, client_of, until
from support.speaking import Work
from worklease import Standing
from worklease.kube.session import Answer

pytestmark = pytest.mark.usefixtures("operator")
THREADS = 8


def test_a_release_that_meets_a_renewal_on_its_way_is_no_loss(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """The renewal arrives after the release and is refused: the block ends as it would have, by its own word."""
    arrived: list[worklease.ApiError] = []

    async def main() -> None:
        async with (
            client_of(agent) as client,
            client.hold("w", purpose="p", namespace=namespace, lease_seconds=LEASE_SECONDS) as lease,
        ):
            request = client.session.request
            sent, released = asyncio.Event(), asyncio.Event()

            async def delayed(method: str, path: str, body: Any = None, **options: Any) -> Answer:
                if isinstance(body, list) and body[0]["path"] == "/spec/renewal":
                    sent.set()
                    await released.wait()
                try:
                    return await request(method, path, body, **options)
                except worklease.ApiError as error:
                    arrived.append(error)
                    raise

            client.session.request = delayed  # type: ignore[method-assign]
            await sent.wait()
            await lease.release("enough")
            released.set()
            await until(lambda: arrived, "the renewal to be refused")
            assert lease.standing is Standing.ENDED

    asyncio.run(main())
    assert [error.status for error in arrived] == [422]
    (tenure,) = Work(cluster, namespace, "w").reaches("Released")["history"]
    assert tenure["endMessage"] == "enough"


def test_an_effect_that_raises_at_the_deadline_stays_open_and_the_loss_is_told(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """The lease is lost in the same instant: that is what comes out, and nobody has to guess what the body did."""
    clock = Skewed()

    async def main() -> None:
        async with (
            client_of(agent, clock=clock) as client,
            client.hold("w", purpose="p", namespace=namespace) as lease,
            lease.effect("mail", "send"),
        ):
            clock.slept_seconds = lease.expiry - clock() + 1.0
            assert lease.standing is Standing.LOST
            raise ConnectionResetError("by peer")

    with pytest.raises(worklease.LeaseLost):
        asyncio.run(main())
    (effect,) = Work(cluster, namespace, "w").read()["spec"]["effects"]
    assert effect["state"] in ("Attempted", "Unknown")


def test_blocks_for_different_work_are_nested_and_end_on_their_own(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """The loss of the outer lease ends both blocks and is raised as the outer's; the inner one is given back."""
    outer_work, inner_work = Work(cluster, namespace, "outer"), Work(cluster, namespace, "inner")
    durations: dict[str, Any] = {"purpose": "p", "namespace": namespace, "lease_seconds": LEASE_SECONDS}

    async def main() -> None:
        async with (
            client_of(agent) as client,
            client.hold("outer", **durations) as outer,
            client.hold("inner", **durations) as inner,
        ):
            assert outer.epoch != inner.epoch
            await asyncio.to_thread(lambda: outer_work.revoke(outer.epoch, "INC-7").must())
            await asyncio.Event().wait()

    with pytest.raises(worklease.LeaseLost) as lost:
        asyncio.run(main())
    assert lost.value.lease == f"{namespace}/outer"
    outer_work.reaches("Revoked")
    inner_work.reaches("Released")


def test_the_loss_of_an_inner_lease_leaves_the_outer_block_running(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """Its LeaseLost can be caught, and what follows is not cancelled."""
    inner_work = Work(cluster, namespace, "inner")
    durations: dict[str, Any] = {"purpose": "p", "namespace": namespace, "lease_seconds": LEASE_SECONDS}

    async def main() -> None:
        async with client_of(agent) as client, client.hold("outer", **durations) as outer:
            with pytest.raises(worklease.LeaseLost):
                await revoked(client)
            await asyncio.sleep(0)
            async with outer.effect("mail", "send"):
                pass
            await outer.complete("sent")

    async def revoked(client: worklease.Client) -> None:
        async with client.hold("inner", **durations) as inner:
            await asyncio.to_thread(lambda: inner_work.revoke(inner.epoch, "INC-7").must())
            await asyncio.Event().wait()

    asyncio.run(main())
    Work(cluster, namespace, "outer").reaches("Completed")


def test_two_event_loops_of_one_process_do_not_take_the_work_from_each_other(namespace: str, agent: Identity) -> None:
    """Threads with loops of their own are one instance to the protocol: the second is refused while the first holds."""
    held, done = threading.Event(), threading.Event()

    async def first() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            held.set()
            await asyncio.to_thread(done.wait)
            lease.require_held()

    async def second() -> None:
        async with client_of(agent) as client:
            with pytest.raises(worklease.WorkIsLeased, match="another block of this process"):
                async with client.hold("w", purpose="p", namespace=namespace):
                    raise AssertionError("two holders")
            waiting = asyncio.create_task(waited(client))
            done.set()
            assert await waiting > 0

    async def waited(client: worklease.Client) -> int:
        async with client.hold("w", purpose="p", namespace=namespace, wait=60) as lease:
            return lease.epoch

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, first())
        try:
            assert held.wait(60.0)
            asyncio.run(second())
        finally:
            done.set()
        running.result(60.0)


def test_threads_share_a_lease_without_asyncio(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Effects of many threads under one lease: each is logged with its own outcome, none is lost."""
    source = worklease.Source(str(agent.kubeconfig))
    together = threading.Barrier(THREADS)

    def send(number: int) -> None:
        together.wait(60.0)
        with lease.effect("mail", f"send-{number}") as effect:
            lease.require_held()
            effect.detail = f"receipt {number}"

    with worklease.blocking.hold("w", purpose="p", namespace=namespace, source=source) as lease:
        with ThreadPoolExecutor(THREADS) as pool:
            for sent in [pool.submit(send, number) for number in range(THREADS)]:
                sent.result(60.0)
        lease.complete("sent")
    work = Work(cluster, namespace, "w")
    work.reaches("Completed")
    logged = {effect["action"]: effect["detail"] for effect in work.read()["spec"]["effects"]}
    assert logged == {f"send-{number}": f"receipt {number}" for number in range(THREADS)}


def test_a_cancelled_claim_whose_answer_was_lost_is_given_back(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """It had taken effect: the claimant looks for it before it goes (case 36)."""

    async def main() -> None:
        async with client_of(agent) as client:
            request = client.session.request
            taken = asyncio.Event()

            async def lost(method: str, path: str, body: Any = None, **options: Any) -> Answer:
                answer = await request(method, path, body, **options)
                if method == "POST":
                    taken.set()
                    await asyncio.Event().wait()
                return answer

            client.session.request = lost  # type: ignore[method-assign]
            claiming = asyncio.create_task(hold(client))
            await taken.wait()
            claiming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claiming

    async def hold(client: worklease.Client) -> None:
        async with client.hold("w", purpose="p", namespace=namespace, lease_seconds=3600):
            raise AssertionError("held")

    asyncio.run(main())
    (tenure,) = Work(cluster, namespace, "w").reaches("Released")["history"]
    assert "gave up" in tenure["endMessage"]
