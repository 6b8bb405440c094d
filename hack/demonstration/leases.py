"""The first chapters: claim, refusal, silence, expiry, a higher epoch, a takeover, and what is left to do."""

from __future__ import annotations

import json
from typing import Any

from onecluster import ADMIN

from .speech import SHORTEST_LEASE_SECONDS, begun, claim, granted, now, say, work_lease
from .stage import Stage

WORK = "invoice-42"
A, B = "agent-a", "agent-b"
JEOPARDY_SECONDS = 4


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


def _a_claims(stage: Stage) -> int:
    stage.chapter(f"1. {A} claims a piece of work")
    manifest = work_lease(WORK, claim(stage, A, "a-1", 0, "charge the customer"), JEOPARDY_SECONDS)
    stage.run("create", "--filename=-", as_=A, given=manifest)
    epoch = granted(stage, A, WORK, "a-1")
    stage.run("get", "worklease", WORK, as_=A)
    stage.expect(epoch > 0, f"{A} holds the work under epoch {epoch}")
    return epoch


def _b_is_refused(stage: Stage, epoch: int) -> None:
    stage.chapter(f"2. {B} wants it too, and learns only when to come back")
    answer = say(
        stage, B, WORK, refused="work is leased until about", claim=claim(stage, B, "b-1", epoch, "charge it too")
    )
    stage.expect(A not in answer, f"the refusal does not say that {A} holds it, or what for")


def _a_falls_silent(stage: Stage) -> None:
    stage.chapter(f"3. {A} renews once, and is not heard of again")
    epoch = stage.state(WORK, A)["status"]["epoch"]
    say(stage, A, WORK, renewal={"epoch": epoch, "renewTime": now()})
    stage.run("wait", f"worklease/{WORK}", "--for=condition=Jeopardy", "--timeout=30s", as_=B)
    stage.say(
        f"The lease of {SHORTEST_LEASE_SECONDS} s has lapsed. For {JEOPARDY_SECONDS} s more {A} may still renew, but "
        "cause no effects; nobody else may have the work."
    )
    stage.run("wait", f"worklease/{WORK}", "--for=condition=Claimable", "--timeout=30s", as_=B)
    stage.run("get", "worklease", WORK, as_=B)
    stage.expect(stage.state(WORK, B)["status"]["phase"] == "Expired", "the lease has expired and the work is free")


def _b_claims(stage: Stage, first: int) -> int:
    stage.chapter(f"4. {B} claims it, naming the epoch that it saw")
    say(stage, B, WORK, claim=claim(stage, B, "b-2", first, "finish what was begun"))
    epoch = granted(stage, B, WORK, "b-2")
    stage.expect(epoch > first, f"{B} holds it under epoch {epoch}, higher than {first}")
    return epoch


def _a_wakes(stage: Stage, first: int) -> None:
    stage.chapter(f"5. {A} wakes up and goes on as if nothing had happened")
    say(stage, A, WORK, refused="the lease has ended", renewal={"epoch": first, "renewTime": now()})
    say(stage, A, WORK, refused="at the current epoch", **begun("charge-a", first))
    stage.expect(not stage.state(WORK, A)["spec"].get("effects"), f"no effect of {A} is on record")


def _b_works(stage: Stage, epoch: int) -> None:
    stage.chapter(f"6. {B} logs an effect before it causes it, and says where it stands")
    say(stage, B, WORK, **begun("charge-b", epoch))
    checkpoint = {"epoch": epoch, "uri": "s3://work/42/1", "digest": "sha256:1f", "previousDigest": ""}
    say(stage, B, WORK, renewal={"epoch": epoch, "renewTime": now()}, checkpoint=checkpoint)
    (effect,) = stage.state(WORK, B)["spec"]["effects"]
    stage.expect(effect["state"] == "Attempted", "whoever comes next knows what may have happened, and where to go on")


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
    say(stage, ADMIN, WORK, **takeover)
    epoch = granted(stage, ADMIN, WORK, "admin-1")
    say(stage, B, WORK, refused="at the current epoch", **begun("charge-b2", second))
    stage.expect(epoch > second, f"the administrator holds it under epoch {epoch}")
    return epoch


def _the_end(stage: Stage, second: int, third: int) -> None:
    stage.chapter(f"8. What {B} had begun is reconciled, then the work is complete")
    completion = {"epoch": third, "outcome": "Succeeded", "message": "charged once"}
    say(stage, ADMIN, WORK, refused="effects must be reconciled", completion=completion)
    reconciliation = [
        {"op": "test", "path": "/spec/effects/0/id", "value": "charge-b"},
        {"op": "replace", "path": "/spec/effects/0/state", "value": "Succeeded"},
        {"op": "add", "path": "/spec/effects/0/detail", "value": "found in the ledger"},
    ]
    stage.run("patch", "worklease", WORK, "--type=json", f"--patch={json.dumps(reconciliation)}", as_=ADMIN)
    say(stage, ADMIN, WORK, completion=completion)
    stage.run("wait", f"worklease/{WORK}", "--for=jsonpath={.status.phase}=Completed", "--timeout=30s", as_=ADMIN)
    again = claim(stage, A, "a-2", third, "once more")
    say(stage, A, WORK, refused="work is complete", claim=again)
    stage.expect(stage.state(WORK, A)["status"]["epoch"] == third, "the work is complete, and stays so")


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
