"""What a holder says under its lease: effects, checkpoints, completion, handoffs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import worklease
from support.cluster import Cluster, Identity
from support.holding import LEASE_SECONDS, Skewed, client_of, losing_answers, until
from support.operators import OperatorThread
from support.speaking import Agent, Work
from worklease import EffectState, Standing
from worklease.errors import Unanswered

pytestmark = pytest.mark.usefixtures("operator")


@contextlib.asynccontextmanager
async def holding(agent: Identity, namespace: str, clock: Skewed | None = None) -> AsyncIterator[worklease.Lease]:
    """A lease on the work w."""
    async with client_of(agent, clock=clock) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
        yield lease


def effects_of(work: Work) -> dict[str, tuple[str, str]]:
    """State and detail of each logged effect, by its action."""
    return {e["action"]: (e["state"], e.get("detail", "")) for e in work.read()["spec"]["effects"]}


def test_an_effect_is_logged_before_it_is_sent_and_by_what_became_of_it(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """Attempted before; then Succeeded, Failed when that is certain, Unknown for everything else (case 29)."""
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with holding(agent, namespace) as lease:
            async with lease.effect("payments", "charge", digest="sha256:1") as effect:
                assert effects_of(work)["charge"] == ("Attempted", "")
                assert effect.headers["Worklease-Epoch"] == str(lease.epoch)
                assert effect.headers["Idempotency-Key"] == effect.id
                effect.detail = "receipt 7"
            with pytest.raises(worklease.EffectFailed):
                async with lease.effect("payments", "refund"):
                    raise worklease.EffectFailed("no such charge")
            with pytest.raises(ConnectionResetError):
                async with lease.effect("mail", "send"):
                    raise ConnectionResetError
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1), lease.effect("mail", "retract"):
                    await asyncio.Event().wait()
            assert [effect.action for effect in await lease.unreconciled()] == ["send", "retract"]

    asyncio.run(main())
    assert effects_of(work) == {
        "charge": ("Succeeded", "receipt 7"),
        "refund": ("Failed", "no such charge"),
        "send": ("Unknown", "ConnectionResetError"),
        "retract": ("Unknown", "cancelled"),
    }


def test_work_is_complete_only_when_its_effects_are_reconciled(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """EffectsUnreconciled says what to do first; after the completion the block goes on, without a lease (case 21)."""

    async def main() -> None:
        async with holding(agent, namespace) as lease:
            with contextlib.suppress(KeyError):
                async with lease.effect("mail", "send"):
                    raise KeyError
            with pytest.raises(worklease.EffectsUnreconciled):
                await lease.complete("sent")
            (effect,) = await lease.unreconciled()
            await lease.reconcile(effect.id, EffectState.SUCCEEDED, "found in the outbox")
            await lease.complete("sent")
            assert lease.standing is Standing.ENDED
            with pytest.raises(worklease.LeaseLost):
                async with lease.effect("mail", "send"):
                    raise AssertionError("sent")

    asyncio.run(main())
    work = Work(cluster, namespace, "w")
    (tenure,) = work.reaches("Completed")["history"]
    assert (tenure["endReason"], tenure["endMessage"]) == ("Completed", "sent")


def test_a_successor_sees_what_was_left_open(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """An effect of an earlier tenure that is still Attempted must be reconciled before a new one (case 29)."""
    work = Work.create(cluster, namespace, "w", lease_seconds=60)
    former = Agent.of(other)
    epoch = work.hold(former)
    begun = {"id": "1", "epoch": epoch, "recipient": "mail", "action": "send", "state": "Attempted"}
    work.say(former, **{"effects/-": begun}).must()
    work.revoke(epoch).must()

    async def main() -> None:
        async with holding(agent, namespace) as lease:
            (left,) = await lease.unreconciled()
            assert left.epoch == epoch < lease.epoch
            with pytest.raises(worklease.EffectsUnreconciled):
                async with lease.effect("mail", "resend"):
                    raise AssertionError("sent")
            await lease.reconcile(left.id, "Compensated", "withdrawn by hand")
            async with lease.effect("mail", "resend"):
                pass

    work.reaches("Revoked")
    asyncio.run(main())
    assert effects_of(work) == {"send": ("Compensated", "withdrawn by hand"), "resend": ("Succeeded", "")}


def test_no_effect_is_sent_in_jeopardy(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """The block of an effect does not run while the holder cannot be sure, nor is anything logged (case 1)."""
    clock = Skewed()

    async def main() -> None:
        async with holding(agent, namespace, clock) as lease:
            clock.slept_seconds = lease.deadline - clock()
            with pytest.raises(worklease.LeaseInJeopardy):
                async with lease.effect("mail", "send"):
                    raise AssertionError("sent")
            await lease.checkpoint("s3://work/1", "sha256:1")
            await until(lambda: lease.standing is Standing.HELD, "a renewal")

    asyncio.run(main())
    assert effects_of(Work(cluster, namespace, "w")) == {}


def test_checkpoints_follow_each_other(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Each names the digest of the one before; an answer that was lost is no refusal (case 36)."""
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            await lease.checkpoint("s3://work/1", "sha256:1")
            with losing_answers(client, "PATCH"):
                await lease.checkpoint("s3://work/2", "sha256:2")
            await lease.checkpoint("s3://work/2", "sha256:2")

    asyncio.run(main())
    assert work.read()["spec"]["checkpoint"]["previousDigest"] in {"sha256:1", "sha256:2"}
    assert work.reaches("Released")["history"][0]["checkpointDigest"] == "sha256:2"


def test_a_completion_and_an_effect_whose_answers_were_lost_are_said_once(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """They are looked for in the object before they are repeated (case 36)."""
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            with losing_answers(client, "PATCH"):
                async with lease.effect("mail", "send"):
                    pass
            with losing_answers(client, "PATCH"):
                await lease.complete("sent")

    asyncio.run(main())
    assert effects_of(work) == {"send": ("Succeeded", "")}
    assert len(work.reaches("Completed")["history"]) == 1


def test_an_effect_that_was_admitted_too_late_is_not_sent(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """When writing it down took until the deadline, it is Failed, and its block does not run."""
    clock = Skewed()
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with client_of(agent, clock=clock) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            request = client.session.request

            async def slept(*arguments: object, **options: object) -> object:
                answer = await request(*arguments, **options)  # type: ignore[arg-type]
                clock.slept_seconds = lease.deadline - clock()
                return answer

            client.session.request = slept  # type: ignore[method-assign,assignment]
            with pytest.raises(worklease.LeaseInJeopardy):
                async with lease.effect("mail", "send"):
                    raise AssertionError("sent")

    asyncio.run(main())
    assert effects_of(work)["send"][0] == "Failed"


def test_releasing_what_is_not_held_is_an_error(namespace: str, agent: Identity) -> None:
    """The second release does not look like a success (case 25)."""

    async def main() -> None:
        async with holding(agent, namespace) as lease:
            await lease.release("enough for today")
            with pytest.raises(worklease.LeaseLost, match="ended its tenure itself"):
                await lease.release("again")

    asyncio.run(main())


def test_what_needs_a_held_lease_waits_until_the_operator_has_seen_the_renewal(
    cluster: Cluster, namespace: str, agent: Identity, operator: OperatorThread
) -> None:
    """Renewed in jeopardy, the holder is certain before status says so: its effect is not refused for that."""
    work = Work(cluster, namespace, "w")
    refused: list[worklease.ApiError] = []
    standing_still = threading.Event()

    async def main() -> None:
        durations: dict[str, Any] = {"lease_seconds": LEASE_SECONDS, "jeopardy_seconds": 600}
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace, **durations) as lease:
            request = client.session.request
            cut_off = True

            async def requested(method: str, path: str, body: Any = None, **options: Any) -> Any:
                if cut_off and isinstance(body, list) and body[0]["path"] == "/spec/renewal":
                    raise Unanswered("cut off")
                try:
                    return await request(method, path, body, **options)
                except worklease.ApiError as error:
                    refused.append(error)
                    raise

            client.session.request = requested  # type: ignore[method-assign]
            await until(lambda: work.status["phase"] == "Jeopardy", "the operator to say that it is in jeopardy")
            operator.call(standing_still.wait)
            cut_off = False
            await lease.standing_changed(Standing.JEOPARDY)
            sending = asyncio.create_task(send(lease))
            await until(lambda: refused, "the effect to be refused, since status says Jeopardy")
            standing_still.set()
            await sending
            await lease.complete("sent")

    async def send(lease: worklease.Lease) -> None:
        async with lease.effect("mail", "send"):
            pass

    try:
        asyncio.run(main())
    finally:
        standing_still.set()
    assert effects_of(work) == {"send": ("Succeeded", "")}
    work.reaches("Completed")
