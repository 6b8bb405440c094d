"""The inbox, and what the documentation of handoffs and GitOps tells people to type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from repository import REPOSITORY
from support import documents
from support.cluster import Cluster, Identity, KubectlAnswer
from support.markdown import blocks
from support.offering import Offer, Team, teamed
from support.speaking import Agent

README, HANDOFFS, GITOPS = "README.md", "docs/handoffs.md", "docs/gitops.md"


def typed(text: str, team: Team, who: Agent | Identity, directory: Path) -> str:
    """What the block prints for this person; fails when a command of it does."""
    identity, variables = who, {}
    if isinstance(who, Agent):
        pod, uid = who.instance.removeprefix("pod:").split("/")
        identity, variables = who.identity, {"POD_NAME": pod, "POD_UID": uid}
    assert isinstance(identity, Identity)
    whole = f"cd {REPOSITORY}\n{text}"
    answer = documents.run(whole, team.cluster, identity, team.namespace, directory, **variables)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def test_the_holder_hands_work_over_as_in_the_readme(team: Team, tmp_path: Path) -> None:
    """In plain sh, with the holder's own token: the offer is pinned to its tenure and waits."""
    work = team.work(name="invoice-42")
    epoch = work.hold(team.alice)
    printed = typed(blocks(README)["handoff"], team, team.alice, tmp_path)
    assert "Pending" in printed
    offer = Offer(work, "invoice-42-to-bob")
    assert (offer.status["epoch"], offer.status["phase"]) == (epoch, "Pending")


def test_the_target_answers_and_takes_over_as_documented(team: Team, tmp_path: Path) -> None:
    """Inbox, answer, claim and every wait, in the order of a handoff; on work that is renewed all along (case 34)."""
    work, epoch = team.held()
    checkpoint = {"epoch": epoch, "uri": "s3://1", "digest": "sha256:1", "previousDigest": ""}
    work.say(team.alice, checkpoint=checkpoint).must()
    offer = Offer.make(work, team.alice, team.bob, "to-me", subject="the rest", message="Two of three are done.")
    assert "Two of three are done." in typed(blocks(HANDOFFS)["inbox"], team, team.bob, tmp_path)
    work.renew(team.alice, epoch).must()
    typed(blocks(HANDOFFS)["accept"], team, team.bob, tmp_path)
    work.renew(team.alice, epoch).must()
    printed = typed(blocks(HANDOFFS)["claim"], team, team.bob, tmp_path)
    assert "Handoff: handoff to-me: the rest" in printed
    assert '"digest":"sha256:1"' in printed
    work.renew(team.bob, offer.status["grantedEpoch"]).must()
    assert "Completed" in typed(blocks(HANDOFFS)["waits"], team, team.cluster.admin, tmp_path)


def test_the_directory_is_applied_as_documented(cluster: Cluster, tmp_path: Path) -> None:
    """The block of docs/gitops.md: twice, and the second time nothing changes."""
    with teamed(cluster) as alone:
        printed = typed(blocks(GITOPS)["apply"], alone, cluster.admin, tmp_path)
    for name in ("invoice-42", "invoice-43", "invoice-42-to-bob"):
        assert name in printed


def test_the_handoffs_of_somebody_read_as_an_inbox(team: Team, kubectl: Callable[..., KubectlAnswer]) -> None:
    """Columns for what it is about, who sent it, and until when to answer; selected by the server."""
    work, _ = team.held()
    mine = Offer.make(work, team.alice, team.carol, subject="the rest of it")
    other = Offer.make(work, team.alice, team.bob)
    answered = Offer.make(work, team.alice, team.carol)
    answered.respond(team.carol, "Rejected").must()
    answered.reaches("Rejected")
    mine.seen()
    other.seen()
    selector = f"spec.to.holderIdentity={team.carol.identity.username},status.phase=Pending"
    listed = kubectl(
        "get", "handoffs", f"--namespace={team.namespace}", f"--field-selector={selector}", identity=team.carol.identity
    )
    assert listed.exit_code == 0, listed.stderr
    header, row = listed.stdout.splitlines()
    assert header.split() == ["NAME", "LEASE", "FROM", "TO", "SUBJECT", "PHASE", "ANSWER-BY", "AGE"]
    cells = [cell.strip() for cell in row.split("   ") if cell.strip()]
    assert cells[:7] == [
        mine.name,
        work.name,
        team.alice.identity.username,
        team.carol.identity.username,
        "the rest of it",
        "Pending",
        mine.status["answerBy"],
    ]
    for field, value, found in (
        ("spec.from", team.alice.identity.username, {mine.name, other.name, answered.name}),
        ("spec.workLeaseName", work.name, {mine.name, other.name, answered.name}),
        ("status.phase", "Rejected", {answered.name}),
    ):
        parameters = {"fieldSelector": f"{field}={value},spec.workLeaseName={work.name}"}
        items = team.carol.identity.api.get(mine.path.rpartition("/")[0], **parameters).must()["items"]
        assert {item["metadata"]["name"] for item in items} == found
