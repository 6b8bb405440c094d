"""What the API server may admit, by the design's table and apart from the rules that ship: an oracle for both answers.

It is written in Python from the same sentences that the CEL rules were written from, so that a rule which is missing
or wrong shows as a write that this refuses, and a rule that says too much as a refusal that this would admit.
"""

from __future__ import annotations

from .model import State

HELD = ("Held", "Jeopardy")
STATEMENTS = ("claim", "renewal", "checkpoint", "release", "revocation", "completion")
HOLDERS = ("renewal", "checkpoint", "release", "completion", "effects")
UNRECONCILED = ("Attempted", "Unknown")
FORWARD = {
    "Attempted": ("Succeeded", "Failed", "Unknown"),
    "Unknown": ("Succeeded", "Failed", "Compensated"),
    "Succeeded": ("Compensated",),
}


def said(spec: State, name: str, epoch: int) -> bool:
    """The statement is there, and about this epoch."""
    return name in spec and spec[name] is not None and spec[name]["epoch"] == epoch


def refused(old: State, new: State) -> set[str]:
    """The names of the checks that a write of `new` (a spec) over `old` (an object) fails; none when it is admitted."""
    stored, status = old["spec"], old["status"]
    epoch, phase = status["epoch"], status["phase"]
    ended = any(said(new, name, epoch) for name in ("revocation", "release", "completion"))
    standing = phase in HELD and not ended
    failed: set[str] = set()

    def need(name: str, holds: bool) -> None:
        if not holds:
            failed.add(name)

    changed = {name for name in STATEMENTS if new.get(name) != stored.get(name)}
    revoking = said(new, "revocation", epoch) and not said(stored, "revocation", epoch)
    force = phase in (*HELD, "Completed")
    for name in changed:
        if name == "claim":
            failed |= _claim(old, new, revoking=revoking)
        elif new.get(name) is None:
            need(f"{name}.kept", name != "checkpoint" and not (said(stored, name, epoch) and force))
    if "renewal" in changed and new.get("renewal"):
        need("renewal.standing", standing and new["renewal"]["epoch"] == epoch)
    if "checkpoint" in changed and (checkpoint := new.get("checkpoint")):
        need("checkpoint.standing", standing and checkpoint["epoch"] == epoch)
        need("checkpoint.swap", checkpoint["previousDigest"] == (stored.get("checkpoint") or {}).get("digest", ""))
    if "release" in changed and new.get("release"):
        fresh = new["release"]["epoch"] == epoch and not said(stored, "release", epoch)
        need("release.standing", phase in HELD and fresh)
        need("release.unended", not said(new, "revocation", epoch) and not said(new, "completion", epoch))
    if "completion" in changed and new.get("completion"):
        fresh = new["completion"]["epoch"] == epoch and not said(stored, "completion", epoch)
        unended = not said(new, "revocation", epoch) and not said(new, "release", epoch)
        need("completion.standing", phase == "Held" and fresh and unended)
        need("completion.successor", "successor" not in status)
        need("completion.effects", not any(e["state"] in UNRECONCILED for e in new.get("effects", [])))
    if "revocation" in changed and new.get("revocation"):
        need("revocation.standing", revoking and (force or "successor" in status))
    return failed | _effects(old, new, standing=standing)


def _claim(old: State, new: State, *, revoking: bool) -> set[str]:
    stored, status, claim = old["spec"], old["status"], new.get("claim")
    epoch, phase, successor = status["epoch"], status["phase"], status.get("successor")
    before = stored.get("claim")
    pending = before is not None and before["epoch"] == epoch and before["id"] != status.get("observedClaimID")
    if claim is None:
        return set() if revoking or not (phase in HELD or pending) else {"claim.kept"}
    by_holder = _who(claim) == (status.get("holderIdentity"), status.get("instance"))
    by_successor = successor is not None and (
        claim["holderIdentity"] == successor["holderIdentity"]
        and successor.get("instance") in (None, claim["instance"])
    )
    revoked, released = said(new, "revocation", epoch), said(new, "release", epoch)
    holders_own = by_holder and not said(new, "completion", epoch)
    held = {
        "claim.edited": before is None or before["id"] != claim["id"],
        "claim.suspended": not new.get("suspend") or revoking or (phase in HELD and by_holder),
        "claim.complete": phase != "Completed" or revoked,
        "claim.leased": phase not in HELD or revoked or released or by_successor or holders_own,
        "claim.reserved": successor is None or by_successor or revoked,
        "claim.pending": not pending or revoking,
        "claim.epoch": claim["epoch"] == epoch,
        "claim.fresh": claim["id"] not in (status.get("claimID"), status.get("observedClaimID")),
    }
    return {name for name, holds in held.items() if not holds}


def _who(claim: State) -> tuple[str, str]:
    return claim["holderIdentity"], claim["instance"]


def _effects(old: State, new: State, *, standing: bool) -> set[str]:
    status = old["status"]
    epoch = status["epoch"]
    before = {effect["id"]: effect for effect in old["spec"].get("effects", [])}
    after = {effect["id"]: effect for effect in new.get("effects", [])}
    failed: set[str] = set()
    added = [effect for name, effect in after.items() if name not in before]
    dropped = [effect for name, effect in before.items() if name not in after]
    if any(effect["state"] != "Attempted" or effect["epoch"] != epoch for effect in added):
        failed.add("effects.attempted")
    if added and not (standing and status["phase"] == "Held" and "successor" not in status):
        failed.add("effects.standing")
    if added and any(effect["epoch"] < epoch and effect["state"] == "Attempted" for effect in before.values()):
        failed.add("effects.reconciled")
    if any(effect["epoch"] >= epoch or effect["state"] in UNRECONCILED for effect in dropped):
        failed.add("effects.dropped")
    for name in before.keys() & after.keys():
        moved = before[name]["state"], after[name]["state"]
        if moved[0] != moved[1] and moved[1] not in FORWARD.get(moved[0], ()):
            failed.add("effect.forward")
        failed |= {
            f"effect.{part}"
            for part in ("digest", "epoch", "recipient", "action")
            if before[name].get(part) != after[name].get(part)
        }
    return failed


def speaks_for_holder(old: State, new: State) -> bool:
    """The write changes what only the holder may say."""
    return any(new.get(name, []) != old["spec"].get(name, []) for name in HOLDERS)
