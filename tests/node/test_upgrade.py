"""The operator is restarted, replaced, upgraded and downgraded while leases are held: nobody loses one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repository import REPOSITORY
from support.cluster import Cluster
from support.helm import CHART, NAMESPACE
from support.pods import POLL_SECONDS, Pods
from support.shared_node import IMAGE, SharedNode
from support.waiting import wait_for

HELD = 20
WITHIN_SECONDS = 120.0
OPERATOR = "statefulset/worklease-operator"
HOLD_MANY = f"""
import asyncio, worklease

async def hold(name):
    async with worklease.hold(name, purpose="keep it", create=True, lease_seconds=40, jeopardy_seconds=20):
        await asyncio.Event().wait()

async def main():
    async with asyncio.TaskGroup() as group:
        for number in range({HELD}):
            group.create_task(hold(f"work-{{number}}"))

asyncio.run(main())
"""


class Held:
    """Leases of 40 s, all held and renewed by one pod."""

    def __init__(self, cluster: Cluster, namespace: str, pods: Pods) -> None:
        self._cluster = cluster
        self._pods = pods
        self._path = f"/apis/worklease.dev/v1alpha1/namespaces/{namespace}/workleases"
        cluster.service_account(namespace, "holder", "worklease-agent-creator")
        pods.start("holder", "holder", "python3", "-c", HOLD_MANY)
        self.before = wait_for(self._all_held, f"{HELD} leases to be held", WITHIN_SECONDS, POLL_SECONDS)

    def _statuses(self) -> dict[str, dict[str, Any]]:
        items = self._cluster.api.get(self._path).must()["items"]
        return {item["metadata"]["name"]: item["status"] for item in items}

    def _all_held(self) -> dict[str, int]:
        statuses = self._statuses()
        held = {name: status["epoch"] for name, status in statuses.items() if status["phase"] == "Held"}
        return held if len(held) == HELD else {}

    def assert_none_lost(self) -> None:
        """Each is held under the epoch of its first grant; a renewal that a busy machine delayed has come by then."""
        now = wait_for(self._none_lost, "every lease to be held still", WITHIN_SECONDS, POLL_SECONDS)
        assert now == self.before

    def _none_lost(self) -> dict[str, int]:
        statuses = self._statuses()
        assert {status["phase"] for status in statuses.values()} <= {"Held", "Jeopardy"}, self._pods.log("holder")
        assert {status["leaseTransitions"] for status in statuses.values()} == {1}
        return self._all_held()


@pytest.fixture
def rolled_out(cluster: Cluster) -> Callable[[], None]:
    """Waits until the operator's pods are the new ones, and ready."""

    def wait() -> None:
        answer = cluster.kubectl("-n", NAMESPACE, "rollout", "status", OPERATOR, "--timeout=180s")
        assert answer.exit_code == 0, answer.stderr

    return wait


def test_nobody_loses_a_lease_while_the_operator_is_restarted_replaced_and_upgraded(
    node: SharedNode, cluster: Cluster, namespace: str, pods: Pods, rolled_out: Callable[[], None], tmp_path: Path
) -> None:
    """A rolling restart, another image, the chart of the commit before and this one again (case 5)."""
    held = Held(cluster, namespace, pods)

    cluster.kubectl("-n", NAMESPACE, "rollout", "restart", OPERATOR)
    rolled_out()
    held.assert_none_lost()

    repository, _, tag = IMAGE.rpartition(":")
    node.ctr("images", "tag", "--force", IMAGE, f"{repository}:{tag}-next")
    node.upgrade(CHART, f"--set=image.tag={tag}-next")
    rolled_out()
    held.assert_none_lost()

    for chart in (earlier_chart(tmp_path), CHART):
        if chart:
            node.upgrade(chart)
            rolled_out()
            held.assert_none_lost()


def earlier_chart(directory: Path) -> Path | None:
    """The chart of the commit before this one; None where there is no history or no chart in it."""
    archive = subprocess.run(
        ["git", "archive", "HEAD~1", "charts/worklease"], cwd=REPOSITORY, capture_output=True, timeout=60
    )
    if archive.returncode:
        return None
    subprocess.run(["tar", "-x"], cwd=directory, input=archive.stdout, check=True, timeout=60)
    chart = directory / "charts" / "worklease"
    return chart if (chart / "Chart.yaml").exists() else None
