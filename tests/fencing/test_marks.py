"""The mark only grows, equal epochs pass and lower ones are refused, wherever the mark is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.recipients import Recipient
from worklease.errors import StaleEpoch
from worklease.fencing import MAX_EPOCH, Token

MARKS = json.loads((Path(__file__).parents[2] / "docs/fencing/vectors.json").read_text())["marks"]
EPOCHS = st.integers(1, 6) | st.integers(MAX_EPOCH - 2, MAX_EPOCH) | st.integers(1, MAX_EPOCH)
LEASES = ["payments/invoice-42", "payments/invoice-4", "eu.example/payments/invoice-42", "payments/" + "x" * 253]


def attempt(recipient: Recipient, token: Token) -> tuple[str, int | None]:
    """Tries one effect: "pass", or "stale" with the highest epoch that the refusal names."""
    try:
        recipient.effect(token)
    except StaleEpoch as error:
        named = (error.lease, error.epoch) == (token.lease, token.epoch)
        return "stale" if named else str(error), error.highest
    return "pass", None


def test_vectors(recipient: Recipient) -> None:
    """Every mark goes through the steps of the vectors as they say."""
    for number, vector in enumerate(MARKS):
        lease = f"vectors/number-{number}"
        if vector["mark"] is not None:
            recipient.effect(Token(lease, vector["mark"]))
        for step in vector["steps"]:
            outcome, highest = attempt(recipient, Token(lease, step["epoch"]))
            assert outcome == step["expect"], vector["name"]
            assert highest in (None, step["mark"]), vector["name"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from(LEASES), EPOCHS), max_size=12), data=st.data())
def test_any_sequence_leaves_the_effects_that_the_rule_allows(
    recipient: Recipient, steps: list[tuple[str, int]], data: Any
) -> None:
    """Exactly those effects happen that are not below the highest epoch before them, each lease on its own."""
    run = f"run-{data.draw(st.integers(0, 2**62), label='run'):x}"
    tokens = [Token(lease.replace("payments/", f"{run}/", 1), epoch) for lease, epoch in steps]
    leases = {token.lease for token in tokens}
    highest = dict.fromkeys(leases, 0)
    for lease, epoch in recipient.effects():
        if lease in leases:
            highest[lease] = max(highest[lease], epoch)
    before = len(recipient.effects())
    expected = []
    for token in tokens:
        if token.epoch >= highest[token.lease]:
            highest[token.lease] = token.epoch
            expected.append((token.lease, token.epoch))
            assert attempt(recipient, token) == ("pass", None)
        else:
            assert attempt(recipient, token) == ("stale", highest[token.lease])
    assert recipient.effects()[before:] == expected


def test_a_refused_effect_leaves_nothing_behind(recipient: Recipient) -> None:
    """After a refusal there is no effect, the mark is where it was, and the recipient goes on."""
    lease = "payments/invoice-42"
    recipient.effect(Token(lease, 7))
    with pytest.raises(StaleEpoch, match="stale epoch 6 for payments/invoice-42: epoch 7 has been here"):
        recipient.effect(Token(lease, 6))
    recipient.effect(Token(lease, 7, "another-claim-id"))
    assert recipient.effects() == [(lease, 7), (lease, 7)]
