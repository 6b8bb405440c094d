"""Who may offer, answer and withdraw a handoff, one line each."""

from collections.abc import Callable
from typing import Any

import pytest

from support.api import Answer
from support.cluster import Identity
from support.stage import Item, Row, Stage, judge, offered
from support.words import adds


def nothing(stage: Stage) -> Item:
    """No handoff yet."""
    return Item(stage, "handoffs", "")


def to_rival(stage: Stage) -> Item:
    """An offer of the agent's pod to any process of the rival."""
    return stage.offer()


def to_sibling(stage: Stage) -> Item:
    """An offer of the agent's pod to its sibling, and to no other process of their ServiceAccount."""
    agent, sibling = stage.who("agent"), stage.who("sibling")
    return stage.offer(to={"holderIdentity": agent.username, "instance": sibling.instance})


def unsigned(stage: Stage) -> Item:
    """An administrator's offer to the rival, which names no sender."""
    spec = offered(stage.root, stage.who("rival"), **{"from": None, "fromInstance": None})
    item, answer = stage.create(stage.root, "handoffs", spec)
    answer.must()
    return item


Says = Callable[[Item, Identity], Answer]


def offers(sender: str = "", **spec: Any) -> Says:
    """Offers to the rival, in the name of `sender` or in one's own."""

    def say(item: Item, who: Identity) -> Answer:
        named = item.stage.who(sender) if sender else who
        return item.stage.create(who, "handoffs", offered(named, item.stage.who("rival"), **spec))[1]

    return say


def responds(decision: str) -> Says:
    return lambda item, who: item.patch(who, adds(response={"decision": decision, "reason": ""}))


UNSIGNED: dict[str, Any] = {"from": None, "fromInstance": None}
ROWS = [
    Row("the holder offers", "agent", nothing, offers()),
    Row("a process without a pod offers", "desk", nothing, offers()),
    Row(
        "a sibling pod offers in the holder's name",
        "sibling",
        nothing,
        offers("agent"),
        "handoff.sender",
        ("from must be system:serviceaccount:", ":agent and fromInstance pod:agent-1/", "verb delegate"),
    ),
    Row(
        "another agent offers in the holder's name",
        "rival",
        nothing,
        offers("agent"),
        "handoff.sender",
        (":rival and fromInstance pod:rival-0/",),
    ),
    Row(
        "a token without a pod offers for a pod",
        "unbound",
        nothing,
        offers("agent"),
        "handoff.sender",
        (":agent and fromInstance not that of a pod",),
    ),
    Row("an agent offers without a sender", "agent", nothing, offers(**UNSIGNED), "handoff.sender", ("delegate",)),
    Row("Git offers without a sender", "gitops", nothing, offers(**UNSIGNED), "handoff.sender", ("delegate",)),
    Row("a handler offers without a sender", "handler", nothing, offers(**UNSIGNED), "handoff.sender", ("delegate",)),
    Row("an administrator offers without a sender", "chief", nothing, offers(**UNSIGNED)),
    Row("an administrator offers in the holder's name", "chief", nothing, offers("agent")),
    Row("the target accepts", "rival", to_rival, responds("Accepted")),
    Row("the target rejects", "rival", to_rival, responds("Rejected")),
    Row("the named process accepts", "sibling", to_sibling, responds("Accepted")),
    Row("another process of the target accepts", "agent", to_sibling, responds("Accepted"), "handoff.target"),
    Row(
        "the target's ServiceAccount accepts without a pod",
        "unbound",
        to_sibling,
        responds("Accepted"),
        "handoff.target",
    ),
    Row("the sender accepts", "agent", to_rival, responds("Accepted"), "handoff.target"),
    Row("a third agent rejects", "desk", to_rival, responds("Rejected"), "handoff.target"),
    Row("an administrator accepts", "chief", to_rival, responds("Accepted"), "handoff.target"),
    Row("the cluster's administrator rejects", "root", to_rival, responds("Rejected"), "handoff.target"),
    Row("the sender withdraws", "agent", to_rival, responds("Withdrawn")),
    Row("a sibling pod withdraws", "sibling", to_rival, responds("Withdrawn"), "handoff.withdrawal"),
    Row("the target withdraws", "rival", to_rival, responds("Withdrawn"), "handoff.withdrawal"),
    Row("Git withdraws", "gitops", to_rival, responds("Withdrawn"), "handoff.withdrawal"),
    Row("an administrator withdraws", "chief", to_rival, responds("Withdrawn")),
    Row("the target withdraws what names no sender", "rival", unsigned, responds("Withdrawn"), "handoff.withdrawal"),
    Row("the target accepts what names no sender", "rival", unsigned, responds("Accepted")),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_handoff(row: Row, stage: Stage) -> None:
    """An offer is its sender's, an answer its target's, and not even an administrator accepts for somebody else."""
    judge(row, stage)


def test_answer_is_applied_under_the_name_of_the_statement(stage: Stage) -> None:
    """On the server side a response is applied by the field manager `response`, and by no other."""
    item, rival = stage.offer(), stage.who("rival")
    spec: Any = {"response": {"decision": "Accepted", "reason": ""}}
    assert item.apply(rival, "kubectl", **spec).status == 403
    item.apply(rival, "response", **spec).must()
