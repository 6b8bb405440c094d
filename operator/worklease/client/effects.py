"""The log of effects, as patches: each names the entry that it means, so that one is never changed for another."""

import uuid
from dataclasses import dataclass, field

from worklease.api.fields import EFFECTS_MAX
from worklease.api.statements import UNRECONCILED, Effect, EffectState
from worklease.api.worklease import WorkLease
from worklease.client.speech import Patch
from worklease.fencing.token import Token


@dataclass
class ReportedEffect:
    """What `async with lease.effect(...) as effect` gives."""

    logged: Effect
    token: Token
    detail: str | None = field(default=None)
    """What is worth keeping about its outcome; set it in the body."""

    @property
    def id(self) -> str:
        """Its id: give it to the recipient as an idempotency key."""
        return self.logged.id

    @property
    def headers(self) -> dict[str, str]:
        """The fencing token and the id, as the headers of a request to the recipient."""
        return {**self.token.to_headers(), "Idempotency-Key": self.id}


def new_effect(id: str | None, epoch: int, recipient: str, action: str, digest: str | None, at: str) -> Effect:
    """An effect that is about to be sent."""
    return Effect(
        id=id or str(uuid.uuid4()),
        epoch=epoch,
        recipient=recipient,
        action=action,
        digest=digest,
        state=EffectState.ATTEMPTED,
        time=at,
    )


def room(work: WorkLease, epoch: int) -> int:
    """How many more entries fit into the log under this epoch: it keeps those that may not be dropped."""
    return EFFECTS_MAX - sum(1 for old in work.spec.effects if not _may_go(old, epoch))


def _may_go(old: Effect, epoch: int) -> bool:
    return old.epoch < epoch and old.state not in UNRECONCILED


def appending(effect: Effect, work: WorkLease) -> Patch:
    """Adds an entry; when the list is full, in place of the oldest reconciled entry of an earlier epoch."""
    stored = work.spec.effects
    patch: Patch = []
    if len(stored) >= EFFECTS_MAX:
        for index, old in enumerate(stored):
            if _may_go(old, effect.epoch):
                patch = [
                    {"op": "test", "path": f"/spec/effects/{index}/id", "value": old.id},
                    {"op": "remove", "path": f"/spec/effects/{index}"},
                ]
                break
    return [*patch, {"op": "add", "path": "/spec/effects/-", "value": effect.manifest()}]


def moving(work: WorkLease, id: str, state: EffectState, detail: str, at: str) -> Patch:
    """Moves an entry to another state; fails its test when the entry is elsewhere in the list by now."""
    index = next((index for index, effect in enumerate(work.spec.effects) if effect.id == id), 0)
    entry = f"/spec/effects/{index}"
    patch: Patch = [
        {"op": "test", "path": f"{entry}/id", "value": id},
        {"op": "add", "path": f"{entry}/state", "value": str(state)},
        {"op": "add", "path": f"{entry}/time", "value": at},
    ]
    return [*patch, {"op": "add", "path": f"{entry}/detail", "value": detail}] if detail else patch
