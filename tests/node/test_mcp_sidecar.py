"""The example of an agent with its MCP server beside it, in a pod: it holds as that pod, through tools alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster import Cluster
from support.pods import POLL_SECONDS, WITHIN_SECONDS
from support.shared_node import IMAGE
from support.speaking import Work
from support.waiting import wait_for

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mcp" / "sidecar.yaml"
WORK = "invoice-42"
# What an agent does: it reads the token for each connection, as the kubelet renews it.
AGENT = """
import asyncio, sys
from pathlib import Path
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

async def main():
    headers = {"Authorization": "Bearer " + Path("/token/token").read_text()}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(streamable_http_client("http://127.0.0.1:8080/mcp", http_client=http)) as client:
            async def call(tool, **arguments):
                result = await client.call_tool(tool, {"work": "invoice-42", **arguments})
                assert not result.is_error, result.structured_content
                return result.structured_content
            print((await call("claim", purpose="charge it"))["lease"]["standing"], flush=True)
            effect = await call("begin_effect", recipient="payments", action="charge")
            await call("finish_effect", id=effect["id"], state="Succeeded")
            if "complete" in sys.argv:
                await call("complete", message="charged")
            else:
                await asyncio.sleep(3600)

asyncio.run(main())
"""


def deploy(cluster: Cluster, namespace: str, *arguments: str) -> str:
    """Applies the example with this agent in it; the pod as an instance."""
    objects = list(yaml.safe_load_all(EXAMPLE.read_text().replace("IMAGE\n", f"{IMAGE}\n")))
    (pod,) = (found for found in objects if found["kind"] == "Pod")
    pod["spec"]["restartPolicy"] = "Never"
    (agent,) = pod["spec"]["containers"]
    agent |= {"image": IMAGE, "command": ["python3", "-c", AGENT, *arguments]}
    given = {"apiVersion": "v1", "kind": "List", "items": objects}
    answer = cluster.kubectl("apply", "-n", namespace, "--validate=strict", "-f", "-", given=given)
    assert answer.exit_code == 0, answer.stderr
    uid = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/agent").must()["metadata"]["uid"]
    return f"pod:agent/{uid}"


@pytest.mark.parametrize("end", ["complete", "deleted"])
def test_an_agent_holds_through_the_server_beside_it_as_its_pod(cluster: Cluster, namespace: str, end: str) -> None:
    """From claim to completion; a pod that is deleted while it holds gives its work back (case 9)."""
    work = Work.create(cluster, namespace, WORK, lease_seconds=600)
    instance = deploy(cluster, namespace, end)

    def reached() -> dict[str, Any]:
        status = work.status
        logged = [effect["state"] for effect in work.read()["spec"]["effects"]]
        wanted = "Completed" if end == "complete" else "Held"
        return dict(status) if status["phase"] == wanted and logged == ["Succeeded"] else {}

    status = wait_for(reached, "the agent to work", WITHIN_SECONDS, POLL_SECONDS)
    (tenure,) = status["history"]
    assert tenure["instance"] == instance
    assert tenure["holderIdentity"] == f"system:serviceaccount:{namespace}:agent"
    if end == "deleted":
        cluster.kubectl("-n", namespace, "delete", "pod", "agent", "--wait=false")
        ended = wait_for(
            lambda: work.status["phase"] == "Released" and work.history, "the release", WITHIN_SECONDS, POLL_SECONDS
        )
        assert ended[-1]["endMessage"] == "the session of the agent has ended"
