"""Judges what an admitted write changed, and plays turns of a random speaker again, to find the fewest that matter."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.api import MERGE_PATCH
from support.random_speaker import RandomSpeaker
from support.statements import ADMIN, OPERATOR, Scene, Work, decides, revokes
from worklease.api.statements import EPOCH_STATEMENTS

HELD = ("Held", "Jeopardy")
OPEN = ("Attempted", "Unknown")
HOLDERS_STATEMENTS = ("renewal", "checkpoint", "release", "completion", "effects")
FORTH = {
    "Attempted": {"Attempted", "Succeeded", "Failed", "Unknown"},
    "Unknown": {"Unknown", "Succeeded", "Failed", "Compensated"},
    "Succeeded": {"Succeeded", "Compensated"},
    "Failed": {"Failed"},
    "Compensated": {"Compensated"},
}


@dataclass
class Judge:
    """Knows what has been granted, and what may never be admitted after that."""

    work: Work
    grants: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def admitted(self, who: str, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
        """What is wrong with a write that was admitted."""
        spec, was = after["spec"], before["spec"]
        status = before["status"]
        changed = [name for name in (*EPOCH_STATEMENTS, "effects") if spec.get(name) != was.get(name)]
        wrong = [*self._epochs(before["status"], after["status"])]
        if who == OPERATOR:
            return wrong + (["the operator changed spec"] if spec != was else [])
        if after["status"] != status:
            wrong.append("a statement changed status")
        past = [name for name in changed if name in spec and name != "effects"]
        wrong += [f"{name} of another epoch" for name in past if spec[name]["epoch"] != status["epoch"]]
        wrong += self._effects(status, was["effects"], spec)
        wrong += self._ends(who, status, changed, was, spec)
        return wrong

    def _epochs(self, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
        """No epoch goes back, has two holders or two claims, or is held again after it has ended."""
        wrong = ["the epoch went back"] if after["epoch"] < before["epoch"] else []
        held = after["phase"] in HELD
        if after["epoch"] == before["epoch"] and held and before["phase"] not in (*HELD, "Available"):
            wrong.append("an ended tenure came back")
        if held:
            granted = tuple(str(after.get(name)) for name in ("claimID", "holderIdentity", "instance"))
            if "None" in granted:
                wrong.append("held by nobody")
            if self.grants.setdefault(after["epoch"], granted) != granted:
                wrong.append("one epoch was granted twice")
        return wrong

    def _effects(self, status: dict[str, Any], was: list[dict[str, Any]], spec: dict[str, Any]) -> list[str]:
        """None is new outside a standing lease, none changes or goes back, none that is open disappears."""
        old, new = ({one["id"]: one for one in effects} for effects in (was, spec["effects"]))
        wrong = []
        for name in new.keys() - old.keys():
            ended = [n for n in ("revocation", "release", "completion") if about(spec, n, status["epoch"])]
            if status["phase"] != "Held" or ended or "successor" in status:
                wrong.append(f"effect {name} was added while {status['phase']}, {ended}")
            if new[name]["epoch"] != status["epoch"] or new[name]["state"] != "Attempted":
                wrong.append(f"effect {name} was not born Attempted at the current epoch")
            if any(one["state"] == "Attempted" and one["epoch"] < status["epoch"] for one in was):
                wrong.append(f"effect {name} was added before an earlier one was reconciled")
        for name in old.keys() & new.keys():
            if new[name]["state"] not in FORTH[old[name]["state"]]:
                wrong.append(f"effect {name} went from {old[name]['state']} to {new[name]['state']}")
            if any(new[name].get(key) != old[name].get(key) for key in ("epoch", "recipient", "action", "digest")):
                wrong.append(f"effect {name} was rewritten")
        for name in old.keys() - new.keys():
            if old[name]["state"] in OPEN or old[name]["epoch"] >= status["epoch"]:
                wrong.append(f"effect {name} disappeared as {old[name]['state']}")
        return wrong

    def _ends(
        self, who: str, status: dict[str, Any], changed: list[str], was: dict[str, Any], spec: dict[str, Any]
    ) -> list[str]:
        """Only the holder speaks for itself, only an administrator revokes, and what has force is not taken back."""
        wrong = []
        holds = status.get("holderIdentity") == self.work.username(who)
        if set(changed) & set(HOLDERS_STATEMENTS) and not holds and (status["phase"] in HELD or who != ADMIN):
            wrong.append(f"{who} spoke for the holder")
        if "revocation" in changed and who != ADMIN:
            wrong.append(f"{who} revoked")
        for name in ("renewal", "release", "revocation", "completion"):
            force = about(was, name, status["epoch"]) and status["phase"] in (*HELD, "Completed")
            if force and name not in spec:
                wrong.append(f"the {name} that had force was taken back")
        if "completion" in changed and any(one["state"] in OPEN for one in spec["effects"]) and "completion" in spec:
            wrong.append("completed with open effects")
        if "checkpoint" in was and "checkpoint" not in spec:
            wrong.append("the checkpoint was removed")
        return wrong

    def others_can_write(self, seen: dict[str, Any]) -> list[str]:
        """Whatever was admitted, the operator and an administrator can still act."""
        wrong = []
        operator = decides(grantMessage="x" if seen["status"].get("grantMessage") != "x" else "y")
        wrote = self.work.patch(OPERATOR, operator.operations(self.work, OPERATOR), dryRun="All")
        if not wrote.ok:
            wrong.append(f"the operator cannot write: {wrote.message}")
        patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"suspend": not seen["spec"]["suspend"]}}
        api = self.work.scene.voices[ADMIN].api
        wrote = api.patch(self.work.path, patch, MERGE_PATCH, dryRun="All")
        if not wrote.ok:
            wrong.append(f"an administrator cannot write: {wrote.message}")
        epoch = seen["status"]["epoch"]
        if seen["status"]["phase"] in HELD and not about(seen["spec"], "revocation", epoch):
            self.work.epoch = epoch
            wrote = self.work.patch(ADMIN, revokes().operations(self.work, ADMIN), dryRun="All")
            if not wrote.ok:
                wrong.append(f"an administrator cannot revoke: {wrote.message}")
        return wrong


def about(spec: dict[str, Any], name: str, epoch: int) -> bool:
    """The statement is there, and is about this epoch."""
    return name in spec and spec[name]["epoch"] == epoch


@dataclass(frozen=True)
class Broken:
    """A promise that was broken, and the turns that led there, in words."""

    wrong: list[str]
    turns: tuple[str, ...]
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.wrong} after " + "; ".join(self.words)


def played(scene: Scene, turns: Sequence[str]) -> Broken | None:
    """Plays turns about a new work item: each is the seed of what is chosen then. Ends with what is broken first."""
    judge = Judge(scene.work())
    seen = judge.work.create(ADMIN, {}).must()
    words: list[str] = []
    for number, turn in enumerate(turns, 1):
        who, kind, answer = RandomSpeaker(random.Random(turn), judge.work).write(seen)
        words.append(f"{who} {kind} {answer.status}")
        if not answer.ok:
            continue
        said = [
            name for name in (*EPOCH_STATEMENTS, "effects") if answer.body["spec"].get(name) != seen["spec"].get(name)
        ]
        words[-1] += f" ({', '.join(said) or answer.body['status']['phase']})"
        if wrong := judge.admitted(who, seen, answer.body):
            return Broken(wrong, tuple(turns[:number]), tuple(words))
        seen = answer.body
    return None


def minimised(broken: Broken, play: Callable[[Sequence[str]], Broken | None], within_seconds: float) -> Broken:
    """Leaves out what can be left out: halves first, then smaller parts, for so long."""
    deadline_monotonic = time.monotonic() + within_seconds
    size = max(1, len(broken.turns) // 2)
    while time.monotonic() < deadline_monotonic:
        for start in range(0, len(broken.turns), size):
            fewer = play([*broken.turns[:start], *broken.turns[start + size :]])
            if fewer is not None and len(fewer.turns) < len(broken.turns):
                broken = fewer
                break
        else:
            if size == 1:
                break
            size //= 2
    return broken
