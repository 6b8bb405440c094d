"""Agents in pods: a Deployment of two replicas of which one works at a time, whatever happens to the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support import documents
from support.agents_in_pods import WITHIN_SECONDS, WORK, Agents
from support.cluster import Cluster
from support.markdown import blocks
from support.pods import POLL_SECONDS
from support.shared_node import SharedNode
from support.waiting import wait_for

EXAMPLES = ["hold", "kubectl"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_holder_that_is_killed_hard_is_followed_after_expiry_under_a_higher_epoch(
    node: SharedNode, agents: Callable[..., Agents], example: str
) -> None:
    """Its pod says nothing more and is gone: the other replica waits for the lease's end, and works then (case 20)."""
    deployed = agents(example)
    epoch, killed = deployed.epoch, deployed.holder()
    deployed.freeze(killed)
    deployed.kubectl("delete", "pod", killed, "--grace-period=0", "--force")
    next_step = deployed.works_above(epoch)
    assert next_step.pod != killed
    assert deployed.tenure(epoch)["endReason"] == "Expired"
    deployed.assert_one_believed_at_a_time()


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_holder_whose_pod_is_deleted_with_grace_gives_the_work_back(
    agents: Callable[..., Agents], example: str
) -> None:
    """Its process ends on SIGTERM and releases, so nobody waits for an expiry (case 9)."""
    deployed = agents(example)
    epoch, deleted = deployed.epoch, deployed.holder()
    deployed.kubectl("delete", "pod", deleted, "--wait=false")
    next_step = deployed.works_above(epoch)
    assert next_step.pod != deleted
    assert deployed.tenure(epoch)["endReason"] == "Released"
    deployed.assert_one_believed_at_a_time()


def test_a_drain_of_the_node_moves_the_work_on_when_pods_run_again(agents: Callable[..., Agents]) -> None:
    """Evicted, the holder releases; the replicas that come after the drain go on under a higher epoch."""
    deployed = agents("hold")
    epoch, before = deployed.epoch, set(deployed.pods())
    nodes = deployed.kubectl("get", "nodes", "-o", "name").split()
    try:
        for node in nodes:
            # Of this test's pods alone: other tests go on meanwhile.
            selector = [f"--pod-selector=app=agent,namespace-of={deployed.namespace}"]
            deployed.kubectl("label", "pods", "-l", "app=agent", f"namespace-of={deployed.namespace}")
            deployed.kubectl("drain", node.removeprefix("node/"), *selector, "--timeout=120s")
        wait_for(
            lambda: deployed.lease()["status"]["phase"] == "Released",
            "the work to be released",
            WITHIN_SECONDS,
            POLL_SECONDS,
        )
    finally:
        for node in nodes:
            deployed.kubectl("uncordon", node.removeprefix("node/"))
    assert deployed.works_above(epoch).pod not in before
    assert deployed.tenure(epoch)["endReason"] == "Released"
    deployed.assert_one_believed_at_a_time()


def test_an_administrator_revokes_and_nobody_works_until_it_is_resumed(agents: Callable[..., Agents]) -> None:
    """Revoked with admission closed, nothing is admitted at once, and none begins; resumed, one does (case 11)."""
    deployed = agents("hold")
    epoch = deployed.epoch
    deployed.kubectl("patch", "worklease", WORK, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    revocation = f'{{"epoch":{epoch},"reason":"INC-7: wrong amount"}}'
    patch = f'[{{"op":"add","path":"/spec/revocation","value":{revocation}}}]'
    deployed.kubectl("patch", "worklease", WORK, "--type=json", "-p", patch)
    deployed.kubectl("wait", f"worklease/{WORK}", "--for=jsonpath={.status.phase}=Revoked", "--timeout=60s")
    ended = deployed.tenure(epoch)
    assert (ended["endReason"], ended["endMessage"]) == ("Revoked", "INC-7: wrong amount")
    deployed.kubectl("patch", "worklease", WORK, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    deployed.works_above(epoch)
    assert deployed.lease()["status"]["grantReason"] == "AfterRevocation"
    deployed.assert_one_worked_at_a_time()


def test_docs_node_is_true(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """The commands of docs/node.md, word for word: the deleted pod's tenure ends as Released."""
    assert set(blocks("docs/node.md")) == {"agents"}
    answer = documents.run(blocks("docs/node.md")["agents"], cluster, cluster.admin, namespace, tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "working under epoch" in answer.stdout
    assert "Released" in answer.stdout
