"""Small histories, written by hand as a run would leave them: who said what, what was stored, who believed what."""

from __future__ import annotations

import copy
from typing import Any

from chaosrun.history import Record

LEASE = "ns/item"
PATH = "/apis/worklease.dev/v1alpha1/namespaces/ns/workleases/item"
STEP_SECONDS = 0.1


class Tale:
    """One work item. Each event takes a tenth of a second; `pass_by` lets more time go by."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.now = 1000.0
        self.revision = 100
        self.spec: dict[str, Any] = {"work": {"type": "t", "id": "1"}, "effects": []}
        self.status: dict[str, Any] = {"phase": "Available", "epoch": 0}
        self._calls = 0
        self._store()

    def pass_by(self, seconds: float) -> Tale:
        """Time goes by."""
        self.now += seconds
        return self

    def event(self, party: str, kind: str, **fields: Any) -> Tale:
        """Anything that a party records."""
        self.now += STEP_SECONDS
        self.records.append({"at": self.now, "party": party, "kind": kind, **fields})
        return self

    def say(self, user: str, **said: Any) -> Tale:
        """A user states something, and is answered ok."""
        patch = [{"op": "add", "path": f"/spec/{name}", "value": value} for name, value in said.items()]
        call = self._call(f"{user}#1", "PATCH", PATH, patch)
        self.spec = {**self.spec, **said}
        self._store()
        return self._ok(f"{user}#1", call)

    def add_effect(self, user: str, name: str, epoch: int, state: str = "Attempted") -> Tale:
        """A user logs an effect."""
        made = {"id": name, "epoch": epoch, "recipient": "ledger", "action": "charge", "state": state}
        return self.set_effects(user, [*self.spec["effects"], made])

    def set_effects(self, user: str, effects: list[dict[str, Any]]) -> Tale:
        """A user writes the whole list."""
        return self.say(user, effects=effects)

    def refuse(self, user: str, status: int, message: str, **said: Any) -> Tale:
        """A user states something, and is refused."""
        patch = [{"op": "add", "path": f"/spec/{name}", "value": value} for name, value in said.items()]
        return self.refuse_patch(user, status, message, patch)

    def refuse_patch(self, user: str, status: int, message: str, patch: list[dict[str, Any]]) -> Tale:
        """A user's patch is refused."""
        call = self._call(f"{user}#1", "PATCH", PATH, patch)
        return self.event(f"{user}#1", "answer", call=call, outcome="refused", status=status, message=message)

    def decide(self, **status: Any) -> Tale:
        """The operator writes these fields of the status; None removes one."""
        call = self._call("operator-0#1", "PUT", f"{PATH}/status", None)
        self.status = {k: v for k, v in {**self.status, **status}.items() if v is not None}
        self._store()
        return self._ok("operator-0#1", call)

    def claim(self, user: str, name: str, epoch: int | None = None, **more: Any) -> Tale:
        """A user claims."""
        about = self.status["epoch"] if epoch is None else epoch
        made = {"epoch": about, "id": name, "holderIdentity": user, "instance": f"host:{user}/1", "purpose": "p"}
        return self.say(user, claim=made, **more)

    def grant(self, reason: str = "FirstGrant", **changes: Any) -> Tale:
        """The operator grants the claim that is stated."""
        claim, epoch = self.spec["claim"], self.revision
        history = copy.deepcopy(self.status.get("history", []))
        if history and "endReason" not in history[-1]:
            history[-1]["endReason"] = "Reclaimed"
        granted = {
            "phase": "Held",
            "epoch": epoch,
            "leaseTransitions": self.status.get("leaseTransitions", 0) + 1,
            "holderIdentity": claim["holderIdentity"],
            "instance": claim["instance"],
            "claimID": claim["id"],
            "leaseDurationSeconds": 10,
            "jeopardyDurationSeconds": 2,
            "grantReason": reason,
            "successor": None,
            **changes,
        }
        return self.decide(**granted, history=[*history, {"epoch": granted["epoch"]}])

    def end(self, phase: str, reason: str) -> Tale:
        """The operator ends the tenure."""
        history = copy.deepcopy(self.status["history"])
        history[-1]["endReason"] = reason
        return self.decide(phase=phase, holderIdentity=None, instance=None, history=history)

    def renew(self, user: str, time: str = "2026-01-01T00:00:00Z") -> Tale:
        """The holder renews."""
        return self.say(user, renewal={"epoch": self.status["epoch"], "renewTime": time})

    def believe(self, user: str, seconds: float, epoch: int | None = None) -> Tale:
        """A user believes for so many seconds from now that it holds."""
        until = self.now + STEP_SECONDS + seconds
        about = self.status["epoch"] if epoch is None else epoch
        claim = self.status.get("claimID")
        return self.event(f"{user}#1", "belief", lease=LEASE, epoch=about, claim=claim, deadline=until, expiry=until)

    def deliver(self, epoch: int, effect: str, recipient: str = "ledger", **fields: Any) -> Tale:
        """A recipient says what it admitted."""
        fence = {"ledger": "mark", "vault": "mark and live", "mailbox": "none"}[recipient]
        told = {"recipient": recipient, "lease": LEASE, "epoch": epoch, "effect": effect, "fence": fence}
        return self.event("recipients#1", "delivery", **{**told, "outcome": "admitted", "asked_at": self.now, **fields})

    def handoff(self, name: str = "h", phase: str = "Pending", answer: str = "", **more: Any) -> Tale:
        """A handoff of the item to bob, as it is stored from now on; `more` goes into its status."""
        spec: dict[str, Any] = {"workLeaseName": "item", "to": {"holderIdentity": "bob"}}
        if answer:
            spec["response"] = {"decision": answer, "reason": ""}
        self.revision += 1
        stored = {"uid": f"uid-{name}", "spec": spec, "status": {"phase": phase, **more}}
        about = {"revision": self.revision, "plural": "handoffs", "object": f"ns/{name}"}
        return self.event("store", "store", **about, **stored)

    def reserve(self, name: str = "h") -> Tale:
        """The acceptance of a handoff takes effect."""
        reserved = {
            "holderIdentity": "bob",
            "handoff": name,
            "handoffUID": f"uid-{name}",
            "until": "2026-01-01T00:00:00Z",
        }
        return self.decide(successor=reserved)

    def delete(self) -> Tale:
        """The item is deleted, and its name is free."""
        self.revision += 1
        return self.event("store", "store", revision=self.revision, plural="workleases", object=LEASE, deleted=True)

    def _call(self, party: str, method: str, path: str, body: Any) -> str:
        self._calls += 1
        call = f"{party}:{self._calls}"
        self.event(party, "call", call=call, method=method, path=path, body=body)
        return call

    def _ok(self, party: str, call: str) -> Tale:
        return self.event(party, "answer", call=call, outcome="ok", status=200, version=self.revision)

    def _store(self) -> None:
        self.revision += 1
        self.event(
            "store",
            "store",
            revision=self.revision,
            plural="workleases",
            object=LEASE,
            uid="uid-1",
            spec=copy.deepcopy(self.spec),
            status=copy.deepcopy(self.status),
        )


def held() -> Tale:
    """Alice holds, has renewed, and believes so for nine seconds."""
    return Tale().claim("alice", "a1").grant().renew("alice").believe("alice", 9.0)
