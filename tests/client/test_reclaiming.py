"""A holder that needs a fresh epoch claims its own work again, and its block goes on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import worklease
from support.cluster import Cluster, Identity
from support.holding import LEASE_SECONDS, client_of, losing_answers, until
from support.operators import operating
from support.speaking import Agent, Work
from worklease import LostReason, Standing
from worklease.api.fields import EFFECTS_MAX
from worklease.kube.session import Answer


@pytest.mark.usefixtures("operator")
def test_a_tenure_with_more_effects_than_its_log_takes_goes_on_under_a_fresh_epoch(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """The full log is refused with what to do; after the re-claim the reconciled entries make room."""
    epochs: list[int] = []

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="mail all", namespace=namespace) as lease:
            epochs.append(lease.epoch)
            while lease.effects_left:
                async with lease.effect("mail", "send"):
                    pass
            with pytest.raises(worklease.StatementRefused, match=r"64 effects of this tenure.*reclaim\(\)"):
                async with lease.effect("mail", "send"):
                    raise AssertionError("sent")
            await lease.reclaim()
            epochs.append(lease.epoch)
            assert lease.standing is Standing.HELD
            assert lease.effects_left == EFFECTS_MAX
            async with lease.effect("mail", "send") as effect:
                assert effect.token.epoch == lease.epoch
            await lease.complete("sent")

    asyncio.run(main())
    work = Work(cluster, namespace, "w")
    first, second = work.reaches("Completed")["history"]
    assert epochs == [first["epoch"], second["epoch"]]
    assert epochs[0] < epochs[1]
    assert (first["endReason"], second["grantReason"], second["purpose"]) == ("Reclaimed", "Reclaim", "mail all")
    assert first["effects"]["succeeded"] == EFFECTS_MAX
    assert len(work.read()["spec"]["effects"]) == EFFECTS_MAX


@pytest.mark.usefixtures("operator")
def test_an_effect_under_way_refuses_a_re_claim(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Nothing is claimed, and the block goes on under its epoch."""

    async def main() -> int:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            async with lease.effect("mail", "send"):
                with pytest.raises(worklease.EffectsUnreconciled, match="under way"):
                    await lease.reclaim()
            return lease.epoch

    epoch = asyncio.run(main())
    (tenure,) = Work(cluster, namespace, "w").reaches("Released")["history"]
    assert tenure["epoch"] == epoch


@pytest.mark.usefixtures("operator")
def test_a_renewal_that_a_re_claim_overtook_is_no_loss(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """It was sent under the old epoch and arrives after the grant: refused, and the lease goes on under the new one."""
    arrived: list[worklease.ApiError] = []

    async def main() -> int:
        async with (
            client_of(agent) as client,
            client.hold("w", purpose="p", namespace=namespace, lease_seconds=LEASE_SECONDS) as lease,
        ):
            request = client.session.request
            sent, granted = asyncio.Event(), asyncio.Event()

            async def delayed(method: str, path: str, body: Any = None, **options: Any) -> Answer:
                if isinstance(body, list) and body[0]["path"] == "/spec/renewal" and not sent.is_set():
                    sent.set()
                    await granted.wait()
                    try:
                        return await request(method, path, body, **options)
                    except worklease.ApiError as error:
                        arrived.append(error)
                        raise
                return await request(method, path, body, **options)

            client.session.request = delayed  # type: ignore[method-assign]
            before = lease.epoch
            await sent.wait()
            await lease.reclaim("the rest")
            granted.set()
            await until(lambda: arrived, "the overtaken renewal to be answered")
            deadline = lease.deadline
            await until(lambda: lease.deadline > deadline, "a renewal under the new epoch")
            assert lease.epoch > before
            return lease.epoch

    epoch = asyncio.run(main())
    assert [error.status for error in arrived] == [422]
    assert Work(cluster, namespace, "w").reaches("Released")["history"][-1]["epoch"] == epoch


@pytest.mark.usefixtures("operator")
def test_a_re_claim_whose_answer_was_lost_is_made_once(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """It is looked for in the object before it is repeated (case 36)."""

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            with losing_answers(client, "PATCH"):
                await lease.reclaim()
            lease.require_held()

    asyncio.run(main())
    ends = [tenure["endReason"] for tenure in Work(cluster, namespace, "w").reaches("Released")["history"]]
    assert ends == ["Reclaimed", "Released"]


@pytest.mark.usefixtures("operator")
def test_re_claims_at_once_are_one_for_each_purpose(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """The same purpose, or none, has the outcome of the one under way; no purpose is lost to another's call."""

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="begin", namespace=namespace) as lease:
            asked = ("the rest", None, "the end", "the rest", "the end")
            await asyncio.gather(*(lease.reclaim(purpose) for purpose in asked))
            await lease.complete("done")

    asyncio.run(main())
    history = Work(cluster, namespace, "w").reaches("Completed")["history"]
    assert [tenure["purpose"] for tenure in history] == ["begin", "the rest", "the end"]


def test_a_re_claim_that_was_cut_off_goes_on_and_effects_wait_for_it(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """While the operator is down nothing is decided: the old epoch is renewed, and no effect begins under it."""
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            with operating(cluster, namespace):
                client = await stack.enter_async_context(client_of(agent))
                held = client.hold("w", purpose="p", namespace=namespace, lease_seconds=LEASE_SECONDS)
                lease = await stack.enter_async_context(held)
            before = lease.epoch
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await lease.reclaim()
            began = lease.deadline
            effect = asyncio.create_task(sent(lease))
            await until(lambda: lease.deadline > began, "a renewal under the old epoch")
            assert not effect.done()
            assert lease.epoch == before
            with operating(cluster, namespace):
                assert await effect > before
                await stack.aclose()
                work.reaches("Released")

    async def sent(lease: worklease.Lease) -> int:
        async with lease.effect("mail", "send") as effect:
            return effect.token.epoch

    asyncio.run(main())
    assert [tenure["endReason"] for tenure in work.history] == ["Reclaimed", "Released"]


def test_a_holder_that_was_revoked_while_it_claimed_again_has_lost(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """Its claim is granted after the revocation, as any would be: the block does not go on by it, and gives it back."""
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            with operating(cluster, namespace):
                client = await stack.enter_async_context(client_of(agent))
                lease = await stack.enter_async_context(client.hold("w", purpose="p", namespace=namespace))
            again = asyncio.create_task(lease.reclaim())
            await until(lambda: work.read()["spec"]["claim"]["id"] != lease.claim_id, "the claim")
            await asyncio.to_thread(lambda: work.revoke(lease.epoch, "INC-7").must())
            with operating(cluster, namespace):
                with pytest.raises(asyncio.CancelledError):
                    await again
                try:
                    await stack.aclose()  # it raises LeaseLost
                finally:
                    await asyncio.to_thread(work.reaches, "Released")

    with pytest.raises(worklease.LeaseLost, match="INC-7") as lost:
        asyncio.run(main())
    assert lost.value.reason == LostReason.REVOKED
    assert [tenure["endReason"] for tenure in work.history] == ["Revoked", "Released"]


@pytest.mark.usefixtures("operator")
def test_nothing_is_claimed_again_once_a_handoff_has_taken_effect(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """WorkIsReserved: the tenure goes on as it was until the target claims."""
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            offer = await lease.hand_over(other.username)
            answer = [{"op": "add", "path": "/spec/response", "value": {"decision": "Accepted", "reason": ""}}]
            path = f"/apis/worklease.dev/v1alpha1/namespaces/{namespace}/handoffs/{offer.name}"
            await asyncio.to_thread(lambda: other.api.patch(path, answer).must())
            await until(lambda: "successor" in work.status, "the acceptance to take effect")
            with pytest.raises(worklease.WorkIsReserved):
                await lease.reclaim()
            assert lease.standing is Standing.HELD

    asyncio.run(main())
    assert len(work.reaches("Released")["history"]) == 1


@pytest.mark.usefixtures("operator")
def test_a_block_without_asyncio_claims_again(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """The blocking face has the same call."""
    source = worklease.Source(str(agent.kubeconfig))
    with worklease.blocking.hold("w", purpose="p", namespace=namespace, source=source) as lease:
        before = lease.epoch
        lease.reclaim("the rest")
        assert lease.epoch > before
        assert lease.effects_left == EFFECTS_MAX
    assert Work(cluster, namespace, "w").reaches("Released")["history"][-1]["purpose"] == "the rest"


def test_an_agent_that_never_held_cannot_use_another_ones_re_claim(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """What the client relies on: the API server admits the claim of the holder's own process only."""
    with operating(cluster, namespace):
        work = Work.create(cluster, namespace, "w", lease_seconds=60)
        epoch = work.hold(Agent.of(agent))
        refused = work.say(Agent.of(other), claim=Agent.of(other).claim(epoch))
        sibling = work.say(Agent.of(agent), claim=Agent.of(agent).claim(epoch))
    assert (refused.status, sibling.status) == (422, 422)
