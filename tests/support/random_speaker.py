"""Random writes of every kind about a work item, by agents, an administrator and a pretended operator."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.api import Answer
from support.deciding import FREED, granted
from support.statements import ADMIN, ALICE, BOB, INSTANCES, OPERATOR, Work, claim
from support.words import Operations, effect, fresh, now, removes
from worklease.api.statements import EPOCH_STATEMENTS, EffectState
from worklease.api.worklease import Phase

SPEAKERS = (ALICE, ALICE, BOB, BOB, ADMIN, OPERATOR, OPERATOR)
EFFECTS = ("e1", "e2", "e3")
ENDED = {Phase.EXPIRED: "expiry", Phase.RELEASED: "release", Phase.REVOKED: "revocation", Phase.COMPLETED: "completion"}

Write = Callable[[], Answer]


@dataclass
class RandomSpeaker:
    """Chooses who writes what about the object as it was last seen: mostly something sensible, often not."""

    choice: random.Random
    work: Work

    def write(self, seen: dict[str, Any]) -> tuple[str, str, Answer]:
        """One write: who, what kind, and the answer."""
        who = self._speaker(seen)
        kinds = (self._says, self._says, self._says, self._merges, self._puts, self._applies, self._removes)
        kind = self._decides if who == OPERATOR else self.choice.choice(kinds)
        return who, kind.__name__.strip("_"), kind(who, seen)

    def _speaker(self, seen: dict[str, Any]) -> str:
        """Mostly the holder, where there is one."""
        holder = seen["status"].get("holderIdentity")
        holding = [who for who in (ALICE, BOB, ADMIN) if self.work.username(who) == holder]
        return self.choice.choice(holding if holding and self.choice.random() < 0.5 else SPEAKERS)

    def _epoch(self, seen: dict[str, Any]) -> int:
        current: int = seen["status"]["epoch"]
        wild = [max(current - 1, 0), current + 1, 0, 1, 2**52]
        return current if self.choice.random() < 0.85 else self.choice.choice(wild)

    def _statement(self, name: str, who: str, seen: dict[str, Any]) -> Any:
        epoch = self._epoch(seen)
        if name == "claim":
            said = claim(self.work, who, epoch)
            if self.choice.random() < 0.1:
                said["instance"] = self.choice.choice([*INSTANCES.values(), "host:other/1"])
            if self.choice.random() < 0.1:
                said["id"] = seen["spec"].get("claim", said)["id"]
            return said
        more: dict[str, Any] = {
            "renewal": {"renewTime": now()},
            "checkpoint": {"uri": "s3://x", "digest": fresh(), "previousDigest": self._digest(seen)},
            "release": {"reason": self.choice.choice(["", "r"])},
            "revocation": {"reason": self.choice.choice(["r", "s"])},
            "completion": {"outcome": self.choice.choice(["Succeeded", "Failed"]), "message": ""},
        }[name]
        return {"epoch": epoch, **more}

    def _digest(self, seen: dict[str, Any]) -> str:
        stored: str = seen["spec"].get("checkpoint", {}).get("digest", "")
        return stored if self.choice.random() < 0.8 else "other"

    def _effects(self, seen: dict[str, Any]) -> list[dict[str, Any]]:
        """The stored effects with one change: added, moved, rewritten or dropped."""
        effects = [dict(one) for one in seen["spec"]["effects"]]
        missing = [name for name in EFFECTS if name not in {one["id"] for one in effects}]
        if missing and (not effects or self.choice.random() < 0.4):
            state = "Attempted" if self.choice.random() < 0.8 else self.choice.choice(list(EffectState))
            return [*effects, effect(max(self._epoch(seen), 1), missing[0], state)]
        one = self.choice.choice(effects)
        change = self.choice.random()
        if change < 0.6:
            one["state"] = str(self.choice.choice(list(EffectState)))
        elif change < 0.7:
            one["action"] = "rewritten"
        else:
            effects.remove(one)
        return effects

    def _spec(self, who: str, seen: dict[str, Any]) -> dict[str, Any]:
        """What is said in one write: one to three statements, effects or settings."""
        said: dict[str, Any] = {}
        for _ in range(self.choice.choice([1, 1, 1, 2, 3])):
            name = self._name(who, seen)
            if name == "effects":
                said[name] = self._effects(seen)
            elif name == "suspend":
                said[name] = self.choice.random() < 0.05
            else:
                said[name] = self._statement(name, who, seen)
        return said

    def _name(self, who: str, seen: dict[str, Any]) -> str:
        """What to speak of: mostly what could be admitted."""
        if self.choice.random() < 0.2:
            return self.choice.choice([*EPOCH_STATEMENTS, "effects", "suspend"])
        if seen["status"].get("holderIdentity") == self.work.username(who):
            return self.choice.choice(["renewal", "effects", "effects", "checkpoint", "claim", "release", "completion"])
        held = seen["status"]["phase"] in (Phase.HELD, Phase.JEOPARDY, Phase.COMPLETED)
        return self.choice.choice(["revocation", "suspend"] if held and who == ADMIN else ["claim"])

    def _says(self, who: str, seen: dict[str, Any]) -> Answer:
        return self.work.say(who, **self._spec(who, seen))

    def _merges(self, who: str, seen: dict[str, Any]) -> Answer:
        said = self._spec(who, seen)
        for name in list(said):
            if isinstance(said[name], dict) and self.choice.random() < 0.3:
                said[name].pop(self.choice.choice(list(said[name])))
            if self.choice.random() < 0.1:
                said[name] = None
        return self.work.merge(who, **said)

    def _puts(self, who: str, seen: dict[str, Any]) -> Answer:
        whole = {**seen, "spec": {**seen["spec"], **self._spec(who, seen)}}
        if self.choice.random() < 0.2:
            whole["spec"].pop(self.choice.choice(sorted(whole["spec"])))
        if self.choice.random() < 0.2:
            whole["status"] = {"phase": "Available", "epoch": 0}
        return self.work.put(who, whole)

    def _applies(self, who: str, seen: dict[str, Any]) -> Answer:
        """One statement or effect under the manager of its name, or more under a manager of its own."""
        said = self._spec(who, seen)
        manager = self.choice.choice(sorted(said))
        if manager == "effects":
            said = {manager: said[manager][-1:]}
            manager = "effect-" + "".join(one["id"] for one in said["effects"])
        elif self.choice.random() < 0.7:
            said = {manager: said[manager]}
        else:
            manager = "agent"
        return self.work.apply(who, manager, force=self.choice.choice([True, True, False]), **said)

    def _removes(self, who: str, seen: dict[str, Any]) -> Answer:
        there = [name for name in (*EPOCH_STATEMENTS, "effects") if name in seen["spec"]]
        name = self.choice.choice(there)
        return self.work.patch(who, removes(f"/spec/{name}"))

    def _decides(self, who: str, seen: dict[str, Any]) -> Answer:
        decision = self._sensible(seen) if self.choice.random() < 0.75 else self._wild(seen)
        status = {name: value for name, value in {**seen["status"], **decision}.items() if value is not None}
        operations: Operations = [{"op": "add", "path": "/status", "value": status}]
        return self.work.patch(OPERATOR, operations)

    def _sensible(self, seen: dict[str, Any]) -> dict[str, Any]:
        """What an operator might decide: a grant when a claim is there, else a transition."""
        spec, status = seen["spec"], seen["status"]
        said = spec.get("claim")
        free = status["phase"] not in (Phase.HELD, Phase.JEOPARDY)
        if said and said["epoch"] == status["epoch"] and said["id"] != status.get("claimID") and self._permits(seen):
            return granted(seen)
        if free:
            return {"grantMessage": fresh()}
        ends = [phase for phase, name in ENDED.items() if spec.get(name, {}).get("epoch") == status["epoch"]]
        ends += [Phase.EXPIRED] if self.choice.random() < 0.1 else []
        if ends:
            return {"phase": str(ends[0]), **FREED, "successor": None}
        if self.choice.random() < 0.1:
            target = self.work.username(BOB)
            return {"successor": {"holderIdentity": target, "handoff": "h", "handoffUID": "u", "until": now()}}
        return {"phase": self.choice.choice(["Held", "Held", "Jeopardy"]), "successor": None}

    def _permits(self, seen: dict[str, Any]) -> bool:
        status, spec = seen["status"], seen["spec"]
        ended = any(spec.get(name, {}).get("epoch") == status["epoch"] for name in ("release", "revocation"))
        mine = (status.get("holderIdentity"), status.get("instance"))
        said = spec["claim"]
        return bool(
            ended
            or status["phase"] not in (Phase.HELD, Phase.JEOPARDY, Phase.COMPLETED)
            or mine == (said["holderIdentity"], said["instance"])
        )

    def _wild(self, seen: dict[str, Any]) -> dict[str, Any]:
        """What no operator should write."""
        wild: dict[str, list[Any]] = {
            "phase": [str(phase) for phase in Phase],
            "epoch": [0, 1, seen["status"]["epoch"] - 1, seen["status"]["epoch"]],
            "holderIdentity": [None, *(self.work.username(who) for who in (ALICE, BOB))],
            "instance": [None, *INSTANCES.values()],
            "claimID": [None, fresh()],
            "acquireTime": [None, now()],
        }
        names = self.choice.sample(sorted(wild), self.choice.choice([1, 2]))
        return {name: self.choice.choice(wild[name]) for name in names}
