"""Passing work on: B offers what it holds to C, who rejects, then to D, who accepts, claims and reads on."""

from __future__ import annotations

import json
from typing import Any

from .speech import begun, claim, granted, now, say, username, work_lease
from .stage import Stage

WORK = "invoice-44"
B, C, D = "agent-b", "agent-c", "agent-d"
CHECKPOINT = {"uri": "s3://work/44/2", "digest": "sha256:2f"}
MESSAGE = "Two of three are charged. The third customer asked to wait until noon."


def play(stage: Stage) -> None:
    """Plays the chapter; raises NotAsToldError when anything is not as told."""
    first = _b_works(stage)
    _c_rejects(stage)
    _d_accepts(stage, first)
    second = _d_claims(stage, first)
    _b_is_late(stage, first, second)


def _b_works(stage: Stage) -> int:
    stage.chapter(f"13. {B} has got half way with a third invoice, and says where it stands")
    stage.run(
        "create",
        "--filename=-",
        as_=B,
        given=work_lease(WORK, claim(stage, B, "b-44", 0, "charge the customers"), jeopardy_seconds=60),
    )
    epoch = granted(stage, B, WORK, "b-44")
    say(stage, B, WORK, checkpoint={"epoch": epoch, **CHECKPOINT, "previousDigest": ""})
    return epoch


def _offer(stage: Stage, name: str, to: str) -> None:
    spec: dict[str, Any] = {
        "workLeaseName": WORK,
        "from": username(stage, B),
        "fromInstance": f"host:{B}/1",
        "to": {"holderIdentity": username(stage, to)},
        "subject": "charge the last customer",
        "message": MESSAGE,
        "checkpoint": CHECKPOINT,
        "acceptWithinSeconds": 600,
        "claimWithinSeconds": 60,
    }
    manifest = {"apiVersion": "worklease.dev/v1alpha1", "kind": "Handoff", "metadata": {"name": name}, "spec": spec}
    stage.run("create", "--filename=-", as_=B, given=json.dumps(manifest, indent=1))


def _answer(stage: Stage, who: str, name: str, decision: str, reason: str, *, refused: str = "") -> None:
    patch = [{"op": "add", "path": "/spec/response", "value": {"decision": decision, "reason": reason}}]
    stage.run("patch", "handoff", name, "--type=json", f"--patch={json.dumps(patch)}", as_=who, refused=refused)


def _reaches(stage: Stage, name: str, phase: str, who: str) -> None:
    stage.run("wait", f"handoff/{name}", f"--for=jsonpath={{.status.phase}}={phase}", "--timeout=30s", as_=who)


def _inbox(stage: Stage, who: str) -> str:
    selector = f"spec.to.holderIdentity={username(stage, who)},status.phase=Pending"
    return stage.run("get", "handoffs", f"--field-selector={selector}", as_=who)


def _c_rejects(stage: Stage) -> None:
    stage.chapter(f"14. {B} offers it to {C}, who finds it in its inbox and rejects it")
    _offer(stage, "to-c", C)
    stage.expect("to-c" in _inbox(stage, C), f"the offer is in the inbox of {C}")
    _answer(stage, D, "to-c", "Accepted", "", refused="only the target of a handoff answers it")
    _answer(stage, C, "to-c", "Rejected", "no capacity before noon")
    _reaches(stage, "to-c", "Rejected", B)
    stage.expect(stage.state(WORK, B)["status"]["phase"] == "Held", f"{B} holds the work as before")


def _d_accepts(stage: Stage, first: int) -> None:
    stage.chapter(f"15. {B} offers it to {D}, who accepts: from now on {B} begins nothing new")
    _offer(stage, "to-d", D)
    _answer(stage, D, "to-d", "Accepted", "")
    _reaches(stage, "to-d", "Accepted", D)
    say(stage, B, WORK, refused="being handed over", **begun("charge-44b", first))
    say(stage, B, WORK, renewal={"epoch": first, "renewTime": now()})
    stage.expect(stage.state(WORK, B)["status"]["epoch"] == first, f"{B} still holds: the work is never ownerless")


def _d_claims(stage: Stage, first: int) -> int:
    stage.chapter(f"16. {D} claims with its own credential, and reads where the work stood")
    say(stage, D, WORK, claim=claim(stage, D, "d-44", first, "charge the last customer"))
    second = granted(stage, D, WORK, "d-44")
    _reaches(stage, "to-d", "Completed", D)
    stage.run("get", "handoffs", as_=D)
    read = stage.run("get", "handoff", "to-d", "--output=jsonpath={.spec.message}", as_=D)
    state = stage.state(WORK, D)
    stage.expect(read == MESSAGE, "the message of the handoff has arrived")
    stage.expect(
        state["spec"]["checkpoint"]["digest"] == CHECKPOINT["digest"] and second > first,
        f"{D} holds it under epoch {second}, by {state['status']['grantMessage']!r}, from the checkpoint of {B}",
    )
    return second


def _b_is_late(stage: Stage, first: int, second: int) -> None:
    stage.chapter(f"17. What {B} still says about epoch {first} is refused; {D} finishes")
    say(stage, B, WORK, refused="at the current epoch", **begun("charge-44c", first))
    say(stage, B, WORK, refused="the lease has ended", renewal={"epoch": first, "renewTime": now()})
    say(stage, D, WORK, completion={"epoch": second, "outcome": "Succeeded", "message": "all are charged"})
    stage.run("wait", f"worklease/{WORK}", "--for=jsonpath={.status.phase}=Completed", "--timeout=30s", as_=D)
    ends = [tenure.get("endReason") for tenure in stage.state(WORK, D)["status"]["history"]]
    stage.expect(ends == ["HandedOver", "Completed"], f"the work went from {B} to {D}, and is complete")
