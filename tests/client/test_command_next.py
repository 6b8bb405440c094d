"""status says who may act next and why, also while the operator has not decided yet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from worklease.api.worklease import WorkLease
from worklease.cli.show import expires_in, next_actor, sentences

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
HELD = {
    "phase": "Held", "epoch": 7, "holderIdentity": "ann", "instance": "host:a", "claimID": "c7",
    "acquireTime": "2026-11-30T11:59:00.000000Z", "leaseDurationSeconds": 100, "jeopardyDurationSeconds": 10,
}  # fmt: skip
CLAIM = {"epoch": 7, "id": "c8", "holderIdentity": "bob", "instance": "host:b", "purpose": "p"}
SUCCESSOR = {"holderIdentity": "bob", "handoff": "h", "handoffUID": "u", "until": "2026-11-30T12:05:00Z"}


def work(status: dict[str, Any] | None = None, metadata: dict[str, str] | None = None, **spec: Any) -> WorkLease:
    """A work item with these parts."""
    return WorkLease.model_validate(
        {
            "metadata": {"name": "w", "namespace": "n", **(metadata or {})},
            "spec": {"work": {"type": "t", "id": "i"}, **spec},
            "status": status or {},
        }
    )


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (work(), "whoever claims it: it is free"),
        (work(suspend=True), "nobody: it is suspended"),
        (work(HELD), "ann: it holds the lease"),
        (work(HELD, suspend=True), "ann: it holds the lease"),
        (work({**HELD, "phase": "Jeopardy"}), "ann, by a renewal; nobody else before the jeopardy is over"),
        (work(HELD, release={"epoch": 7, "reason": "r"}), "the operator: it ends the tenure by the release"),
        (work(HELD, release={"epoch": 6, "reason": "r"}), "ann: it holds the lease"),
        (work(HELD, revocation={"epoch": 7, "reason": "r"}), "the operator: it ends the tenure by the revocation"),
        (
            work(HELD, completion={"epoch": 7, "outcome": "Succeeded", "message": ""}),
            "the operator: it ends the tenure by the completion",
        ),
        (
            work(HELD, revocation={"epoch": 7, "reason": "r"}, claim=CLAIM),
            "the operator: it decides the claim of bob",
        ),
        (work({"phase": "Released", "epoch": 7}, claim=CLAIM), "the operator: it decides the claim of bob"),
        (work({"phase": "Released", "epoch": 7, "observedClaimID": "c8"}, claim=CLAIM), "whoever claims it"),
        (
            work({**HELD, "successor": SUCCESSOR}),
            "bob: it has accepted handoff h, and may claim until 2026-11-30T12:05",
        ),
        (
            work({"phase": "Completed", "epoch": 7}, completion={"epoch": 7, "outcome": "Succeeded", "message": ""}),
            "nobody: the work is complete; revoking the completion reopens it",
        ),
        (
            work({"phase": "Completed", "epoch": 7}, revocation={"epoch": 7, "reason": "r"}),
            "the operator: it ends the tenure by the revocation",
        ),
        (work(HELD, {"deletionTimestamp": "2026-11-30T12:00:00Z"}), "nobody: the work item is being deleted"),
    ],
)
def test_who_may_act_next_and_why(seen: WorkLease, said: str) -> None:
    """By the statements that are there and by what was decided, in the operator's order."""
    assert next_actor(seen).startswith(said)


def test_the_time_that_is_left_goes_by_the_last_renewal_of_this_epoch() -> None:
    """A renewal of an earlier epoch says nothing; past its end it is 0; free work has none."""
    assert expires_in(work(HELD), NOW) == "50s"
    renewal = {"epoch": 7, "renewTime": "2026-11-30T11:59:50.000000Z"}
    assert expires_in(work(HELD, renewal=renewal), NOW) == "100s"
    assert expires_in(work(HELD, renewal={**renewal, "epoch": 6}), NOW) == "50s"
    assert expires_in(work({**HELD, "acquireTime": "2026-11-30T10:00:00.000000Z"}), NOW) == "0s"
    assert expires_in(work(), NOW) == ""


def test_unreconciled_effects_are_in_sight() -> None:
    """Those that are Attempted or Unknown, and no others."""
    effect = {"id": "e1", "epoch": 7, "recipient": "payments", "action": "charge", "state": "Unknown"}
    done = {**effect, "id": "e2", "state": "Succeeded"}
    (line,) = [line for line in sentences(work(HELD, effects=[effect, done]), NOW) if line.startswith("unreconciled")]
    assert line == "unreconciled: payments charge Unknown (e1)"
