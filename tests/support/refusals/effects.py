"""Which effects may be logged, how they are reconciled, and when they may be dropped."""

from __future__ import annotations

from support.refusals import POLICY, SCHEMA, Row
from support.refusals.states import (
    State,
    attempted,
    available,
    being_handed_over,
    compensated,
    completed,
    completion_stated,
    ended,
    expired,
    failed,
    held,
    held_again,
    held_again_after,
    jeopardised,
    jeopardy,
    reclaiming,
    release_stated,
    revocation_stated,
    revoked,
    succeeded,
    then,
    unknown,
)
from support.statements import (
    ADMIN,
    ALICE,
    BOB,
    Work,
    beyond,
    checkpoints,
    completes,
    drops,
    logs,
    moves,
    past,
    releases,
    removes,
    renews,
    revokes,
    states,
)
from support.words import effect
from worklease.api.fields import EFFECTS_MAX

NEW = "a new effect needs a lease that is held"
FORWARD = "an effect moves from Attempted"

REACHED: dict[str, State] = {
    "Attempted": attempted,
    "Unknown": unknown,
    "Succeeded": succeeded,
    "Failed": failed,
    "Compensated": compensated,
}
"""An effect in each state."""
FORTH = {
    ("Attempted", "Succeeded"),
    ("Attempted", "Failed"),
    ("Attempted", "Unknown"),
    ("Unknown", "Succeeded"),
    ("Unknown", "Failed"),
    ("Unknown", "Compensated"),
    ("Succeeded", "Compensated"),
}


def earlier(state: str) -> State:
    """A second tenure that finds an effect of the first in this state."""
    return held_again_after(then(REACHED[state], ended("Expired")))


def full(work: Work, who: str) -> list[dict[str, object]]:
    """As many effects as there may be."""
    return [effect(work.epoch, f"e{number}") for number in range(EFFECTS_MAX)]


EFFECT_ADDED = (
    Row("while the lease is held", held, ALICE, logs()),
    Row("beside another", attempted, ALICE, logs("e2")),
    Row("two in one write", held, ALICE, logs("e1") & logs("e2")),
    Row("with a renewal and a checkpoint in one write", held, ALICE, renews() & checkpoints() & logs()),
    Row("beside a pending re-claim", reclaiming, ALICE, logs()),
    Row("in jeopardy", jeopardy, ALICE, logs(), "effects.standing", NEW),
    Row("after expiry", expired, ADMIN, logs(), "effects.standing", NEW),
    Row("after a revocation that is not decided yet", revocation_stated, ALICE, logs(), "effects.standing", NEW),
    Row("with a revocation in one write", held, ADMIN, logs() & revokes(), "effects.standing"),
    Row("after revocation", revoked, ADMIN, logs(), "effects.standing"),
    Row("after a release that is not decided yet", release_stated, ALICE, logs(), "effects.standing", NEW),
    Row("with the release in one write", held, ALICE, logs() & releases(), "effects.standing", NEW),
    Row("after a completion that is not decided yet", completion_stated, ALICE, logs(), "effects.standing", NEW),
    Row("with the completion in one write", held, ALICE, logs() & completes(), "effects.standing", NEW),
    Row("after completion (case 21)", completed, ADMIN, logs(), "effects.standing", NEW),
    Row("once a handoff has taken effect", being_handed_over, ALICE, logs(), "effects.standing", NEW),
    Row("of an earlier epoch (case 15)", held_again, ALICE, logs(epoch=past), "effects.attempted"),
    Row("of an epoch that has not been granted", held, ALICE, logs(epoch=beyond), "effects.attempted"),
    Row("of work that nobody has held", available, ADMIN, logs(epoch=beyond), "effects.attempted"),
    *(
        Row(f"born {state}", held, ALICE, logs(state=state), "effects.attempted", "logged as Attempted")
        for state in ("Succeeded", "Failed", "Unknown", "Compensated")
    ),
    Row(
        "before an earlier epoch's is reconciled (case 29)",
        earlier("Attempted"),
        ALICE,
        logs("e2"),
        "effects.reconciled",
        "effects of earlier epochs must be reconciled first",
    ),
    Row(
        "in the write that reconciles an earlier epoch's",
        earlier("Attempted"),
        ALICE,
        moves("e1", "Unknown") & logs("e2"),
        "effects.reconciled",
    ),
    Row("after an earlier epoch's is known to be unknown", earlier("Unknown"), ALICE, logs("e2")),
    Row("after an earlier epoch's is reconciled", earlier("Succeeded"), ALICE, logs("e2")),
    Row("with an id that is there", attempted, ALICE, logs("e1"), SCHEMA, "Duplicate value"),
    Row(f"as the last of {EFFECTS_MAX}", held, ALICE, states("effects", full)),
    Row(
        f"as one more than {EFFECTS_MAX}",
        then(held, (ALICE, states("effects", full))),
        ALICE,
        logs("more"),
        SCHEMA,
        "Too many",
    ),
    Row("by somebody else", held, BOB, logs(), POLICY, "only the holder"),
    Row("by an administrator: nobody speaks for a holder", held, ADMIN, logs(), POLICY, "only the holder"),
)

EFFECT_CHANGED = (
    *(Row(f"{old} to {new}", REACHED[old], ALICE, moves("e1", new)) for old, new in sorted(FORTH)),
    *(
        Row(f"{old} to {new}", REACHED[old], ALICE, moves("e1", new), "effect.forward", FORWARD)
        for old in REACHED
        for new in REACHED
        if old != new and (old, new) not in FORTH
    ),
    Row("a detail and a time beside the same state", attempted, ALICE, moves("e1", "Attempted", detail="sent")),
    Row("reconciled in jeopardy", then(attempted, jeopardised), ALICE, moves("e1", "Succeeded")),
    Row("reconciled after the release, undecided", then(attempted, (ALICE, releases())), ALICE, moves("e1", "Failed")),
    Row("an earlier epoch's, reconciled by the next holder", earlier("Attempted"), ALICE, moves("e1", "Unknown")),
    Row("reconciled by an administrator on free work", then(attempted, ended("Expired")), ADMIN, moves("e1", "Failed")),
    Row("its epoch", attempted, ALICE, moves("e1", "Attempted", epoch=1), "effect.epoch"),
    Row("its recipient", attempted, ALICE, moves("e1", "Attempted", recipient="mail"), "effect.recipient"),
    Row("its action", attempted, ALICE, moves("e1", "Attempted", action="refund"), "effect.action"),
    Row("a digest that it had not", attempted, ALICE, moves("e1", "Attempted", digest="sha256:1"), "effect.digest"),
    Row(
        "its digest",
        then(held, (ALICE, logs("e1", digest="sha256:1"))),
        ALICE,
        moves("e1", "Attempted", digest="sha256:2"),
        "effect.digest",
        "what an effect is never changes",
    ),
    Row(
        "its digest, removed",
        then(held, (ALICE, logs("e1", digest="sha256:1"))),
        ALICE,
        removes("effects/0/digest"),
        "effect.digest",
    ),
    Row("a time that CEL cannot read", attempted, ALICE, moves("e1", "Attempted", time="never"), SCHEMA, "time"),
)

EFFECT_DROPPED = (
    Row("a failed one of an earlier epoch", earlier("Failed"), ALICE, drops("e1")),
    Row("a successful one of an earlier epoch", earlier("Succeeded"), ALICE, drops("e1")),
    Row("a compensated one of an earlier epoch", earlier("Compensated"), ALICE, drops("e1")),
    Row("a reconciled one in the write that adds the next", earlier("Failed"), ALICE, drops("e1") & logs("e2")),
    Row("an attempted one of an earlier epoch", earlier("Attempted"), ALICE, drops("e1"), "effects.dropped"),
    Row("an unknown one of an earlier epoch", earlier("Unknown"), ALICE, drops("e1"), "effects.dropped"),
    *(
        Row(f"one of this epoch that is {state}", reached, ALICE, drops("e1"), "effects.dropped")
        for state, reached in REACHED.items()
    ),
    Row("all of them, by one null", attempted, ALICE, states("effects", lambda work, who: []), "effects.dropped"),
    Row(
        "one that is not reconciled, by an administrator on free work",
        then(unknown, ended("Expired")),
        ADMIN,
        drops("e1"),
        "effects.dropped",
    ),
    Row("one of the last epoch, from free work", then(failed, ended("Expired")), ADMIN, drops("e1"), "effects.dropped"),
)
