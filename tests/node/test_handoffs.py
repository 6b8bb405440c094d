"""Work that passes between pods, and from pods to people: a handoff out of Git, a takeover."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.agents_in_pods import WITHIN_SECONDS, WORK, Agents
from support.cluster import Cluster
from support.pods import POLL_SECONDS, Pods
from support.shell import Shell
from support.waiting import wait_for

GITOPS = Path(__file__).resolve().parents[2] / "examples" / "gitops" / "rbac.yaml"


def test_a_handoff_applied_by_a_gitops_account_moves_the_work_to_the_targets_pod(
    cluster: Cluster, namespace: str, agents: Callable[..., Agents], pods: Pods
) -> None:
    """Git offers what a pod holds; the target accepts by its own token, and holds under a higher epoch (case 22)."""
    deployed = agents("hold")
    epoch = deployed.epoch
    deployed.kubectl("apply", "-f", str(GITOPS))
    git = cluster.service_account(namespace, "gitops")
    bob = cluster.service_account(namespace, "bob", "worklease-agent")
    offer = {
        "apiVersion": "worklease.dev/v1alpha1",
        "kind": "Handoff",
        "metadata": {"name": "to-bob"},
        "spec": {"workLeaseName": WORK, "to": {"holderIdentity": bob.username}, "subject": "the last customer"},
    }
    deployed.kubectl("apply", "--server-side", "--field-manager=git", "-f", "-", identity=git, given=offer)
    accepted = pods.run("bob", "bob", "worklease", "handoff", "accept", "to-bob")
    assert accepted.exit_code == 0, accepted.log
    deployed.kubectl("wait", "handoff/to-bob", "--for=jsonpath={.status.phase}=Completed", "--timeout=60s")
    granted = int(deployed.kubectl("get", "handoff", "to-bob", "-o", "jsonpath={.status.grantedEpoch}"))
    assert granted > epoch
    tenure = deployed.tenure(granted)
    assert (tenure["holderIdentity"], tenure["grantReason"]) == (bob.username, "Handoff")
    # Bob's pod has ended without a word, so the agents go on when his lease has.
    deployed.works_above(granted)
    assert granted not in {step.epoch for step in deployed.steps()}
    deployed.assert_one_worked_at_a_time()


def test_an_administrator_takes_over_and_gives_back(
    cluster: Cluster, namespace: str, agents: Callable[..., Agents]
) -> None:
    """The taken work is the administrator's alone until it is released; the pods' processes have ended (case 11)."""
    deployed = agents("hold")
    epoch = deployed.epoch
    chief = Shell(cluster.service_account(namespace, "chief", "worklease-admin"), namespace)
    code, _, errors = chief.run("takeover", WORK, "--reason", "INC-8: stuck", "--yes")
    assert code == 0, errors
    status = deployed.lease()["status"]
    taken = int(status["epoch"])
    assert (status["phase"], status["holderIdentity"]) == ("Held", chief.identity.username)
    assert taken > epoch
    assert (deployed.tenure(epoch)["endReason"], deployed.tenure(epoch)["endMessage"]) == ("Revoked", "INC-8: stuck")
    wait_for(lambda: chief.run("release", WORK)[0] == 0, "the release", WITHIN_SECONDS, POLL_SECONDS)
    deployed.works_above(taken)
    assert taken not in {step.epoch for step in deployed.steps()}
    deployed.assert_one_worked_at_a_time()
