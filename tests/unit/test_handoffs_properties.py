"""Whatever fits the schemas: the decisions about handoffs never fail, repeat themselves, or break a promise."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.handoffs import Pair
from support.lease_strategies import Case, cases, lawful_cases, names, times
from support.leases import at, wall
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
from worklease.api.worklease import Metadata
from worklease.protocol.decide import decide
from worklease.protocol.handoffs import OPEN, decide_handoff

chosen, maps = st.sampled_from, st.fixed_dictionaries
WORDS = chosen(["", "w", "é" * 1024, "\N{PERFORMING ARTS}" * 1024])
drawn_handoffs = maps(
    {
        "sender": chosen([None, 0, 1]),
        "to": names,
        "instance": chosen([None, "pod:a-0/1", "x" * 320]),
        "epoch": chosen([None, None, 0, 1, -1]),
        "pinned": chosen([None, 0, 0, -1]),
        "phase": chosen([*HandoffPhase, HandoffPhase.PENDING, HandoffPhase.PENDING]),
        "response": st.none() | st.builds(Response, decision=chosen(ResponseDecision), reason=WORDS),
        "subject": st.none() | WORDS,
        "checkpoint": chosen([None, "d" * 128, "other"]),
        "created": chosen([None, wall(-1), wall(0), wall(5)]),
        "answer_by": st.none() | times,
        "terms": chosen([1, 300, 604800]),
    }
)


def handoff_of(drawn: dict[str, Any], case: Case, uid: str) -> Handoff:
    """The drawn handoff of the drawn work: senders and epochs are those of the work, or others."""
    status = case.lease.status
    spec: dict[str, Any] = {}
    if drawn["sender"] is not None:
        spec["from_"] = status.holder_identity if drawn["sender"] and status.holder_identity else "stranger"
        spec["from_instance"] = status.instance or "host:1"
    if drawn["epoch"] is not None:
        spec["epoch"] = max(1, min(status.epoch + drawn["epoch"], 2**52))
    if drawn["checkpoint"]:
        spec["checkpoint"] = OfferedCheckpoint(uri="s3://x", digest=drawn["checkpoint"])
    return Handoff(
        metadata=Metadata(name="h", namespace="team", uid=uid, creation_timestamp=drawn["created"], generation=1),
        spec=HandoffSpec(
            work_lease_name="item",
            to=Target(holder_identity=drawn["to"], instance=drawn["instance"]),
            subject=drawn["subject"],
            accept_within_seconds=drawn["terms"],
            claim_within_seconds=min(drawn["terms"], 86400),
            response=drawn["response"],
            **spec,
        ),
        status=HandoffStatus(
            phase=drawn["phase"],
            epoch=None if drawn["pinned"] is None else max(0, status.epoch + drawn["pinned"]),
            answer_by=drawn["answer_by"],
        ),
    )


def offers_of(drawn: list[dict[str, Any]], case: Case) -> tuple[Handoff, ...]:
    return tuple(handoff_of(one, case, f"uid-{number}") for number, one in enumerate(drawn))


quick = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
several = st.lists(drawn_handoffs, min_size=1, max_size=3)
MOMENTS = chosen([0.0, 1.0, 400.0, 1e6])


@quick
@given(cases, several, st.booleans(), MOMENTS)
def test_deciding_on_a_handoff_never_fails_and_is_done_once(
    case: Case, drawn: list[dict[str, Any]], missing: bool, seconds: float
) -> None:
    """Total on everything that fits the schema; what was decided fits it too, and deciding again changes nothing."""
    offers = offers_of(drawn, case)
    lease = None if missing else case.lease
    for offer in offers:
        decision = decide_handoff(offer, lease, at(seconds), others=offers)
        if decision.status is None:
            continue
        HandoffStatus.model_validate(decision.status.manifest())
        assert offer.status.phase in OPEN, "a final phase was left"
        stored = offer.model_copy(update={"status": decision.status})
        again = decide_handoff(stored, lease, at(seconds), others=offers)
        assert again.status is None
        assert decision.status.conditions[0].type == "Ready"
        assert decision.status.conditions[0].status == "True"


@quick
@given(lawful_cases, several)
def test_deciding_on_work_with_handoffs_is_done_once(case: Case, drawn: list[dict[str, Any]]) -> None:
    """Nothing that people offer or accept keeps the operator writing the work item's status."""
    offers = offers_of(drawn, case)
    decision = decide(case.lease, case.observation, case.now, floor=case.floor, handoffs=offers)
    if decision.status is not None:
        stored = case.lease.model_copy(update={"status": decision.status})
        assert decide(stored, case.observation, case.now, floor=case.floor, handoffs=offers).status is None


@quick
@given(lawful_cases, several)
def test_nothing_is_reserved_but_what_its_target_accepted(case: Case, drawn: list[dict[str, Any]]) -> None:
    """A new reservation has an acceptance behind it: pending, of the very tenure, for the target that it names."""
    offers = offers_of(drawn, case)
    decision = decide(case.lease, case.observation, case.now, floor=case.floor, handoffs=offers)
    reserved = decision.status.successor if decision.status is not None else None
    if reserved is None or reserved == case.lease.status.successor:
        return
    assert decision.status is not None
    (offer,) = [one for one in offers if one.metadata.uid == reserved.handoff_uid]
    assert offer.status.phase is HandoffPhase.PENDING
    assert offer.spec.response is not None
    assert offer.spec.response.decision is ResponseDecision.ACCEPTED
    assert (reserved.holder_identity, reserved.instance) == (offer.spec.to.holder_identity, offer.spec.to.instance)
    assert decision.status.epoch == (offer.spec.epoch if offer.spec.epoch is not None else offer.status.epoch)


@quick
@given(lawful_cases, several)
def test_the_two_kinds_come_to_rest(case: Case, drawn: list[dict[str, Any]]) -> None:
    """Settled in turn they stop, with at most one acceptance in effect, the one that the work is reserved by."""
    pair = Pair(case.lease, offers_of(drawn, case)).settled(5.0)
    accepted = [offer.metadata.uid for offer in pair.offers if offer.status.phase is HandoffPhase.ACCEPTED]
    reserved = pair.lease.status.successor
    assert len(accepted) <= 1
    if accepted:
        assert reserved is not None
        assert reserved.handoff_uid == accepted[0]
