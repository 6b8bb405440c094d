"""The commands that say one thing, and those that show: for people and scripts, by the ordinary roles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity
from support.shell import Shell
from support.speaking import Agent, Work
from worklease.cli.exits import Exit, table

pytestmark = pytest.mark.usefixtures("operator")
CLI_PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def test_one_users_shells_claim_renew_checkpoint_and_complete(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """Separate commands speak as one instance; each says what it has done."""
    shell = Shell(agent, namespace)
    code, out, err = shell.call("claim", "w", "--create", "--purpose", "to look at it")
    work = Work(cluster, namespace, "w")
    assert (code, out.strip()) == (Exit.DONE, str(work.epoch)), err
    assert "it lapses unless" in err
    assert shell.call("renew", "w")[0] == Exit.DONE
    assert work.read()["spec"]["renewal"]["epoch"] == work.epoch
    assert shell.call("checkpoint", "w", "--uri", "s3://work/1", "--digest", "sha256:1")[0] == Exit.DONE
    code, out, _ = shell.call("status", "w")
    assert code == Exit.DONE
    assert f"held by {agent.username} (cli:test/me) under epoch {work.epoch}" in out
    assert f"next: {agent.username}: it holds the lease" in out
    assert "expires in " in out
    assert shell.call("complete", "w", "--message", "all is well")[0] == Exit.DONE
    work.reaches("Completed")
    code, out, _ = shell.call("history", "w")
    assert "Completed: all is well" in out


def test_what_is_not_held_cannot_be_spoken_about(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """Releasing what is free, or somebody else's, or of a past epoch is an error (cases 15, 25)."""
    work = Work.create(cluster, namespace, lease_seconds=60)
    shell = Shell(agent, namespace)
    code, _, err = shell.call("release", work.name)
    assert (code, "does not hold it" in err) == (Exit.REFUSED, True)
    work.hold(Agent.of(other))
    assert shell.call("renew", work.name)[0] == Exit.REFUSED
    work.revoke(work.epoch).must()
    work.reaches("Revoked")
    assert shell.call("claim", work.name)[0] == Exit.DONE
    code, _, err = shell.call("release", work.name, "--epoch", "1")
    assert (code, "--epoch says epoch 1" in err) == (Exit.REFUSED, True)
    assert shell.call("release", work.name, "--reason", "enough")[0] == Exit.DONE
    assert work.reaches("Released")["history"][-1]["endMessage"] == "enough"


def test_an_administrator_revokes_suspends_and_takes_over(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """One write each: nobody slips in between; a takeover asks first, and shows what is open (case 14)."""
    work = Work.create(cluster, namespace, lease_seconds=60)
    holder = Agent.of(agent)
    epoch = work.hold(holder)
    begun = {"id": "charge-1", "epoch": epoch, "recipient": "payments", "action": "charge", "state": "Attempted"}
    work.say(holder, **{"effects/-": begun}).must()
    shell = Shell(cluster.admin, namespace)
    code, _, err = shell.call("takeover", work.name, "--reason", "INC-7")
    assert code == Exit.USAGE
    assert agent.username in err
    assert "unreconciled: Attempted payments charge (charge-1)" in err
    assert work.epoch == epoch
    code, out, err = shell.call("takeover", work.name, "--reason", "INC-7", "--yes", "--suspend")
    assert code == Exit.DONE, err
    assert int(out) == work.epoch > epoch
    assert "it lapses unless" in err
    assert work.status["grantMessage"] == "INC-7"
    assert work.read()["spec"]["suspend"] is True
    assert "payments    charge   Attempted" in shell.call("effects", work.name)[1]
    assert shell.call("revoke", work.name, "--reason", "enough", "--suspend")[0] == Exit.DONE
    work.reaches("Revoked")
    code, _, err = shell.call("revoke", work.name, "--reason", "again")
    assert (code, "no tenure to end" in err) == (Exit.REFUSED, True)
    assert shell.call("resume", work.name)[0] == Exit.DONE
    assert work.read()["spec"]["suspend"] is False
    code, _, err = Shell(other, namespace).call("suspend", work.name)
    assert (code, "verb configure" in err) == (Exit.REFUSED, True)


def test_what_is_shown_can_be_read_by_programs(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """json, yaml and name as kubectl prints them; a table of all that there is."""
    work = Work.create(cluster, namespace, suspend=True)
    shell = Shell(agent, namespace)
    assert json.loads(shell.call("status", work.name, "-o", "json")[1])["metadata"]["name"] == work.name
    assert shell.call("status", work.name, "-o", "name")[1].strip() == f"worklease/{work.name}"
    assert f"name: {work.name}" in shell.call("status", "-o", "yaml")[1]
    head, row = shell.call("status", "-o", "wide")[1].splitlines()
    assert head.split()[:3] == ["NAMESPACE", "NAME", "PHASE"]
    assert row.endswith("nobody: it is suspended")
    code, _, err = shell.call("status", "none")
    assert (code, "there is no such work item" in err) == (Exit.ERROR, True)


def test_work_is_handed_over_by_hand(cluster: Cluster, namespace: str, agent: Identity, other: Identity) -> None:
    """An offer shows in the target's inbox only; accepting it prints the epoch of the new tenure (case 22)."""
    sender, target = Shell(agent, namespace), Shell(other, namespace, user="other")
    given = int(sender.call("claim", "w", "--create")[1])
    code, out, err = sender.call("handoff", "create", "w", "--to", other.username, "--subject", "the rest")
    assert code == Exit.DONE, err
    name = out.strip().removeprefix("handoff/")
    assert name in target.call("inbox")[1]
    assert target.call("inbox", "-o", "name")[1] == out
    assert json.loads(target.call("inbox", "-o", "json")[1])["items"][0]["spec"]["subject"] == "the rest"
    assert name not in sender.call("inbox")[1]
    code, out, err = target.call("handoff", "accept", name)
    assert code == Exit.DONE, err
    assert int(out) > given
    tenure = Work(cluster, namespace, "w").history[-1]
    assert (tenure["grantReason"], tenure["purpose"]) == ("Handoff", "the rest")
    assert sender.call("renew", "w")[0] == Exit.REFUSED


def test_an_offer_is_answered_once_by_hand(cluster: Cluster, namespace: str, agent: Identity, other: Identity) -> None:
    """Rejected, it cannot be withdrawn any more; what is not held cannot be offered; delegating needs the verb."""
    sender, target = Shell(agent, namespace), Shell(other, namespace, user="other")
    sender.call("claim", "w", "--create")
    name = sender.call("handoff", "create", "w", "--to", other.username)[1].strip().removeprefix("handoff/")
    assert target.call("handoff", "reject", name, "--reason", "no time")[0] == Exit.DONE
    code, _, err = sender.call("handoff", "withdraw", name, "--reason", "changed my mind")
    assert code == Exit.REFUSED
    assert "Rejected" in err
    assert target.call("handoff", "create", "w", "--to", agent.username)[0] == Exit.REFUSED
    assert target.call("handoff", "accept", "none")[0] == Exit.ERROR
    code, _, err = target.call("handoff", "create", "w", "--to", other.username, "--delegated")
    assert (code, "verb delegate" in err) == (Exit.REFUSED, True)
    administrator = Shell(cluster.admin, namespace)
    code, out, _ = administrator.call("handoff", "create", "w", "--to", other.username, "--delegated")
    assert code == Exit.DONE
    assert target.call("handoff", "accept", out.strip().removeprefix("handoff/"))[0] == Exit.DONE


def test_the_page_has_the_exit_codes_of_the_command() -> None:
    """The table in docs/cli.md is made from the code."""
    assert table() in CLI_PAGE.read_text()
