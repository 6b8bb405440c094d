"""Two agents and one piece of work, from claim to handoff to completion, by nothing but tools."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.agents import MODES, Agent, over_http, over_stdio
from support.cluster import Cluster, Identity
from support.speaking import Work

pytestmark = pytest.mark.usefixtures("operator")
MESSAGE = "two lines\nof what to know"


@contextlib.asynccontextmanager
async def two_agents(
    transport: str, mode: str, cluster: Cluster, first: Identity, second: Identity, directory: Path
) -> AsyncIterator[tuple[Agent, Agent]]:
    """Each over a process of its own, or both over one shared server."""
    if transport == "stdio":
        async with over_stdio(first, mode=mode) as one, over_stdio(second, mode=mode) as two:
            yield one, two
        return
    with over_http(cluster, directory / "log") as server:
        async with server.agent(first.token, mode) as one, server.agent(second.token, mode) as two:
            yield one, two


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_work_goes_from_claim_to_handoff_to_completion_by_tools_alone(
    transport: str, mode: str, cluster: Cluster, namespace: str, agent: Identity, other: Identity, tmp_path: Path
) -> None:
    """The message, the checkpoint and an open effect reach the target, which completes (cases 22, 29)."""
    work = f"{namespace}/w"

    async def main() -> tuple[int, int]:
        async with two_agents(transport, mode, cluster, agent, other, tmp_path) as (first, second):
            held = await first.call("claim", work=work, purpose="charge it", create=True)
            given = held["lease"]["epoch"]
            refusal = await second.refused("claim", work=work, purpose="me too")
            assert refusal["reason"] == "WorkIsLeased"
            assert refusal["until"]
            assert "charge" not in str(refusal)
            assert agent.username not in str(refusal)
            effect = await first.call("begin_effect", work=work, recipient="payments", action="charge")
            assert effect["headers"]["Worklease-Epoch"] == str(given)
            await first.call("finish_effect", work=work, id=effect["id"], state="Succeeded", detail="all of it")
            lost = await first.call("begin_effect", work=work, recipient="mail", action="send", id="mail-1")
            await first.call("finish_effect", work=work, id=lost["id"], state="Unknown", detail="no answer")
            assert (await first.call("renew", work=work))["lease"]["effects_left"] == 62
            await first.call("checkpoint", work=work, uri="s3://work/1", digest="sha256:1")
            sent = await first.call("offer_handoff", work=work, to=other.username, subject="the rest", message=MESSAGE)
            inbox = await second.until("inbox", lambda answer: answer["offers"], namespace=namespace)
            (offer,) = inbox["offers"]
            assert offer["handoff"] == sent["offer"]["handoff"]
            assert (offer["sender"], offer["message"]) == (agent.username, MESSAGE)
            taken = await second.call("accept_handoff", handoff=offer["handoff"])
            assert taken["offer"]["message"] == MESSAGE
            assert taken["checkpoint"] == {"uri": "s3://work/1", "digest": "sha256:1"}
            assert [left["id"] for left in taken["unreconciled"]] == ["mail-1"]
            ended = await first.until("status", lambda answer: answer["warnings"], work=work)
            assert ended["warnings"][0]["standing"] == "Ended"
            assert (await first.refused("complete", work=work, message="mine"))["reason"] == "LeaseLost"
            assert (await second.refused("complete", work=work, message="done"))["reason"] == "EffectsUnreconciled"
            await second.call("reconcile", work=work, id="mail-1", state="Failed", detail="it never left")
            assert (await second.call("complete", work=work, message="charged"))["ended"] == "Completed"
            await asyncio.to_thread(Work(cluster, namespace, "w").reaches, "Completed")
            assert (await first.refused("claim", work=work, purpose="again"))["reason"] == "WorkIsComplete"
            return given, taken["lease"]["epoch"]

    given, taken = asyncio.run(main())
    assert taken > given
    history = Work(cluster, namespace, "w").reaches("Completed")["history"]
    assert [(t["epoch"], t["endReason"]) for t in history] == [(given, "HandedOver"), (taken, "Completed")]
