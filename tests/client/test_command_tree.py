"""worklease tree: every tenure with its effects, what it was granted by, and what it was offered to."""

from __future__ import annotations

import json

import pytest

from support.cluster import Cluster, Identity
from support.shell import Shell
from support.speaking import Agent, Work

pytestmark = pytest.mark.usefixtures("operator")


def handed_over(cluster: Cluster, namespace: str, agent: Identity, other: Identity) -> tuple[int, int]:
    """Work with an effect, rejected by hand once and then accepted: the epochs of both tenures."""
    sender, target = Shell(agent, namespace), Shell(other, namespace, user="other")
    given = int(sender.call("claim", "w", "--create", "--purpose", "charge it")[1])
    effect = {"id": "charge-1", "epoch": given, "recipient": "payments", "action": "charge", "state": "Attempted"}
    Work(cluster, namespace, "w").say(Agent(agent, "cli:test/me"), **{"effects/-": effect}).must()
    for answer in ("reject", "accept"):
        name = sender.call("handoff", "create", "w", "--to", other.username, "--subject", "the rest")[1].strip()
        target.call("handoff", answer, name.removeprefix("handoff/"), "--reason", f"I {answer}")
    return given, Work(cluster, namespace, "w").epoch


def test_the_tree_shows_tenures_effects_and_handoffs(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity
) -> None:
    """For people as a tree, the oldest tenure first (case 22: nothing of the handoff is dropped)."""
    first, second = handed_over(cluster, namespace, agent, other)
    code, out, err = Shell(other, namespace).call("tree", "w")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == f"{namespace}/w: work w, Held"
    at, then = (next(i for i, line in enumerate(lines) if f"epoch {epoch}: " in line) for epoch in (first, second))
    of_first, of_second = "\n".join(lines[at:then]), "\n".join(lines[then:])
    assert f"{agent.username} (cli:test/me)" in of_first
    assert "to now" not in of_first
    assert ", HandedOver" in of_first.splitlines()[0]
    assert "purpose: charge it" in of_first
    assert "effect charge-1: payments charge Attempted" in of_first
    assert f"offered to {other.username}" in of_first
    assert "Rejected: I reject" in of_first
    assert "Completed: I accept" in of_first
    assert f"from {agent.username}: the rest" in of_second
    assert "to now" in of_second


def test_programs_read_the_tree(cluster: Cluster, namespace: str, agent: Identity, other: Identity) -> None:
    """The same as JSON."""
    first, second = handed_over(cluster, namespace, agent, other)
    read = json.loads(Shell(other, namespace).call("tree", "w", "-o", "json")[1])
    tenures = {tenure["epoch"]: tenure for tenure in read["tenures"]}
    assert list(tenures) == [first, second]
    assert [effect["id"] for effect in tenures[first]["effectsLogged"]] == ["charge-1"]
    offers = {offer["phase"]: offer["name"] for offer in tenures[first]["offers"]}
    assert offers.keys() == {"Rejected", "Completed"}
    assert tenures[second]["grantedBy"] == offers["Completed"]


def test_work_that_nobody_has_held_has_an_empty_tree(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """And says so."""
    Work.create(cluster, namespace, "w")
    assert "nobody has held it" in Shell(agent, namespace).call("tree", "w")[1]
