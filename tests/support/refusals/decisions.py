"""What even the operator may not write into status, whatever it believes; and that it may write all else."""

from __future__ import annotations

from support.deciding import FREED
from support.refusals import SCHEMA, Row
from support.refusals.states import (
    available,
    being_handed_over,
    completed,
    completion_stated,
    expired,
    held,
    jeopardy,
    released,
    reopening,
    reserved,
    revoked,
)
from support.statements import OPERATOR, Work, beyond, decides
from support.words import now

NO_HIGHER = "another holder or claim needs a higher epoch"
NOT_BACK = "an ended tenure does not come back at its epoch"
UNNAMED = "a held lease has a holder, a claim and terms"


def lower(work: Work) -> int:
    """An epoch below the one that was granted."""
    return work.epoch - 1


DECISION = (
    Row("a lapsed lease", held, OPERATOR, decides(phase="Jeopardy")),
    Row("a renewal in jeopardy", jeopardy, OPERATOR, decides(phase="Held")),
    Row("an expiry", jeopardy, OPERATOR, decides(phase="Expired", **FREED)),
    Row("an expiry of a lease without jeopardy", held, OPERATOR, decides(phase="Expired", **FREED)),
    Row("a release", held, OPERATOR, decides(phase="Released", **FREED)),
    Row("a completion", completion_stated, OPERATOR, decides(phase="Completed", **FREED)),
    Row("a completion revoked", reopening, OPERATOR, decides(phase="Revoked", **FREED)),
    Row(
        "a reservation",
        held,
        OPERATOR,
        decides(successor={"holderIdentity": "b", "handoff": "h", "handoffUID": "u", "until": now()}),
    ),
    Row("a reservation that lapsed", being_handed_over, OPERATOR, decides(successor=None)),
    Row("a reservation of released work that lapsed", reserved, OPERATOR, decides(successor=None)),
    Row("a refused claim", expired, OPERATOR, decides(observedClaimID="x")),
    Row(
        "a higher epoch for another holder", held, OPERATOR, decides(epoch=beyond, holderIdentity="b", claimID="other")
    ),
    Row(
        "a grant after expiry, at a higher epoch",
        expired,
        OPERATOR,
        decides(phase="Held", epoch=beyond, holderIdentity="b", instance="i", claimID="other"),
    ),
    Row("the same once more", held, OPERATOR, decides(phase="Held")),
    # Never.
    Row("a lower epoch", held, OPERATOR, decides(epoch=lower), "status.epoch", "an epoch never goes back"),
    Row("a lower epoch for free work", expired, OPERATOR, decides(epoch=0), "status.epoch"),
    Row("another holder at the same epoch", held, OPERATOR, decides(holderIdentity="b"), "status.grant", NO_HIGHER),
    Row("another process at the same epoch", held, OPERATOR, decides(instance="host:x/9"), "status.grant", NO_HIGHER),
    Row("another claim at the same epoch", held, OPERATOR, decides(claimID="other"), "status.grant", NO_HIGHER),
    Row("a claim that is forgotten", held, OPERATOR, decides(claimID=None, phase="Expired", **FREED), "status.grant"),
    Row("another claim on free work at the same epoch", expired, OPERATOR, decides(claimID="other"), "status.grant"),
    Row(
        "a holder of free work at the same epoch",
        expired,
        OPERATOR,
        decides(holderIdentity="b", instance="i"),
        "status.grant",
    ),
    *(
        Row(
            f"a tenure that ended comes back from {phase}",
            state,
            OPERATOR,
            decides(phase="Jeopardy"),
            "status.ended",
            NOT_BACK,
        )
        for phase, state in {"Released": released, "Expired": expired, "Revoked": revoked}.items()
    ),
    Row(
        "an expired lease is released after all", expired, OPERATOR, decides(phase="Released"), "status.ended", NOT_BACK
    ),
    Row("revoked work is completed after all", revoked, OPERATOR, decides(phase="Completed"), "status.ended", NOT_BACK),
    Row(
        "completed work is free without a revocation",
        completed,
        OPERATOR,
        decides(phase="Released"),
        "status.ended",
        NOT_BACK,
    ),
    Row("a held lease whose terms are forgotten", held, OPERATOR, decides(acquireTime=None), "status.terms", UNNAMED),
    Row("a held lease without a holder", held, OPERATOR, decides(holderIdentity=None), "status.terms", UNNAMED),
    Row("a holder whose process is forgotten", jeopardy, OPERATOR, decides(instance=None), "status.grant", NO_HIGHER),
    *(
        Row(
            f"a held lease without {field}",
            available,
            OPERATOR,
            decides(
                **{
                    "phase": "Held",
                    "epoch": 9,
                    "holderIdentity": "a",
                    "instance": "i",
                    "claimID": "c",
                    "acquireTime": now(),
                    "leaseDurationSeconds": 600,
                    "jeopardyDurationSeconds": 30,
                    field: None,
                }
            ),
            "status.terms",
            UNNAMED,
        )
        for field in (
            "holderIdentity",
            "instance",
            "claimID",
            "acquireTime",
            "leaseDurationSeconds",
            "jeopardyDurationSeconds",
        )
    ),
    Row("a phase of its own", held, OPERATOR, decides(phase="Resting"), SCHEMA, "supported values"),
    Row("a time that CEL cannot read", held, OPERATOR, decides(acquireTime="never"), SCHEMA, "acquireTime"),
    Row("an epoch that not every reader keeps exact", held, OPERATOR, decides(epoch=2**53), SCHEMA, "status.epoch"),
)
