"""The API server as one WorkLease sees it, in Python: revisions, rules of admission, the swap, and what may be lost.

It is a model for tests without a server, no more: the rules themselves are tested on a real API server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from support.leases import wall
from support.status_rule import violations
from worklease.api.statements import EPOCH_STATEMENTS, UNRECONCILED, EffectState
from worklease.api.worklease import LEASED, Metadata, Phase, Work, WorkLease, WorkLeaseSpec, WorkLeaseStatus

ENDING = ("revocation", "release", "completion")
TESTED = ("claim", *ENDING, "renewal", "suspend", "lease_duration_seconds", "jeopardy_duration_seconds")


def about(spec: WorkLeaseSpec, name: str, epoch: int) -> bool:
    """The statement is there, and is about that epoch."""
    statement = getattr(spec, name)
    return statement is not None and statement.epoch == epoch


def admits(stored: WorkLease, spec: WorkLeaseSpec) -> bool:
    """The write of `spec` over `stored` is permitted, by whoever may speak."""
    old, status = stored.spec, stored.status
    epoch, held = status.epoch, status.phase in LEASED
    standing = held and not any(about(spec, name, epoch) for name in ENDING)
    revoking = about(spec, "revocation", epoch) and not about(old, "revocation", epoch)
    changed = {name for name in EPOCH_STATEMENTS if getattr(spec, name) != getattr(old, name)}
    force = held or status.phase is Phase.COMPLETED
    if "claim" in changed and not _admits_claim(stored, spec, revoking=revoking):
        return False
    for name in changed - {"claim"}:
        if getattr(spec, name) is None and (name == "checkpoint" or (about(old, name, epoch) and force)):
            return False
    if "renewal" in changed and spec.renewal and not (standing and spec.renewal.epoch == epoch):
        return False
    if "release" in changed and spec.release:
        fresh = held and spec.release.epoch == epoch and not about(old, "release", epoch)
        if not fresh or about(spec, "revocation", epoch) or about(spec, "completion", epoch):
            return False
    if "revocation" in changed and spec.revocation and not (revoking and force):
        return False
    if "completion" in changed and spec.completion:
        open_effects = any(effect.state in UNRECONCILED for effect in spec.effects)
        fresh = status.phase is Phase.HELD and spec.completion.epoch == epoch and not about(old, "completion", epoch)
        if not fresh or open_effects or about(spec, "revocation", epoch) or about(spec, "release", epoch):
            return False
    return _admits_effects(stored, spec, standing=standing)


def _admits_claim(stored: WorkLease, spec: WorkLeaseSpec, *, revoking: bool) -> bool:
    old, status, claim = stored.spec, stored.status, spec.claim
    epoch, held = status.epoch, status.phase in LEASED
    if claim is None:
        return not (held or stored.claim_pending) or revoking
    if old.claim is not None and old.claim.id == claim.id:
        return False  # a claim is not edited
    by_holder = held and (status.holder_identity, status.instance) == (claim.holder_identity, claim.instance)
    revoked, released = about(spec, "revocation", epoch), about(spec, "release", epoch)
    return (
        (not spec.suspend or revoking or by_holder)
        and (status.phase is not Phase.COMPLETED or revoked)
        and (not held or revoked or released or (by_holder and not about(spec, "completion", epoch)))
        and (not stored.claim_pending or revoking)
        and claim.epoch == epoch
        and claim.id not in (status.claim_id, status.observed_claim_id)
    )


def _admits_effects(stored: WorkLease, spec: WorkLeaseSpec, *, standing: bool) -> bool:
    before, after = ({effect.id: effect for effect in one.effects} for one in (stored.spec, spec))
    epoch = stored.status.epoch
    added = [effect for name, effect in after.items() if name not in before]
    dropped = [effect for name, effect in before.items() if name not in after]
    if added and not (standing and stored.status.phase is Phase.HELD):
        return False
    if added and any(old.epoch < epoch and old.state is EffectState.ATTEMPTED for old in before.values()):
        return False
    return all(new.state is EffectState.ATTEMPTED and new.epoch == epoch for new in added) and all(
        old.epoch < epoch and old.state not in UNRECONCILED for old in dropped
    )


@dataclass
class Lost(Exception):
    """The swap was not made: the object is another one by now."""


@dataclass
class Server:
    """One namespace/name over its whole life. `seconds` is the true time."""

    seconds: float = 0.0
    revision: int = 10
    floor: int = 0
    created: int = 0
    versions: list[WorkLease] = field(default_factory=list)
    """Every version since the object was created, the newest last."""
    grants: list[int] = field(default_factory=list)
    """The epochs of all grants that were ever made for this name."""
    heard_seconds: float = 0.0
    """When the current tenure was granted or last renewed."""
    renewed_by_server: str | None = None
    """The time of the managedFields entry that owns the renewal."""
    jeopardy_at_revision: int = 0
    """When the current tenure first came into jeopardy. A replica that missed a later Held takes the renewal which
    led to it for a new one: the holder gets more time than it should, never less.
    """
    renewed_at_revision: int = 0

    @property
    def lease(self) -> WorkLease:
        return self.versions[-1]

    def create(self, **said: Any) -> None:
        """A new object of that name, perhaps from a backup of spec."""
        self.created += 1
        metadata = Metadata(name="item", namespace="team", uid=f"uid-{self.created}")
        spec = WorkLeaseSpec(**{"work": Work(type="ticket", id="T-1"), **said})
        self.versions = []
        self.renewed_by_server = None
        self._store(WorkLease(metadata=metadata, spec=spec))

    def _store(self, lease: WorkLease) -> None:
        self.revision += 1
        metadata = lease.metadata.model_copy(update={"resource_version": str(self.revision)})
        self.versions.append(lease.model_copy(update={"metadata": metadata}))

    def say(self, *, server_skew_seconds: float = 0.0, **statements: Any) -> bool:
        """Writes to spec; False when that is refused."""
        lease = self.lease
        spec = lease.spec.model_copy(update=statements)
        if not admits(lease, spec):
            return False
        if spec == lease.spec:
            return True  # nothing is stored
        renewed = spec.renewal is not None and spec.renewal != lease.spec.renewal
        self._store(lease.model_copy(update={"spec": spec}))
        if renewed:
            self.heard_seconds = self.seconds
            self.renewed_at_revision = self.revision
            self.renewed_by_server = wall(math.floor(self.seconds + server_skew_seconds))
        return True

    def touch(self) -> None:
        """A write that says nothing."""
        self._store(self.lease)

    def managed_fields(self) -> list[dict[str, Any]]:
        return [{"time": self.renewed_by_server, "fieldsV1": {"f:spec": {"f:renewal": {}}}}]

    def swap(self, read: WorkLease, status: WorkLeaseStatus, *, tested: bool) -> None:
        """Stores a decision, if what it was made from still stands: all of it, or what the tested patch names."""
        now = self.lease
        same = read.metadata == now.metadata
        if tested:
            same = (read.metadata.uid, read.status) == (now.metadata.uid, now.status)
            same = same and all(getattr(read.spec, name) == getattr(now.spec, name) for name in TESTED)
        if not same:
            raise Lost
        broken = violations(now.status, status)
        assert not broken, f"the API server refuses this status: {broken}"
        self._check(now, status)
        self._store(now.model_copy(update={"status": status}))
        if status.epoch > now.status.epoch:
            self.jeopardy_at_revision = 0
        elif status.phase is Phase.JEOPARDY and not self.jeopardy_at_revision:
            self.jeopardy_at_revision = self.revision

    def _check(self, before: WorkLease, status: WorkLeaseStatus) -> None:
        """What may never happen, looked at whenever a decision takes effect."""
        old, spec = before.status, before.spec
        lease_seconds = old.lease_duration_seconds or 0
        both_seconds = lease_seconds + (old.jeopardy_duration_seconds or 0)
        ended = about(spec, "release", old.epoch) or about(spec, "revocation", old.epoch)
        if status.claim_id is not None and status.claim_id != old.claim_id:
            assert not self.grants or status.epoch > self.grants[-1], "an epoch was given twice, or went back"
            claim = spec.claim
            assert claim is not None
            assert (claim.id, claim.epoch) == (status.claim_id, old.epoch), "a claim of another epoch was granted"
            expired = self.seconds >= self.heard_seconds + both_seconds - 1e-6
            by_holder = (old.holder_identity, old.instance) == (claim.holder_identity, claim.instance)
            assert old.phase not in LEASED or ended or by_holder or expired, "two parties hold at once"
            self.grants.append(status.epoch)
            self.heard_seconds = self.seconds
        elif status.phase is not old.phase and status.epoch == old.epoch:
            match status.phase:
                case Phase.EXPIRED:
                    assert self.seconds >= self.heard_seconds + both_seconds - 1e-6, "expired before its time"
                case Phase.JEOPARDY:
                    assert self.seconds >= self.heard_seconds + lease_seconds - 1e-6, "in jeopardy before its time"
                case Phase.HELD:
                    assert self.renewed_at_revision > self.jeopardy_at_revision, "held again without a renewal"
                case Phase.RELEASED | Phase.REVOKED | Phase.COMPLETED as phase:
                    name = {"Released": "release", "Revoked": "revocation", "Completed": "completion"}[phase]
                    assert about(spec, name, old.epoch), "a tenure was ended by a statement about another one"

    def lose_status(self) -> None:
        self._store(self.lease.model_copy(update={"status": WorkLeaseStatus()}))

    def restore(self, back: int) -> None:
        """The store is put back to an older revision of this object, and the floor is raised as the manual says."""
        latest = self.revision
        del self.versions[max(1, len(self.versions) - back) :]
        self.revision = int(self.lease.metadata.resource_version)
        self.floor += latest - self.revision
        self.heard_seconds = self.seconds  # what was said since is gone with it
        self.jeopardy_at_revision = self.renewed_at_revision = 0
        self.renewed_by_server = None
