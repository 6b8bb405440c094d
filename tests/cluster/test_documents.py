"""What the documentation tells people to type does what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import documents
from support.cluster import Cluster, Identity
from support.markdown import blocks
from support.speaking import Agent, Work
from support.waiting import wait_for

README, PROTOCOL, OPERATOR = "README.md", "docs/protocol.md", "docs/operator.md"
HANDOFFS, GITOPS = "docs/handoffs.md", "docs/gitops.md"
RUN_HERE = {
    README: {"item", "agent", "administrator", "handoff", "python", "shell"},
    PROTOCOL: {"takeover", "reconcile", "waits"},
    OPERATOR: {"help"},
    HANDOFFS: {"inbox", "accept", "claim", "waits"},
    GITOPS: {"apply"},
}
"""What is run in this file and, of handoffs and GitOps, in test_handoffs_docs.py."""


@pytest.fixture
def agent(cluster: Cluster, namespace: str) -> Identity:
    """An agent with a token that is bound to its pod."""
    return cluster.pod_identity(namespace, "agent", "agent-0", "worklease-agent")


@pytest.fixture
def item(cluster: Cluster, namespace: str, tmp_path: Path) -> Work:
    """The work item of the documentation, made as the README makes it."""
    answer = documents.run(blocks(README)["item"], cluster, cluster.admin, namespace, tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return Work(cluster, namespace, "invoice-42")


def hold_for_long(item: Work, holder: Agent) -> int:
    """Holds it for several renewals; the epoch."""
    epoch = item.hold(holder)
    for _ in range(3):
        item.renew(holder, epoch).must()
    return epoch


def test_every_block_that_is_marked_to_be_run_is_run_here() -> None:
    """No block is marked and then forgotten."""
    assert {document: set(blocks(document)) for document in RUN_HERE} == RUN_HERE


@pytest.mark.usefixtures("operator")
def test_the_agent_in_plain_sh_claims_works_and_completes(
    cluster: Cluster, namespace: str, agent: Identity, item: Work, tmp_path: Path
) -> None:
    """The ten lines of the README, with nothing but kubectl and the agent's own token, end in completed work."""
    pod, uid = agent.instance.removeprefix("pod:").split("/")
    text = blocks(README)["agent"]
    answer = documents.run(text, cluster, agent, namespace, tmp_path, POD_NAME=pod, POD_UID=uid)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    status = item.reaches("Completed")
    (tenure,) = status["history"]
    assert tenure["instance"] == agent.instance
    assert tenure["effects"]["succeeded"] == 1


@pytest.mark.usefixtures("operator")
def test_the_agent_in_python_holds_works_and_completes(
    cluster: Cluster, namespace: str, agent: Identity, item: Work, tmp_path: Path
) -> None:
    """The block of the README, with the agent's own token, ends in completed work and one reconciled effect."""
    text = blocks(README)["python"]
    answer = documents.run(text, cluster, agent, namespace, tmp_path, by=(sys.executable, "-c"))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Worklease-Epoch" in answer.stdout
    (tenure,) = item.reaches("Completed")["history"]
    assert (tenure["instance"], tenure["effects"]["succeeded"]) == (agent.instance, 1)


@pytest.mark.usefixtures("operator")
def test_the_agent_in_a_shell_holds_works_and_completes(
    cluster: Cluster, namespace: str, agent: Identity, item: Work, tmp_path: Path
) -> None:
    """The block of the README, with the agent's own token: its command ran under the epoch of the one tenure."""
    text = blocks(README)["shell"]
    answer = documents.run(text, cluster, agent, namespace, tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (tenure,) = item.reaches("Completed")["history"]
    assert (tenure["instance"], tenure["endMessage"]) == (agent.instance, "charged")
    assert f"charging under epoch {tenure['epoch']}" in answer.stdout
    assert f"epoch {tenure['epoch']}: {agent.username}" in answer.stdout


@pytest.mark.usefixtures("operator")
def test_a_refused_agent_in_plain_sh_exits_with_3_and_knows_until_when(
    cluster: Cluster, namespace: str, agent: Identity, item: Work, tmp_path: Path
) -> None:
    """Case 13: from its claim on, the script of the README ends, and its message is the advertised one."""
    item.hold(Agent.of(cluster.pod_identity(namespace, "other", "other-0", "worklease-agent")))
    pod, uid = agent.instance.removeprefix("pod:").split("/")
    text = "\n".join(line for line in blocks(README)["agent"].splitlines() if "condition=Claimable" not in line)
    answer = documents.run(text, cluster, agent, namespace, tmp_path, POD_NAME=pod, POD_UID=uid)
    assert answer.returncode == 3
    assert "spec.claim: Forbidden: work is leased until about 2" in answer.stderr
    assert "other" not in answer.stderr


@pytest.mark.usefixtures("operator")
def test_the_administrator_sees_suspends_revokes_and_reopens(
    cluster: Cluster, namespace: str, agent: Identity, item: Work, tmp_path: Path
) -> None:
    """Case 14: somebody who is not there any more is revoked, with a reason that stays; also after renewals."""
    holder = Agent.of(agent)
    epoch = hold_for_long(item, holder)
    wait_for(lambda: item.events(), "the grant to be recorded as an Event")
    text = blocks(README)["administrator"]
    answer = documents.run(text, cluster, cluster.admin, namespace, tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert agent.username in answer.stdout
    assert "Granted" in answer.stdout
    assert f"{epoch}\t{agent.username}\tFirstGrant" in answer.stdout
    (tenure,) = item.history
    assert (tenure["endReason"], tenure["endMessage"]) == ("Revoked", "INC-7: wrong amount")


@pytest.mark.usefixtures("operator")
def test_the_takeover_the_waits_and_the_reconciliation_of_the_protocol_page(
    cluster: Cluster, namespace: str, agent: Identity, item: Work, tmp_path: Path
) -> None:
    """The blocks of docs/protocol.md, in the order of an incident, on work that was renewed before."""
    holder = Agent.of(agent)
    epoch = hold_for_long(item, holder)
    begun = {"id": "charge-1", "epoch": epoch, "recipient": "payments", "action": "charge", "state": "Attempted"}
    item.say(holder, **{"effects/-": begun}).must()
    for name in ("waits", "takeover", "reconcile"):
        answer = documents.run(blocks(PROTOCOL)[name], cluster, cluster.admin, namespace, tmp_path)
        assert answer.returncode == 0, name + answer.stdout + answer.stderr
    assert item.status["grantReason"] == "AfterRevocation"
    assert item.status["grantMessage"] == "INC-7: stuck"
    (effect,) = item.read()["spec"]["effects"]
    assert (effect["state"], effect["detail"]) == ("Succeeded", "found in the ledger")


def test_the_operators_help_names_every_flag_and_its_default(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """worklease-operator --help, as the page on running it shows."""
    answer = documents.run(blocks(OPERATOR)["help"], cluster, cluster.admin, namespace, tmp_path)
    assert answer.returncode == 0, answer.stderr
    for flag in ("--epoch-floor", "--replicas", "--ordinal", "--namespace", "--listen", "--log-format"):
        assert flag in answer.stdout
