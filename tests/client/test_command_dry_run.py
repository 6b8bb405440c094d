"""--dry-run=server and -o of every command that writes: the server is asked, and says what would be."""

from __future__ import annotations

import argparse
import json

import pytest
import yaml

from support.cluster import Cluster, Identity
from support.shell import Shell
from support.speaking import Agent, Work
from worklease.cli.exits import Exit
from worklease.cli.grammar import parser

pytestmark = pytest.mark.usefixtures("operator")
DRY = "--dry-run=server"
HELD = {
    "renew": (),
    "release": (),
    "complete": (),
    "checkpoint": ("--uri", "s3://1", "--digest", "sha256:1"),
    "revoke": ("--reason", "INC-7"),
    "takeover": ("--reason", "INC-7"),
    "suspend": (),
    "resume": (),
    "claim": (),
}
"""What can be said of work that one's own shells hold, by an administrator."""


def commands_with(flag: str) -> set[str]:
    """The commands that have this flag; those of a handoff as `handoff ANSWER`."""

    def found(command: argparse.ArgumentParser, name: str) -> set[str]:
        own = {name} if any(flag in action.option_strings for action in command._actions) else set()
        for action in command._actions:
            if isinstance(action, argparse._SubParsersAction):
                for branch, below in action.choices.items():
                    own |= found(below, f"{name} {branch}".strip())
        return own

    return found(parser(), "")


def test_every_command_that_writes_can_be_asked_for_a_dry_run() -> None:
    """No command is forgotten: here, and in the tests below."""
    handoffs = {f"handoff {answer}" for answer in ("create", "accept", "reject", "withdraw")}
    assert commands_with("--dry-run") == {*HELD, "hold", *handoffs}
    assert commands_with("--output") >= {*HELD, *handoffs}


@pytest.mark.parametrize("command", HELD)
def test_a_dry_run_says_so_and_stores_nothing(cluster: Cluster, namespace: str, command: str) -> None:
    """The work is as it was; -o prints it as it would be."""
    shell = Shell(cluster.admin, namespace)
    assert shell.call("claim", "w", "--create", "--lease-seconds", "600")[0] == Exit.DONE
    work = Work(cluster, namespace, "w")
    before = work.read()
    code, out, err = shell.call(command, "w", DRY, *HELD[command])
    assert (code, out.startswith(f"{namespace}/w "), out.endswith(" (server dry run)\n")) == (Exit.DONE, True, True), (
        err
    )
    code, out, _ = shell.call(command, "w", DRY, "-o", "json", *HELD[command])
    assert (code, json.loads(out)["metadata"]["uid"]) == (Exit.DONE, before["metadata"]["uid"])
    assert "managedFields" not in json.loads(out)["metadata"]
    assert shell.call(command, "w", DRY, "-o", "name", *HELD[command])[1] == "worklease/w\n"
    assert work.read() == before


def test_a_dry_run_of_what_is_refused_is_refused(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """With the same code and sentence: to ask costs nothing, and promises nothing false."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    work.hold(Agent.of(other))
    shell = Shell(agent, namespace)
    for words in (("claim", "w", DRY), ("hold", "w", DRY, "--", "echo", "ran")):
        code, out, err = shell.call(*words)
        assert (code, out, "work is leased until about 2" in err) == (Exit.REFUSED, "", True)
    assert shell.call("claim", "none", DRY)[0] == Exit.ERROR
    code, _, err = shell.call("suspend", "w", DRY)
    assert (code, "verb configure" in err) == (Exit.REFUSED, True)


def test_a_dry_run_of_hold_and_of_a_new_item_runs_and_creates_nothing(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """The command is not run; the work item is not there afterwards."""
    shell = Shell(agent, namespace)
    code, out, err = shell.run("hold", "w", "--create", DRY, "--", "echo", "ran")
    assert (code, "(server dry run)" in out, "ran\n" in out) == (Exit.DONE, True, False), err
    code, out, _ = shell.call("claim", "w", "--create", DRY, "-o", "yaml")
    assert (code, yaml.safe_load(out)["spec"]["claim"]["holderIdentity"]) == (Exit.DONE, agent.username)
    assert cluster.api.get(Work(cluster, namespace, "w").path).status == 404


def test_a_dry_run_of_a_handoff_offers_and_answers_nothing(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """Creating, accepting, rejecting, withdrawing."""
    sender, target = Shell(agent, namespace), Shell(other, namespace, user="other")
    sender.call("claim", "w", "--create")
    offer = ("handoff", "create", "w", "--to", other.username)
    code, out, err = sender.call(*offer, DRY)
    assert (code, out.endswith(" (server dry run)\n")) == (Exit.DONE, True), err
    assert target.call("inbox", "-o", "name")[1] == ""
    name = sender.call(*offer, "-o", "name")[1].strip().removeprefix("handoff/")
    for shell, answer in ((target, "accept"), (target, "reject"), (sender, "withdraw")):
        code, out, err = shell.call("handoff", answer, name, DRY, "--reason", "to see")
        assert (code, out.startswith(f"handoff/{name} "), "(server dry run)" in out) == (Exit.DONE, True, True), err
    assert target.call("inbox", "-o", "name")[1] == f"handoff/{name}\n"


def test_what_was_written_is_printed_as_the_server_answered(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """A claim shows what was decided upon it, the rest what was stored; the advice of a claim stays on stderr."""
    shell = Shell(agent, namespace)
    code, out, err = shell.call("claim", "w", "--create", "-o", "yaml")
    granted = yaml.safe_load(out)
    assert (code, granted["status"]["phase"], "it lapses unless" in err) == (Exit.DONE, "Held", True)
    assert granted["status"]["epoch"] == Work(cluster, namespace, "w").epoch
    assert (
        json.loads(shell.call("renew", "w", "-o", "json")[1])["spec"]["renewal"]["epoch"] == granted["status"]["epoch"]
    )
    assert shell.call("release", "w", "-o", "name")[1] == "worklease/w\n"
