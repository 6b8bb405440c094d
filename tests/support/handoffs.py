"""Small builders of Handoffs for the tests of the decisions, and the two swaps as an operator makes them.

Alice holds the work, or held it last, and offers it to Bob, as in the builders of WorkLeases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from support.leases import ALICE, BOB, EPOCH, after, at, sight, wall
from support.leases import said as say
from worklease.api.handoff import (
    Handoff,
    HandoffPhase,
    HandoffSpec,
    HandoffStatus,
    OfferedCheckpoint,
    Response,
    ResponseDecision,
    Target,
)
from worklease.api.worklease import Metadata, WorkLease
from worklease.protocol.decide import Decision, decide
from worklease.protocol.handoffs import HandoffDecision, decide_handoff

UID = "uid-h"
ACCEPT_SECONDS = 100
CLAIM_SECONDS = 50
SENDER: dict[str, Any] = {"from_": ALICE["holder_identity"], "from_instance": ALICE["instance"]}
NO_SENDER: dict[str, Any] = {"from_": None, "from_instance": None}
TO_BOB = Target(holder_identity=BOB["holder_identity"])


def response(decision: ResponseDecision = ResponseDecision.ACCEPTED, reason: str = "gladly") -> Response:
    return Response(decision=decision, reason=reason)


def handoff(
    phase: HandoffPhase = HandoffPhase.PENDING,
    *,
    uid: str = UID,
    created: float = 0.0,
    pinned: int | None = EPOCH,
    decided: dict[str, Any] | None = None,
    **said: Any,
) -> Handoff:
    """An offer of Alice's to Bob, pinned to the current epoch; `said` goes into spec, `decided` into status."""
    spec = {
        "work_lease_name": "item",
        **SENDER,
        "to": TO_BOB,
        "subject": "the rest of it",
        "accept_within_seconds": ACCEPT_SECONDS,
        "claim_within_seconds": CLAIM_SECONDS,
        **said,
    }
    stamp = wall(created)
    return Handoff(
        metadata=Metadata(
            name="to-bob", namespace="team", uid=uid, resource_version="7", creation_timestamp=stamp, generation=1
        ),
        spec=HandoffSpec(**spec),
        status=HandoffStatus(phase=phase, epoch=pinned, **(decided or {})),
    )


def accepted(offer: Handoff) -> Handoff:
    """The offer once Bob has accepted it."""
    return answered(offer, response())


def answered(offer: Handoff, answer: Response) -> Handoff:
    """The offer once it has been answered."""
    metadata = offer.metadata.model_copy(update={"generation": 2})
    spec = offer.spec.model_copy(update={"response": answer})
    return offer.model_copy(update={"spec": spec, "metadata": metadata})


def offered_checkpoint(digest: str = "sha256:1") -> OfferedCheckpoint:
    return OfferedCheckpoint(uri="s3://bucket/state", digest=digest)


def judge(offer: Handoff, lease: WorkLease | None, seconds: float = 1.0, *others: Handoff) -> HandoffDecision:
    """The decision about the handoff."""
    return decide_handoff(offer, lease, at(seconds), others=others)


def judged(offer: Handoff, lease: WorkLease | None, seconds: float = 1.0, *others: Handoff) -> HandoffStatus:
    """The status that is written; fails where none is."""
    decision = judge(offer, lease, seconds, *others)
    assert decision.status is not None, "nothing was decided"
    return decision.status


@dataclass(frozen=True)
class Pair:
    """A work item and its handoffs, as they are stored. Each swap is one step; a crash is a step that is not made."""

    lease: WorkLease
    offers: tuple[Handoff, ...]

    def decide_lease(self, seconds: float) -> Decision:
        """The decision about the lease."""
        return decide(self.lease, sight(self.lease), at(seconds), handoffs=self.offers)

    def swap_lease(self, seconds: float = 1.0) -> Pair:
        """Decide on the lease, and store it."""
        decision = self.decide_lease(seconds)
        version = self.lease.metadata.resource_version
        if decision.status is None or not (version.isascii() and version.isdigit()):
            return self
        return replace(self, lease=after(self.lease, decision))

    def swap_offer(self, number: int = 0, seconds: float = 1.0) -> Pair:
        """Decide on one handoff, and store it."""
        offer = self.offers[number]
        decision = decide_handoff(offer, self.lease, at(seconds), others=self.offers)
        if decision.status is None:
            return self
        changed = offer.model_copy(update={"status": decision.status})
        return replace(self, offers=(*self.offers[:number], changed, *self.offers[number + 1 :]))

    def settled(self, seconds: float = 1.0) -> Pair:
        """Both in turn until nothing changes; fails where that does not come."""
        pair = self
        for _ in range(10):
            swapped = pair.swap_lease(seconds)
            for number in range(len(self.offers)):
                swapped = swapped.swap_offer(number, seconds)
            if swapped == pair:
                return pair
            pair = swapped
        raise AssertionError(f"it does not come to rest: {pair}")

    def said(self, **statements: Any) -> Pair:
        """Once these statements about the work have been stored."""
        return replace(self, lease=say(self.lease, **statements))

    @property
    def phases(self) -> tuple[HandoffPhase, ...]:
        """Where the handoffs stand."""
        return tuple(offer.status.phase for offer in self.offers)

    @property
    def owned(self) -> bool:
        """Somebody holds the work, or it is reserved for somebody."""
        return self.lease.status.holder_identity is not None or self.lease.status.successor is not None
