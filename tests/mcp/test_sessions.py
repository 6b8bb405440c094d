"""How a session ends, cleanly or not, and how the next one goes on: nothing is renewed, and nothing lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from support.agents import Agent, over_http, over_stdio
from support.cluster import Cluster, Identity
from support.holding import until
from support.speaking import Agent as Holder
from support.speaking import Work

pytestmark = pytest.mark.usefixtures("operator")
SHORT = {"create": True, "lease_seconds": 10, "jeopardy_seconds": 0}


async def charging(agent: Agent, work: str, **more: Any) -> dict[str, Any]:
    """Claims, and begins an effect that it does not finish; the lease."""
    held = await agent.call("claim", work=work, purpose="charge it", create=True, **more)
    await agent.call("begin_effect", work=work, recipient="payments", action="charge", id="charge-1")
    lease: dict[str, Any] = held["lease"]
    return lease


def left_unknown(work: Work) -> None:
    """The work is free again, and the effect is there with an outcome that nobody knows."""
    status = work.reaches("Released")
    assert status["history"][-1]["endMessage"] == "the session of the agent has ended"
    (effect,) = work.read()["spec"]["effects"]
    assert (effect["id"], effect["state"]) == ("charge-1", "Unknown")


@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM"])
def test_a_session_over_stdio_that_ends_gives_its_work_back(
    how: str, cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """What was begun and not finished is Unknown (cases 9, 29)."""

    async def main() -> None:
        with contextlib.suppress(Exception):  # the transport may notice that its server went first
            async with over_stdio(agent) as one:
                await charging(one, f"{namespace}/w")
                if how == "SIGTERM":
                    os.kill(one.process_id, signal.SIGTERM)
                    await until(lambda: not Path(f"/proc/{one.process_id}/exe").exists(), "the server to end")

    asyncio.run(main())
    left_unknown(Work(cluster, namespace, "w"))


@pytest.mark.parametrize("how", ["DELETE", "silence of a session", "silence of a user", "SIGTERM"])
def test_a_session_over_http_that_ends_gives_its_work_back(
    how: str, cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path
) -> None:
    """By its owner's word, by silence, or with the server. Requests without a session are their user's."""
    mode = "auto" if how == "silence of a user" else "legacy"
    flags = ("--idle-seconds", "2") if "silence" in how else ()

    async def main() -> None:
        with over_http(cluster, tmp_path / "log", *flags) as server:
            with contextlib.suppress(Exception):
                async with server.agent(agent.token, mode) as one:
                    await charging(one, f"{namespace}/w")
                    if "silence" in how:
                        await asyncio.to_thread(left_unknown, Work(cluster, namespace, "w"))
                    elif how == "SIGTERM":
                        server.process.send_signal(signal.SIGTERM)
                        await asyncio.to_thread(server.process.wait, 30)
            await asyncio.to_thread(left_unknown, Work(cluster, namespace, "w"))

    asyncio.run(main())


def test_a_lease_that_is_left_to_lapse_is_resumed_by_the_claim_s_id(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """The same user and instance goes on under the same epoch; nobody else, and not without the id."""
    work = f"{namespace}/w"
    flags = ("--at-end", "lapse", "--instance", "laptop/1")

    async def main() -> None:
        async with over_stdio(agent, *flags) as one:
            before = await charging(one, work)
        assert Work(cluster, namespace, "w").status["phase"] == "Held"
        resuming = {"work": work, "purpose": "go on", "resume_claim_id": before["claim_id"]}
        async with over_stdio(agent) as another:
            assert (await another.refused("claim", **resuming))["reason"] == "ClaimRefused"
        async with over_stdio(other, *flags) as foreign:
            assert (await foreign.refused("claim", **resuming))["reason"] == "ClaimRefused"
        async with over_stdio(agent, *flags) as two:
            mistaken = await two.refused("claim", work=work, purpose="go on", resume_claim_id="another-one")
            assert mistaken["reason"] == "ClaimRefused"
            after = await two.call("claim", **resuming)
            assert after["lease"]["epoch"] == before["epoch"]
            assert [effect["state"] for effect in after["unreconciled"]] == ["Unknown"]
            await two.call("reconcile", work=work, id="charge-1", state="Succeeded")
            await two.call("complete", work=work, message="charged")

    asyncio.run(main())
    assert [tenure["epoch"] for tenure in Work(cluster, namespace, "w").reaches("Completed")["history"]] == [
        Work(cluster, namespace, "w").epoch
    ]


@pytest.mark.parametrize("state", ["held", "an effect is begun", "offered", "waiting"])
def test_a_server_that_is_killed_leaves_nothing_renewed_and_nothing_lost(
    state: str, cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """The lease lapses by itself, effects stay Attempted, offers stay; the work goes on with another (cases 20, 29)."""
    work = Work.create(cluster, namespace, "w", lease_seconds=10)
    holder = Holder.of(other)

    async def killed() -> None:
        async with over_stdio(agent) as one:
            asked = {"work": f"{namespace}/w", "purpose": "charge it"}
            if state == "waiting":
                epoch = await asyncio.to_thread(work.hold, holder)
                waiting = asyncio.create_task(one.call("claim", wait_seconds=60, **asked))
                await one.call("status", work=f"{namespace}/w")
                os.kill(one.process_id, signal.SIGKILL)
                await asyncio.gather(waiting, return_exceptions=True)
                await asyncio.to_thread(lambda: work.release(holder, epoch).must())
                return
            await one.call("claim", **asked)
            if state == "an effect is begun":
                await one.call(
                    "begin_effect", work=f"{namespace}/w", recipient="payments", action="charge", id="charge-1"
                )
            elif state == "offered":
                await one.call("offer_handoff", work=f"{namespace}/w", to=other.username)
            os.kill(one.process_id, signal.SIGKILL)

    with contextlib.suppress(Exception):
        asyncio.run(killed())
    before = work.read()["spec"].get("renewal")
    status = work.reaches("Released" if state == "waiting" else "Expired")
    assert work.read()["spec"].get("renewal") == before
    assert all(
        tenure["holderIdentity"] == (other if state == "waiting" else agent).username for tenure in status["history"]
    )

    async def going_on() -> None:
        async with over_stdio(other) as two:
            if state == "offered":
                (offer,) = (await two.call("inbox", namespace=namespace))["offers"]
                await two.call("accept_handoff", handoff=offer["handoff"])
            else:
                held = await two.call("claim", work=f"{namespace}/w", purpose="go on")
                left = [effect["state"] for effect in held["unreconciled"]]
                assert left == (["Attempted"] if state == "an effect is begun" else [])
            if state == "an effect is begun":
                refusal = await two.refused("begin_effect", work=f"{namespace}/w", recipient="mail", action="send")
                assert refusal["reason"] == "EffectsUnreconciled"
                await two.call("reconcile", work=f"{namespace}/w", id="charge-1", state="Failed")
            await two.call("complete", work=f"{namespace}/w", message="done")

    asyncio.run(going_on())
    work.reaches("Completed")


def test_an_agent_that_calls_nothing_is_no_longer_renewed(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """A session that lives on without its agent keeps no work; the next call says that it is lost."""
    work = f"{namespace}/w"

    async def main() -> None:
        async with over_stdio(agent, "--max-silence-seconds", "1") as one:
            await one.call("claim", work=work, purpose="p", **SHORT)
            await asyncio.to_thread(Work(cluster, namespace, "w").reaches, "Expired")
            answer = await one.call("status", work=work)
            assert [(w["work"], w["standing"]) for w in answer["warnings"]] == [(work, "Lost")]
            assert answer["lease"] is None
            assert (await one.refused("checkpoint", work=work, uri="s3://1", digest="1"))["reason"] == "LeaseLost"
            assert (await one.call("status", work=work))["warnings"] == []

    asyncio.run(main())


def test_an_agent_that_keeps_calling_is_renewed(namespace: str, agent: Identity) -> None:
    """Any call shows that it is alive, also after a silence that was too long, and renew renews at once."""
    work = f"{namespace}/w"

    async def main() -> None:
        async with over_stdio(agent, "--max-silence-seconds", "5") as one:
            first = await one.call("claim", work=work, purpose="p", **SHORT)
            await asyncio.sleep(6.0)  # the silence is the input
            after = await one.call("renew", work=work)
            assert after["lease"]["epoch"] == first["lease"]["epoch"]
            assert after["lease"]["certain_for_seconds"] > 8.0

    asyncio.run(main())


def test_a_claim_that_is_given_up_while_it_waits_claims_nothing(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """A call that its client cancels leaves no claim behind, and the session goes on."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    holder = Holder.of(other)
    asked = {"work": f"{namespace}/w", "purpose": "p"}

    async def main() -> None:
        async with over_stdio(agent, "--max-leases", "1") as one:
            epoch = await asyncio.to_thread(work.hold, holder)
            waiting = asyncio.create_task(one.call("claim", wait_seconds=120, **asked))
            after = asyncio.create_task(one.refused("claim", **asked))  # sent, and so served, after the first
            assert "this session" in (await after)["detail"]
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await one.call("claim", work=f"{namespace}/else", purpose="the room is free", create=True)
            await asyncio.to_thread(lambda: work.release(holder, epoch).must())
            await asyncio.to_thread(work.reaches, "Released")
            await one.call("release", work=f"{namespace}/else", reason="enough")
            assert [tenure["epoch"] for tenure in work.history] == [epoch]

    asyncio.run(main())


def test_a_holder_goes_on_under_a_fresh_epoch_by_a_reclaim(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Not beside an effect that is begun; the log then has room again for what comes."""
    work = f"{namespace}/w"

    async def main() -> None:
        async with over_stdio(agent) as one:
            before = await charging(one, work)
            assert (await one.refused("reclaim", work=work))["reason"] == "EffectsUnreconciled"
            await one.call("finish_effect", work=work, id="charge-1", state="Succeeded")
            after = (await one.call("reclaim", work=work, purpose="and the rest"))["lease"]
            assert after["epoch"] > before["epoch"]
            assert after["effects_left"] == 64
            begun = await one.call("begin_effect", work=work, recipient="mail", action="send")
            assert begun["headers"]["Worklease-Epoch"] == str(after["epoch"])
            await one.call("finish_effect", work=work, id=begun["id"], state="Failed")
            await one.call("complete", work=work, message="done")

    asyncio.run(main())
    history = Work(cluster, namespace, "w").reaches("Completed")["history"]
    assert [tenure["endReason"] for tenure in history] == ["Reclaimed", "Completed"]


def test_an_effect_s_id_is_one_effect_s(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Begun twice, even at once, it is logged once; for something else the id is refused."""
    work = f"{namespace}/w"
    same = {"work": work, "recipient": "mail", "action": "send", "id": "mail-1"}

    async def main() -> None:
        async with over_stdio(agent) as one:
            await charging(one, work)
            refusal = await one.refused("begin_effect", work=work, recipient="mail", action="refund", id="charge-1")
            assert refusal["reason"] == "StatementRefused"
            first, second = await asyncio.gather(one.call("begin_effect", **same), one.call("begin_effect", **same))
            assert first["headers"] == second["headers"]
            for id in ("charge-1", "mail-1"):
                await one.call("finish_effect", work=work, id=id, state="Succeeded")
            await one.call("reclaim", work=work)
            await one.call("complete", work=work, message="done")

    asyncio.run(main())
    logged = Work(cluster, namespace, "w").read()["spec"]["effects"]
    assert sorted(effect["id"] for effect in logged) == ["charge-1", "mail-1"]
