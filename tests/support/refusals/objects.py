"""What a work item may be born with, and what of it never changes."""

from __future__ import annotations

from support.refusals import POLICY, SCHEMA, Row
from support.refusals.states import available, held, unmade
from support.statements import ADMIN, ALICE, Saying, Work, claim, configures, creates, revokes
from support.words import effect, now
from worklease.api.fields import CREATED_EPOCH_MAX

NO_ROOM = CREATED_EPOCH_MAX + 1
TOO_LARGE = "leaves no room above it"


def born(epoch: int) -> dict[str, object]:
    """Each statement, of one epoch, as a new object may bring it from a backup."""
    return {
        "claim": lambda work, who: claim(work, who, epoch),
        "renewal": {"epoch": epoch, "renewTime": now()},
        "checkpoint": {"epoch": epoch, "uri": "s3://work/1", "digest": "sha256:1", "previousDigest": ""},
        "release": {"epoch": epoch, "reason": ""},
        "revocation": {"epoch": epoch, "reason": "x"},
        "completion": {"epoch": epoch, "outcome": "Failed", "message": ""},
        "effects": [effect(epoch)],
    }


def sets(path: str, value: object) -> Saying:
    """One field of the object, wherever it is."""
    return Saying(lambda work, who: [{"op": "add", "path": path, "value": value}])


def defaulted(work: Work) -> None:
    """A work item that was created with nothing but its name."""
    work.create(ADMIN, {}).must()


CREATION = (
    Row("with nothing said", unmade, ADMIN, creates()),
    Row("with a claim of epoch 0", unmade, ADMIN, creates(claim=lambda work, who: claim(work, who, 0))),
    *(
        Row(f"with a {name} of the largest epoch that a backup may mention", unmade, ADMIN, creates(**{name: said}))
        for name, said in born(CREATED_EPOCH_MAX).items()
    ),
    *(
        Row(f"with a {name} above every epoch", unmade, ADMIN, creates(**{name: said}), "creation.epoch", TOO_LARGE)
        for name, said in born(NO_ROOM).items()
    ),
    Row("without work", unmade, ADMIN, creates(work=None), SCHEMA, "spec.work"),
    Row("with work of no id", unmade, ADMIN, creates(work={"type": "task"}), SCHEMA, "spec.work.id"),
    Row("by an agent without the verb create", unmade, ALICE, creates(), POLICY, "cannot create"),
)

SETTINGS = (
    Row("a longer lease, by who may configure", held, ADMIN, configures(leaseDurationSeconds=3600)),
    Row("suspended by who may configure", held, ADMIN, configures(suspend=True)),
    Row("a longer lease, by its holder", held, ALICE, configures(leaseDurationSeconds=3600), POLICY, "configure"),
    Row("suspended by an agent", held, ALICE, configures(suspend=True), POLICY, "configure"),
    Row("less than 10 seconds", available, ADMIN, configures(leaseDurationSeconds=9), SCHEMA, "greater than or equal"),
    Row("more than a day", available, ADMIN, configures(leaseDurationSeconds=86401), SCHEMA, "less than or equal"),
    Row("no jeopardy at all", available, ADMIN, configures(jeopardyDurationSeconds=0)),
    Row(
        "less jeopardy than none", available, ADMIN, configures(jeopardyDurationSeconds=-1), SCHEMA, "jeopardyDuration"
    ),
    Row("other work", available, ADMIN, sets("/spec/work/id", "other"), "work.immutable"),
    Row("work of another type", held, ADMIN, sets("/spec/work/type", "other"), "work.immutable"),
    Row(
        "other work with a revocation in one write",
        held,
        ADMIN,
        sets("/spec/work/id", "x") & revokes(),
        "work.immutable",
    ),
)
