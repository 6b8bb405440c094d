"""What may never happen, looked at in every state and at every step. Each function names what is wrong, if anything."""

from __future__ import annotations

from collections.abc import Iterator

from celcheck import Speaker
from exploration.objects import Raw
from exploration.speaking import ADMIN, instance_of
from exploration.state import Memory

LEASED = ("Held", "Jeopardy")
OPEN = ("Attempted", "Unknown")
ENDS = ("revocation", "release", "completion")
NAMED = {"Released": "release", "Revoked": "revocation", "Completed": "completion"}
SAID = ("claim", "renewal", "checkpoint", "release", "revocation", "completion")


def about(spec: Raw, name: str, epoch: int) -> bool:
    """The statement is there, and is about that epoch."""
    return name in spec and spec[name]["epoch"] == epoch


def of_statement(before: Raw, after: Raw, speaker: Speaker) -> Iterator[str]:
    """A write of spec that was admitted."""
    was, spec, status = before["spec"], after["spec"], before["status"]
    epoch = status["epoch"]
    changed = [name for name in SAID if spec.get(name) != was.get(name)]
    for name in changed:
        if name in spec and spec[name]["epoch"] != epoch:
            yield f"promise 2: a {name} about another epoch was admitted"
    holds = (status.get("holderIdentity"), status.get("instance")) == (speaker.name, instance_of(speaker))
    mine = [name for name in changed if name not in ("claim", "revocation")]
    if spec["effects"] != was["effects"]:
        mine.append("effects")
    if mine and not holds and (status["phase"] in LEASED or speaker is not ADMIN):
        yield f"{speaker.name} spoke for the holder: {', '.join(mine)}"
    if "revocation" in changed and speaker is not ADMIN:
        yield f"promise 8: {speaker.name} revoked"
    if (
        "claim" in changed
        and "claim" in spec
        and speaker is not ADMIN
        and spec["claim"]["holderIdentity"] != speaker.name
    ):
        yield f"{speaker.name} claimed for somebody else"
    for name in ENDS:
        if about(was, name, epoch) and name not in spec and status["phase"] in (*LEASED, "Completed"):
            yield f"a {name} that has force was taken back"
    yield from _of_effects(before, after)
    if "completion" in changed and "completion" in spec and any(one["state"] in OPEN for one in spec["effects"]):
        yield "promise 7: completed with effects that are not reconciled"
    if "checkpoint" in was and "checkpoint" not in spec:
        yield "the checkpoint was removed"


def _of_effects(before: Raw, after: Raw) -> Iterator[str]:
    old, new = ({one["id"]: one for one in raw["spec"]["effects"]} for raw in (before, after))
    status, epoch = before["status"], before["status"]["epoch"]
    ended = [name for name in ENDS if about(after["spec"], name, epoch)]
    earlier = any(one["epoch"] < epoch and one["state"] == "Attempted" for one in old.values())
    for name in new.keys() - old.keys():
        if status["phase"] != "Held" or ended or "successor" in status or earlier:
            yield f"promise 3: effect {name} was admitted in {status['phase']}, ended by {ended}, reserved or early"
        if new[name]["epoch"] != epoch:
            yield f"promise 2: effect {name} was admitted under another epoch"
    for name in old.keys() - new.keys():
        if old[name]["state"] in OPEN:
            yield f"promise 6: effect {name} disappeared as {old[name]['state']}"
    for name in old.keys() & new.keys():
        if new[name]["state"] == "Attempted" and old[name]["state"] != "Attempted":
            yield f"promise 6: effect {name} went back to Attempted"


def of_refusal(message: str, before: Raw, speaker: Speaker) -> Iterator[str]:
    """A refusal, as the loser reads it."""
    holder = before["status"].get("holderIdentity")
    if (
        holder
        and holder != speaker.name
        and speaker is not ADMIN
        and (holder in message or f"host:{holder}" in message)
    ):
        yield f"promise 5: the refusal names the holder: {message}"


def of_decision(before: Raw, status: Raw, memory: Memory) -> Iterator[str]:
    """A status of the lease that was swapped in."""
    old, spec = before["status"], before["spec"]
    epoch = old["epoch"]
    lease_seconds = old.get("leaseDurationSeconds", 0)
    both_seconds = lease_seconds + old.get("jeopardyDurationSeconds", 0)
    heard = memory.heard_seconds_ago
    if status["epoch"] < epoch:
        yield "promise 1: the epoch went back"
    if status.get("claimID") != old.get("claimID") and "claimID" in status:
        yield from _of_grant(before, status, memory, expired=heard >= both_seconds)
    elif status["phase"] != old["phase"] and status["epoch"] == epoch:
        phase = status["phase"]
        if phase == "Expired" and heard < both_seconds:
            yield f"promise 9: expired {heard} s after the holder was heard of"
        if phase == "Jeopardy" and heard < lease_seconds:
            yield f"in jeopardy {heard} s after the holder was heard of"
        if phase in NAMED and not about(spec, NAMED[phase], epoch):
            yield f"promise 2: {phase} without a {NAMED[phase]} of this epoch"
    uid = status.get("successor", {}).get("handoffUID")
    if uid and uid != old.get("successor", {}).get("handoffUID") and memory.taken_by:
        again = "promise 4: an" if memory.taken_by == uid else "a second"
        yield f"{again} acceptance took effect on one epoch"


def _of_grant(before: Raw, status: Raw, memory: Memory, *, expired: bool) -> Iterator[str]:
    old, spec = before["status"], before["spec"]
    claim, epoch = spec.get("claim", {}), old["epoch"]
    if status["epoch"] <= memory.top_epoch:
        yield "promise 1: an epoch was given twice, or out of order"
    if (claim.get("id"), claim.get("holderIdentity")) != (status["claimID"], status.get("holderIdentity")):
        yield "promise 4: what was granted is not what was claimed"
    mentioned = [spec[name]["epoch"] for name in SAID if name in spec] + [one["epoch"] for one in spec["effects"]]
    if claim.get("epoch") != epoch and not (epoch == 0 and mentioned):
        yield "promise 2: a claim about another epoch was granted"
    mine = (old.get("holderIdentity"), old.get("instance")) == (claim.get("holderIdentity"), claim.get("instance"))
    target = old.get("successor", {}).get("holderIdentity") == claim.get("holderIdentity")
    ended = any(about(spec, name, epoch) for name in ("release", "revocation"))
    if old["phase"] in LEASED and not (ended or mine or target or expired):
        yield "promise 9: two parties hold at once"
    if (
        "successor" in old
        and not target
        and not about(spec, "revocation", epoch)
        and status["grantReason"] == "Handoff"
    ):
        yield "a handoff was granted to somebody else than its target"


def of_handoff(before: Raw, after: Raw, lease: Raw, memory: Memory) -> Iterator[str]:
    """A status of a handoff that was swapped in."""
    uid, phase = after["metadata"]["uid"], after["status"]["phase"]
    tenures = lease["status"].get("history", [])
    accepted = before["spec"].get("response", {}).get("decision") == "Accepted"
    granted = [one["epoch"] for one in tenures if one.get("handoffUID") == uid]
    if before["status"]["phase"] not in ("Pending", "Accepted") and phase != before["status"]["phase"]:
        yield f"promise 4: a handoff went from {before['status']['phase']} to {phase}"
    if phase in ("Accepted", "Completed", "Lapsed") and not accepted:
        yield f"a handoff is {phase} and was not accepted"
    if phase == "Accepted" and memory.taken_by != uid and not granted:
        yield "a handoff is Accepted and has not taken effect"
    if phase == "Completed" and after["status"].get("grantedEpoch") not in granted:
        yield "a handoff is Completed by a grant that was not made"
    if phase != "Completed" and phase != "Accepted" and granted:
        yield f"promise 4: a handoff is {phase}, and its target was granted the work"


def of_state(lease: Raw) -> Iterator[str]:
    """A lease as it is stored."""
    status, spec = lease["status"], lease["spec"]
    if status["phase"] == "Completed" and any(one["state"] in OPEN for one in spec["effects"]):
        yield "promise 7: Completed with effects that are not reconciled"
    if (status["phase"] in LEASED) != ("holderIdentity" in status):
        yield f"{status['phase']} with holder {status.get('holderIdentity')}"
    if "successor" in status and status["phase"] in ("Revoked", "Completed", "Available"):
        yield f"{status['phase']} and reserved"


def of_rest(lease: Raw, handoffs: list[Raw]) -> Iterator[str]:
    """What an operator that was left alone has made of a state."""
    status, spec = lease["status"], lease["spec"]
    claim = spec.get("claim")
    if claim and claim["epoch"] == status["epoch"] and claim["id"] != status.get("observedClaimID"):
        yield "promise 4: a claim is neither granted nor refused"
    for phase, name in NAMED.items():
        if about(spec, name, status["epoch"]) and status["phase"] in LEASED:
            yield f"promise 4: a {name} was stated and the work is not {phase}"
    for handoff in handoffs:
        decision = handoff["spec"].get("response", {}).get("decision")
        if decision in ("Rejected", "Withdrawn") and handoff["status"]["phase"] == "Pending":
            yield f"promise 4: a handoff was {decision} and is Pending"
        if decision == "Accepted" and handoff["status"]["phase"] == "Pending" and status["phase"] in LEASED:
            yield "promise 4: an acceptance has not taken effect, nor is it Stale"
