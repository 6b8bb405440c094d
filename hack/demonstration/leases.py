"""Chapter one: claim, refusal, silence, expiry, a higher epoch, a takeover, and what is left to do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from onecluster import ADMIN

from .stage import Stage

WORK = "invoice-42"
A, B = "agent-a", "agent-b"
LEASE_SECONDS, JEOPARDY_SECONDS = 10, 4


def play(stage: Stage) -> None:
    """Plays the chapter; raises NotAsToldError when anything is not as told."""
    first = _a_claims(stage)
    _b_is_refused(stage, first)
    _a_falls_silent(stage)
    second = _b_claims(stage, first)
    _a_wakes(stage, first)
    _b_works(stage, second)
    third = _an_administrator_takes_over(stage, second)
    _the_end(stage, second, third)
    _tenures(stage)


def statement(**statements: Any) -> str:
    """A JSON patch that says statements: each replaces the one before as a whole."""
    return json.dumps([{"op": "add", "path": f"/spec/{name}", "value": value} for name, value in statements.items()])


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def username(stage: Stage, agent: str) -> str:
    return f"system:serviceaccount:{stage.namespace}:{agent}"


def claim(stage: Stage, agent: str, claim_id: str, epoch: int, purpose: str) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "id": claim_id,
        "holderIdentity": username(stage, agent),
        "instance": f"host:{agent}/1",
        "purpose": purpose,
    }


def _patch(stage: Stage, agent: str, /, *, refused: str = "", **statements: Any) -> str:
    return stage.run(
        "patch", "worklease", WORK, "--type=json", f"--patch={statement(**statements)}", as_=agent, refused=refused
    )


def _granted(stage: Stage, who: str, claim_id: str) -> int:
    """Wait until the claim is granted; its epoch."""
    stage.run("wait", f"worklease/{WORK}", f"--for=jsonpath={{.status.claimID}}={claim_id}", "--timeout=30s", as_=who)
    return int(stage.state(WORK, who)["status"]["epoch"])


def _a_claims(stage: Stage) -> int:
    stage.chapter(f"1. {A} claims a piece of work")
    work_lease = {
        "apiVersion": "worklease.dev/v1alpha1",
        "kind": "WorkLease",
        "metadata": {"name": WORK},
        "spec": {
            "work": {"type": "invoice", "id": "42"},
            "leaseDurationSeconds": LEASE_SECONDS,
            "jeopardyDurationSeconds": JEOPARDY_SECONDS,
            "claim": claim(stage, A, "a-1", 0, "charge the customer"),
        },
    }
    stage.run("create", "--filename=-", as_=A, given=json.dumps(work_lease, indent=1))
    epoch = _granted(stage, A, "a-1")
    stage.run("get", "worklease", WORK, as_=A)
    stage.expect(epoch > 0, f"{A} holds the work under epoch {epoch}")
    return epoch


def _b_is_refused(stage: Stage, epoch: int) -> None:
    stage.chapter(f"2. {B} wants it too, and learns only when to come back")
    answer = _patch(
        stage, B, refused="work is leased until about", claim=claim(stage, B, "b-1", epoch, "charge it too")
    )
    stage.expect(A not in answer, f"the refusal does not say that {A} holds it, or what for")


def _a_falls_silent(stage: Stage) -> None:
    stage.chapter(f"3. {A} renews once, and is not heard of again")
    epoch = stage.state(WORK, A)["status"]["epoch"]
    _patch(stage, A, renewal={"epoch": epoch, "renewTime": now()})
    stage.run("wait", f"worklease/{WORK}", "--for=condition=Jeopardy", "--timeout=30s", as_=B)
    stage.say(
        f"The lease of {LEASE_SECONDS} s has lapsed. For {JEOPARDY_SECONDS} s more {A} may still renew, but cause no "
        "effects; nobody else may have the work."
    )
    stage.run("wait", f"worklease/{WORK}", "--for=condition=Claimable", "--timeout=30s", as_=B)
    stage.run("get", "worklease", WORK, as_=B)
    stage.expect(stage.state(WORK, B)["status"]["phase"] == "Expired", "the lease has expired and the work is free")


def _b_claims(stage: Stage, first: int) -> int:
    stage.chapter(f"4. {B} claims it, naming the epoch that it saw")
    _patch(stage, B, claim=claim(stage, B, "b-2", first, "finish what was begun"))
    epoch = _granted(stage, B, "b-2")
    stage.expect(epoch > first, f"{B} holds it under epoch {epoch}, higher than {first}")
    return epoch


def _a_wakes(stage: Stage, first: int) -> None:
    stage.chapter(f"5. {A} wakes up and goes on as if nothing had happened")
    _patch(stage, A, refused="the lease has ended", renewal={"epoch": first, "renewTime": now()})
    _patch(stage, A, refused="at the current epoch", **_begun("charge-a", first))


def _begun(effect_id: str, epoch: int) -> dict[str, Any]:
    """The statement that adds an effect to the list."""
    effect = {"id": effect_id, "epoch": epoch, "recipient": "payments", "action": "charge", "state": "Attempted"}
    return {"effects/-": effect}


def _b_works(stage: Stage, epoch: int) -> None:
    stage.chapter(f"6. {B} logs an effect before it causes it, and says where it stands")
    _patch(stage, B, **_begun("charge-b", epoch))
    checkpoint = {"epoch": epoch, "uri": "s3://work/42/1", "digest": "sha256:1f", "previousDigest": ""}
    _patch(stage, B, renewal={"epoch": epoch, "renewTime": now()}, checkpoint=checkpoint)


def _an_administrator_takes_over(stage: Stage, second: int) -> int:
    stage.chapter("7. An administrator takes over: one write, with a reason")
    me = stage.run("auth", "whoami", "--output=jsonpath={.status.userInfo.username}", as_=ADMIN, shown=False)
    takeover: dict[str, Any] = {
        "revocation": {"epoch": second, "reason": "customer called: stop charging"},
        "claim": {
            "epoch": second,
            "id": "admin-1",
            "holderIdentity": me,
            "instance": "person:on-call",
            "purpose": "look at it myself",
        },
    }
    _patch(stage, ADMIN, **takeover)
    epoch = _granted(stage, ADMIN, "admin-1")
    _patch(stage, B, refused="at the current epoch", **_begun("charge-b2", second))
    stage.expect(epoch > second, f"the administrator holds it under epoch {epoch}")
    return epoch


def _the_end(stage: Stage, second: int, third: int) -> None:
    stage.chapter(f"8. What {B} had begun is reconciled, then the work is complete")
    completion = {"epoch": third, "outcome": "Succeeded", "message": "charged once"}
    _patch(stage, ADMIN, refused="effects must be reconciled", completion=completion)
    reconciliation = [
        {"op": "test", "path": "/spec/effects/0/id", "value": "charge-b"},
        {"op": "replace", "path": "/spec/effects/0/state", "value": "Succeeded"},
        {"op": "add", "path": "/spec/effects/0/detail", "value": "found in the ledger"},
    ]
    stage.run("patch", "worklease", WORK, "--type=json", f"--patch={json.dumps(reconciliation)}", as_=ADMIN)
    _patch(stage, ADMIN, completion=completion)
    stage.run("wait", f"worklease/{WORK}", "--for=jsonpath={.status.phase}=Completed", "--timeout=30s", as_=ADMIN)
    again = claim(stage, A, "a-2", third, "once more")
    _patch(stage, A, refused="work is complete", claim=again)


def _tenures(stage: Stage) -> None:
    stage.chapter("9. The tenures, as status.history keeps them")
    history = stage.state(WORK, ADMIN)["status"]["history"]
    rows = [("EPOCH", "HOLDER", "GRANTED", "ENDED", "MESSAGE")]
    rows += [
        (
            str(tenure["epoch"]),
            tenure["holderIdentity"].rsplit(":", 1)[-1],
            tenure["grantReason"],
            tenure.get("endReason", ""),
            tenure.get("endMessage", ""),
        )
        for tenure in history
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    told = [(tenure["grantReason"], tenure.get("endReason")) for tenure in history]
    stage.expect(
        told == [("FirstGrant", "Expired"), ("AfterExpiry", "Revoked"), ("AfterRevocation", "Completed")],
        "three tenures, each with why it began and why it ended",
    )
