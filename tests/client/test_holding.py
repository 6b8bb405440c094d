"""A lease is held for as long as its block runs, and no longer than it is certain."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import worklease
from support.cluster import Cluster, Identity
from support.holding import LEASE_SECONDS, Skewed, client_of, until, wire
from support.operators import OperatorThread
from support.speaking import Agent, Work
from worklease import LostReason, Standing

pytestmark = pytest.mark.usefixtures("operator")
SHORT: dict[str, Any] = {"lease_seconds": LEASE_SECONDS, "jeopardy_seconds": 0}


def test_a_block_creates_the_work_holds_it_and_gives_it_back(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Three lines are enough: claim, hold, release with a reason; the terms are those of the grant."""

    async def main() -> int:
        source = worklease.Source(str(agent.kubeconfig))
        async with worklease.hold("invoice", purpose="charge it", namespace=namespace, source=source) as lease:
            assert lease.standing is Standing.HELD
            assert lease.token.lease == f"{namespace}/invoice"
            assert lease.deadline < lease.expiry
            return lease.epoch

    epoch = asyncio.run(main())
    status = Work(cluster, namespace, "invoice").reaches("Released")
    assert status["epoch"] == epoch
    (tenure,) = status["history"]
    assert (tenure["purpose"], tenure["endMessage"]) == ("charge it", "the work's block has ended")
    assert tenure["instance"].startswith("host:")


def test_a_lease_outlives_its_duration_while_the_block_works(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Renewals do not wait for the work's calls, and move the deadline by what was sent (case 19)."""

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace, **SHORT) as lease:
            began = lease.deadline
            work = asyncio.create_task(asyncio.sleep(LEASE_SECONDS + 3))
            await until(lambda: work.done(), "one call that lasts longer than the lease")
            assert lease.standing is Standing.HELD
            assert lease.deadline > began + LEASE_SECONDS / 2

    asyncio.run(main())
    (tenure,) = Work(cluster, namespace, "w").reaches("Released")["history"]
    assert tenure["renewals"] >= 3


def test_work_that_raises_gives_the_lease_back(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """The error passes through, the renewals end, and the reason tells its kind but not its text (case 8)."""

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace):
            raise KeyError("a secret")

    with pytest.raises(KeyError):
        asyncio.run(main())
    (tenure,) = Work(cluster, namespace, "w").reaches("Released")["history"]
    assert tenure["endMessage"] == "the work failed: KeyError"


def test_a_revoked_holder_is_cancelled_and_told_why(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """One refused renewal ends the tenure and the block: no more is sent, and nothing is released (cases 1, 2, 11)."""
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace, **SHORT) as lease:
            await asyncio.to_thread(work.revoke, lease.epoch, "INC-7: stop it")
            await asyncio.Event().wait()

    with pytest.raises(worklease.LeaseLost, match="INC-7: stop it") as lost:
        asyncio.run(main())
    assert lost.value.reason == LostReason.REVOKED
    assert [tenure["endReason"] for tenure in work.reaches("Revoked")["history"]] == ["Revoked"]


def test_a_block_that_ends_before_it_could_learn_of_a_revocation_learns_of_it_then(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """No renewal had told: the release at the end finds it, and the block does not end as if all had been well."""
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            await asyncio.to_thread(work.revoke, lease.epoch, "INC-7: stop it")
            await asyncio.to_thread(work.reaches, "Revoked")

    with pytest.raises(worklease.LeaseLost, match="INC-7") as lost:
        asyncio.run(main())
    assert lost.value.reason is LostReason.REVOKED


@pytest.mark.parametrize("saying", ["an effect", "a checkpoint", "a completion"])
def test_a_statement_that_is_refused_because_of_a_revocation_says_that_the_lease_is_lost(
    cluster: Cluster, namespace: str, agent: Identity, saying: str
) -> None:
    """The block learns by it what no renewal has told, with the administrator's reason rather than a rule's words."""
    work = Work(cluster, namespace, "w")

    async def say(lease: worklease.Lease) -> None:
        if saying == "an effect":
            async with lease.effect("payments", "charge"):
                raise AssertionError("the effect was begun")
        elif saying == "a checkpoint":
            await lease.checkpoint("s3://b/1", "sha256:" + "0" * 64)
        else:
            await lease.complete("done")

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            await asyncio.to_thread(work.revoke, lease.epoch, "INC-7: stop it")
            await asyncio.to_thread(work.reaches, "Revoked")
            await say(lease)

    with pytest.raises(worklease.LeaseLost, match="INC-7: stop it") as lost:
        asyncio.run(main())
    assert lost.value.reason is LostReason.REVOKED


def test_a_block_that_fails_of_itself_says_so_also_when_it_had_been_revoked(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """Its own error comes first."""
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            await asyncio.to_thread(work.revoke, lease.epoch, "INC-7: stop it")
            await asyncio.to_thread(work.reaches, "Revoked")
            raise RuntimeError("of its own")

    with pytest.raises(RuntimeError, match="of its own"):
        asyncio.run(main())


def test_a_deleted_work_item_is_a_lost_lease(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """404 on a renewal means lost."""
    work = Work(cluster, namespace, "w")

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            await asyncio.to_thread(lambda: cluster.api.delete(work.path).must())
            await lease.renew()

    with pytest.raises(worklease.LeaseLost) as lost:
        asyncio.run(main())
    assert lost.value.reason == LostReason.GONE


def test_a_silent_partition_ends_the_block_before_the_lease_can_be_anothers(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity, tmp_path: Path
) -> None:
    """Every request hangs, the release at the end too: the block has ended before the deadline, and before another
    holder's grant (cases 6, 28, 39).
    """
    ended_at = 0.0

    async def waiter(work: Work) -> float:
        async with (
            client_of(other) as client,
            client.hold(work.name, purpose="p", namespace=namespace, wait=True) as lease,
        ):
            assert lease.standing is Standing.HELD
            return worklease.boot_seconds()

    async def holder(name: str, path: Path) -> float:
        nonlocal ended_at
        async with client_of(agent, kubeconfig=path) as client:
            try:
                async with client.hold(name, purpose="p", namespace=namespace, **SHORT) as lease:
                    between.silence()
                    await asyncio.Event().wait()
            finally:
                ended_at = worklease.boot_seconds()
                assert lease.standing is Standing.LOST
                assert ended_at < lease.expiry + 1.0  # the margin, within which nobody else can hold
        raise AssertionError("the block must not end without an error")

    async def main() -> float:
        async with asyncio.TaskGroup() as tasks:
            holding = tasks.create_task(outcome(holder("w", path)))
            await until(lambda: Work(cluster, namespace, "w").cluster.api.get(work.path).ok, "the work to be there")
            await until(lambda: work.status["phase"] == "Held", "the first grant")
            waiting = tasks.create_task(waiter(work))
        lost = holding.result()
        assert isinstance(lost, worklease.LeaseLost)
        assert lost.reason == LostReason.UNCERTAIN
        return waiting.result()

    work = Work(cluster, namespace, "w")
    with wire(agent, tmp_path) as (between, path):
        granted_at = asyncio.run(main())
    assert 0.0 < ended_at < granted_at
    assert [tenure["endReason"] for tenure in work.reaches("Released")["history"]] == ["Expired", "Released"]


async def outcome(work: object) -> BaseException | None:
    """The error by which it ended."""
    try:
        await work  # type: ignore[misc]
    except worklease.WorkleaseError as error:
        return error
    return None


def test_a_partition_that_ends_in_time_costs_nothing(
    cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path
) -> None:
    """Unknown is neither lost nor held: in jeopardy the holder keeps trying, and holds again once it is answered."""
    seen: list[Standing] = []

    async def main() -> None:
        async with (
            client_of(agent, kubeconfig=path) as client,
            client.hold(
                "w", purpose="p", namespace=namespace, lease_seconds=LEASE_SECONDS, jeopardy_seconds=60
            ) as lease,
        ):
            between.silence()
            seen.append(await lease.standing_changed(Standing.HELD))
            assert lease.trouble
            with pytest.raises(worklease.LeaseInJeopardy, match="not certain"):
                lease.require_held()
            between.restore()
            seen.append(await lease.standing_changed(Standing.JEOPARDY))
            lease.require_held()

    with wire(agent, tmp_path) as (between, path):
        asyncio.run(main())
    assert seen == [Standing.JEOPARDY, Standing.HELD]
    assert len(Work(cluster, namespace, "w").reaches("Released")["history"]) == 1


def test_a_machine_that_slept_through_its_lease_wakes_without_it(namespace: str, agent: Identity) -> None:
    """The clock counts sleep: on waking the lease is lost, whatever the timers say (case 27)."""
    clock = Skewed()

    async def main() -> None:
        async with (
            client_of(agent, clock=clock) as client,
            client.hold("w", purpose="p", namespace=namespace, lease_seconds=600) as lease,
        ):
            clock.slept_seconds = 3600.0
            assert lease.standing is Standing.LOST
            await asyncio.Event().wait()

    with pytest.raises(worklease.LeaseLost) as lost:
        asyncio.run(main())
    assert lost.value.reason == LostReason.UNCERTAIN


def test_a_machine_that_slept_for_a_while_renews_at_once(namespace: str, agent: Identity) -> None:
    """Timers that were late by the sleep are set anew, and the lease is certain again."""
    clock = Skewed()

    async def main() -> None:
        async with (
            client_of(agent, clock=clock) as client,
            client.hold("w", purpose="p", namespace=namespace, lease_seconds=600, jeopardy_seconds=600) as lease,
        ):
            before = lease.deadline
            clock.slept_seconds = 700.0
            assert lease.standing is Standing.JEOPARDY
            await until(lambda: lease.standing is Standing.HELD, "the lease to be renewed after waking")
            assert lease.deadline > before + 600.0

    asyncio.run(main())


def test_a_body_that_shows_no_progress_is_no_longer_renewed(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """A wedged worker is not renewed for ever: its lease lapses and its block ends."""

    async def main() -> None:
        async with (
            client_of(agent) as client,
            client.hold("w", purpose="p", namespace=namespace, **SHORT, max_silence_seconds=1.0),
        ):
            await asyncio.Event().wait()

    with pytest.raises(worklease.LeaseLost, match="no progress for 1 s"):
        asyncio.run(main())
    Work(cluster, namespace, "w").reaches("Expired")


def test_a_second_holder_is_refused_and_told_until_when(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """WorkIsLeased says when to come back and nothing else (cases 13, 18)."""

    async def main() -> worklease.WorkIsLeased:
        async with (
            client_of(agent) as first,
            client_of(other) as second,
            first.hold("w", purpose="to do a secret", namespace=namespace),
        ):
            with pytest.raises(worklease.WorkIsLeased) as refused:
                async with second.hold("w", purpose="p", namespace=namespace):
                    raise AssertionError("two holders")
            return refused.value

    refusal = asyncio.run(main())
    assert refusal.until is not None
    assert "secret" not in str(refusal)
    assert "agent" not in str(refusal)


def test_two_blocks_of_one_process_do_not_take_the_work_from_each_other(namespace: str, agent: Identity) -> None:
    """The API server would admit a re-claim by the same instance; the client does not make one behind one's back."""

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace) as lease:
            with pytest.raises(worklease.WorkIsLeased, match="another block of this process"):
                async with client.hold("w", purpose="p", namespace=namespace):
                    raise AssertionError("two holders")
            async with client_of(agent) as second:
                with pytest.raises(worklease.WorkIsLeased, match="another block of this process"):
                    async with second.hold("w", purpose="p", namespace=namespace):
                        raise AssertionError("two holders")
            assert lease.standing is Standing.HELD

    asyncio.run(main())


def test_a_lease_that_was_never_held_is_not_lost(
    cluster: Cluster, namespace: str, other: Identity, operator: OperatorThread
) -> None:
    """What fails before the grant is a refusal, never LeaseLost (case 4); the missing verb is named."""

    async def main(name: str, create: bool) -> None:
        async with client_of(other) as client, client.hold(name, purpose="p", namespace=namespace, create=create):
            raise AssertionError("held")

    with pytest.raises(worklease.NoSuchWork, match="no such work item"):
        asyncio.run(main("none", False))
    with pytest.raises(worklease.NotPermitted, match=r"verb create on workleases.*worklease-agent-creator"):
        asyncio.run(main("none", True))
    holder = Agent.of(other)
    work = Work.create(cluster, namespace, lease_seconds=60)
    work.complete(holder, work.hold(holder)).must()
    work.reaches("Completed")
    with pytest.raises(worklease.WorkIsComplete):
        asyncio.run(main(work.name, False))


def test_a_defect_of_the_renewing_is_told_with_the_lease_and_ends_belief_by_the_clock(
    cluster: Cluster, namespace: str, agent: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    """A log line names the work and the error; the block is cancelled in time, as for any lease that is not renewed."""

    async def main() -> None:
        async with client_of(agent) as client, client.hold("w", purpose="p", namespace=namespace, **SHORT) as lease:

            async def defect(_timeout_seconds: float) -> None:
                raise ZeroDivisionError("a defect")

            lease._holding._renewals.send = defect  # type: ignore[method-assign,assignment]
            await asyncio.Event().wait()

    with pytest.raises(worklease.LeaseLost, match="defect: ZeroDivisionError") as lost:
        asyncio.run(main())
    assert lost.value.reason == LostReason.UNCERTAIN
    (told,) = [record for record in caplog.records if record.exc_info]
    assert told.getMessage().startswith(f"{namespace}/w: ")
    Work(cluster, namespace, "w").reaches("Expired")
