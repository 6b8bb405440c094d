"""Handing work over: an offer, an answer, and at no moment two holders or none."""

from __future__ import annotations

import asyncio

import pytest

import worklease
from support.cluster import Cluster, Identity
from support.holding import client_of, until
from support.speaking import Work
from worklease import Standing
from worklease.api.handoff import ResponseDecision

pytestmark = pytest.mark.usefixtures("operator")
MESSAGE = "two lines\nof what to know"


def test_an_offer_is_accepted_and_the_work_goes_on_under_a_higher_epoch(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """Message, context and checkpoint reach the target (case 22); the sender holds until the target does."""
    done = asyncio.Event()

    async def sender(client: worklease.Client) -> int:
        async with client.hold("w", purpose="p", namespace=namespace) as lease:
            await lease.checkpoint("s3://work/1", "sha256:1")
            offer = await lease.hand_over(
                other.username, subject="the rest", message=MESSAGE, context_uri="https://wiki/1"
            )
            assert await offer.settled() == "Completed"
            assert lease.standing is Standing.ENDED
            return lease.epoch

    async def target(client: worklease.Client) -> int:
        offers: list[worklease.Offer] = []
        async with asyncio.timeout(60):
            while not offers:
                offers = await client.inbox(namespace)
        (offer,) = offers
        assert (offer.sender, offer.subject, offer.message) == (agent.username, "the rest", MESSAGE)
        assert offer.context
        assert offer.checkpoint
        assert (offer.context.uri, offer.checkpoint.digest) == ("https://wiki/1", "sha256:1")
        async with offer.accept() as lease:
            assert lease.standing is Standing.HELD
            assert lease.work.status.grant_reason == "Handoff"
            assert await client.inbox(namespace) == []
            await done.wait()
            await lease.complete("done")
            return lease.epoch

    async def main() -> tuple[int, int]:
        async with client_of(agent) as first, client_of(other) as second, asyncio.timeout(100):
            targeting = asyncio.create_task(target(second))
            given = await sender(first)
            done.set()
            return given, await targeting

    given, taken = asyncio.run(main())
    assert taken > given
    history = Work(cluster, namespace, "w").reaches("Completed")["history"]
    assert [(t["epoch"], t["endReason"]) for t in history] == [(given, "HandedOver"), (taken, "Completed")]


def test_a_sender_that_does_not_wait_is_ended_by_the_targets_grant(
    namespace: str, agent: Identity, other: Identity
) -> None:
    """Its block is cancelled with the reason HandedOver."""

    async def main() -> None:
        async with (
            client_of(agent) as first,
            client_of(other) as second,
            first.hold("w", purpose="p", namespace=namespace, lease_seconds=10) as lease,
        ):
            await lease.hand_over(other.username)
            (offer,) = await second.inbox(namespace)
            async with offer.accept():
                await asyncio.Event().wait()

    with pytest.raises(worklease.LeaseLost) as lost:
        asyncio.run(main())
    assert lost.value.reason == "HandedOver"


@pytest.mark.parametrize("answer", ["reject", "withdraw"])
def test_an_offer_that_comes_to_nothing_leaves_the_sender_with_the_work(
    namespace: str, agent: Identity, other: Identity, answer: str
) -> None:
    """Rejected by the target or withdrawn by the sender, once; what is over cannot be accepted any more."""

    async def main() -> None:
        async with (
            client_of(agent) as first,
            client_of(other) as second,
            first.hold("w", purpose="p", namespace=namespace) as lease,
        ):
            sent = await lease.hand_over(other.username)
            (offer,) = await second.inbox(namespace)
            with pytest.raises(worklease.StatementRefused):
                await offer.withdraw("not mine to withdraw")
            await (offer.reject("no time") if answer == "reject" else sent.withdraw("changed my mind"))
            assert await sent.settled() == ("Rejected" if answer == "reject" else "Withdrawn")
            with pytest.raises(worklease.HandoffOver, match=sent.phase):
                async with offer.accept():
                    raise AssertionError("held")
            assert lease.standing is Standing.HELD
            async with lease.effect("mail", "send"):
                pass

    asyncio.run(main())


def test_an_acceptance_may_be_repeated_after_a_crash(namespace: str, agent: Identity, other: Identity) -> None:
    """Accepted and not yet claimed, the same target goes on where it was."""

    async def main() -> None:
        async with (
            client_of(agent) as first,
            client_of(other) as second,
            first.hold("w", purpose="p", namespace=namespace) as lease,
        ):
            sent = await lease.hand_over(other.username)
            settling = asyncio.create_task(sent.settled())
            (offer,) = await second.inbox(namespace)
            await offer._answer(ResponseDecision.ACCEPTED, "")
            await until(lambda: sent.phase == "Accepted", "the acceptance to take effect")
            with pytest.raises(worklease.StatementRefused):
                async with lease.effect("mail", "send"):
                    raise AssertionError("a new effect once the handoff has taken effect")
            async with offer.accept() as taken:
                assert taken.epoch > lease.epoch
            assert await settling == "Completed"

    asyncio.run(main())
