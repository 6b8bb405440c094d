"""Whatever is written at random, what may never happen does not: judged after every write that was admitted.

A failure names the seed; WORKLEASE_RANDOM_SEED plays the same choices again.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from support.api import MERGE_PATCH
from support.cluster import Cluster
from support.random_speaker import RandomSpeaker
from support.statements import ADMIN, BOB, HOLDERS_WORDS, OPERATOR, Work, decides, revokes, staged
from worklease.api.statements import STATEMENTS

SEED = int(os.environ.get("WORKLEASE_RANDOM_SEED", time.time_ns() % 2**32))
WRITES, WORKS = 3000, 8
WITHIN_SECONDS = 40.0
"""On a machine that is busy, fewer writes are made."""

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
        changed = [name for name in (*STATEMENTS, "effects") if spec.get(name) != was.get(name)]
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


def test_nothing_that_may_never_happen_is_admitted(cluster: Cluster) -> None:
    """Random writes by agents, an administrator and a pretended operator break no promise that the API alone keeps."""
    choice = random.Random(SEED)
    admitted: Counter[str] = Counter()
    refused: Counter[int] = Counter()
    with staged(cluster) as scene:
        judges = [Judge(scene.work()) for _ in range(WORKS)]
        seen = [judge.work.create(ADMIN, {}).must() for judge in judges]
        deadline_monotonic = time.monotonic() + WITHIN_SECONDS
        for number in range(WRITES):
            if time.monotonic() > deadline_monotonic:
                break
            index = choice.randrange(WORKS)
            judge, before = judges[index], seen[index]
            who, kind, answer = RandomSpeaker(choice, judge.work).write(before)
            where = f"seed {SEED}, write {number}: {who} {kind}"
            if not answer.ok:
                refused[answer.status] += 1
                assert answer.status in (403, 409, 422), f"{where}: {answer.status} {answer.message}"
                if who == BOB:
                    assert not [word for word in HOLDERS_WORDS[1:] if word in answer.message], (
                        f"{where}: {answer.message}"
                    )
                continue
            admitted[kind] += 1
            wrong = judge.admitted(who, before, answer.body)
            if answer.body["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
                wrong += judge.others_can_write(answer.body)
            assert not wrong, f"{where}: {wrong}\nbefore: {before}\nafter: {answer.body}"
            seen[index] = answer.body
    print(f"seed {SEED}: {sum(admitted.values())} writes admitted {dict(admitted)}, refused {dict(refused)}")
    assert {"says", "merges", "puts", "applies", "decides"} <= set(admitted), "too few writes of a kind were admitted"
