"""Hypothesis strategies for WorkLeases: any that fits the schema, and those whose status an operator could have left.

Every name of a person and every purpose contains MARKER, so that a test can look for where they come out again. All
strategies are made once; an epoch is drawn as its place beside the current one, and filled in afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from support.leases import at, wall
from worklease.api.fields import GRANTED_EPOCH_MAX, HISTORY_MAX, STATED_EPOCH_MAX, Condition
from worklease.api.handoff import (
    Handoff,
    HandoffPhase,
    HandoffSpec,
    HandoffStatus,
    Response,
    ResponseDecision,
    Target,
)
from worklease.api.statements import (
    Checkpoint,
    Claim,
    Completion,
    Effect,
    EffectState,
    Outcome,
    Release,
    Renewal,
    Revocation,
)
from worklease.api.worklease import (
    LEASED,
    EffectCounts,
    Metadata,
    Phase,
    Successor,
    Tenure,
    Work,
    WorkLease,
    WorkLeaseSpec,
    WorkLeaseStatus,
)
from worklease.protocol.moments import Moment
from worklease.protocol.observation import Observation, observe
from worklease.protocol.reasons import ConditionName, EndReason, GrantReason

MARKER = "zz-secret-zz"
Drawn = dict[str, Any]
Strategy = st.SearchStrategy[Any]
chosen, maps = st.sampled_from, st.fixed_dictionaries


def maybe(strategy: Strategy) -> Strategy:
    return st.none() | strategy


names = chosen([f"{MARKER}-a", f"{MARKER}-b", MARKER + "\N{PERFORMING ARTS}" * 500])
instances = chosen(["pod:a-0/1", "pod:a-0/2", f"host:{MARKER}/1", "x" * 320])
identifiers = chosen(["c1", "c2", "c3", "~" * 64])
reasons = chosen(["w", "é" * 1024, "\N{PERFORMING ARTS}" * 1024, "{} %s \\ ' \u2028"])
texts = reasons | st.just("")
purposes = chosen([MARKER, MARKER + "p" * 1000])
ODD_TIMES = ["2000-01-01T00:00:00Z", "2999-12-31T23:59:59.999999999Z", "2026-02-31T00:00:00Z", "2026-11-30T12:00:00.1Z"]
times = chosen([wall(-1), wall(0), wall(59.5), wall(100), wall(1e6), *ODD_TIMES])
ODD_VERSIONS = ["", "0", "abc", "-1", "٥٠٠", "9" * 40, "1e3", str(STATED_EPOCH_MAX), str(STATED_EPOCH_MAX + 1)]
versions = st.integers(0, 300).map(str) | st.integers(0, 2**63).map(str) | chosen(ODD_VERSIONS)
PLACES: dict[str, Callable[[int], int]] = {
    "current": lambda current: current,
    "before": lambda current: current - 1,
    "after": lambda current: current + 1,
    "first": lambda current: 1,
    "created": lambda current: 2**51,
    "last": lambda current: STATED_EPOCH_MAX,
}
places = chosen(["current", "current", "current", *PLACES])


def placed(drawn: Drawn | None, current: int, least: int = 1) -> Drawn | None:
    """The drawn statement with its epoch in place of where that lies."""
    if drawn is None:
        return None
    return {**drawn, "epoch": min(max(PLACES[drawn["epoch"]](current), least), STATED_EPOCH_MAX)}


claims = maps(
    {"epoch": places, "id": identifiers, "holder_identity": names, "instance": instances, "purpose": purposes}
)
effects = maps({"epoch": places, "state": chosen(EffectState)})
STATED: dict[str, tuple[type[Any], Strategy]] = {
    "renewal": (Renewal, maps({"epoch": places, "renew_time": times})),
    "checkpoint": (Checkpoint, maps({"epoch": places, "uri": st.just("s3://x"), "digest": st.just("d" * 128)})),
    "release": (Release, maps({"epoch": places, "reason": texts})),
    "revocation": (Revocation, maps({"epoch": places, "reason": reasons})),
    "completion": (Completion, maps({"epoch": places, "outcome": chosen(Outcome), "message": texts})),
}
specs = maps(
    {
        "lease_duration_seconds": chosen([10, 60, 86400]),
        "jeopardy_duration_seconds": chosen([0, 30, 3600]),
        "suspend": st.booleans(),
        "claim": maybe(claims),
        "effects": st.lists(effects, max_size=3),
        **{name: maybe(strategy) for name, (_, strategy) in STATED.items()},
    }
)


def spec_of(drawn: Drawn, current: int) -> WorkLeaseSpec:
    claim = placed(drawn["claim"], current, 0)
    said: Drawn = {
        name: model(**({"previous_digest": ""} if model is Checkpoint else {}), **statement)
        for name, (model, _) in STATED.items()
        if (statement := placed(drawn[name], current)) is not None
    }
    said["effects"] = tuple(
        Effect(id=str(number), recipient="mail", action="send", **(placed(effect, current) or {}))
        for number, effect in enumerate(drawn["effects"])
    )
    terms = {name: drawn[name] for name in ("lease_duration_seconds", "jeopardy_duration_seconds", "suspend")}
    return WorkLeaseSpec(work=Work(type="ticket", id="T-1"), claim=Claim(**claim) if claim else None, **terms, **said)


successors = maps({"holder_identity": names, "instance": maybe(instances), "until": times}).map(
    lambda drawn: Successor(handoff="to-somebody", handoff_uid="uid-h", **drawn)
)
grant_reasons = chosen([reason.value for reason in GrantReason])
tenures = maps(
    {
        "holder_identity": names,
        "instance": instances,
        "purpose": purposes,
        "grant_reason": grant_reasons,
        "acquire_time": times,
        "end_time": maybe(times),
        "end_reason": maybe(chosen([reason.value for reason in EndReason])),
        "end_message": maybe(texts),
        "effects": maybe(st.just(EffectCounts(attempted=3))),
    }
)
conditions = st.lists(
    maps(
        {
            "type": chosen([*(name.value for name in ConditionName), "Other"]),
            "status": chosen(["True", "False", "Unknown"]),
            "last_transition_time": times,
            "message": texts,
        }
    ).map(lambda drawn: Condition(reason="SomeReason", **drawn)),
    max_size=4,
    unique_by=lambda condition: condition.type,
).map(tuple)
HOLDER: dict[str, Strategy] = {"holder_identity": names, "instance": instances}
GRANT: dict[str, Strategy] = {
    "lease_transitions": chosen([1, 5, 2**60]),
    "claim_id": identifiers,
    "acquire_time": times,
    "lease_duration_seconds": chosen([10, 60, 86400]),
    "jeopardy_duration_seconds": chosen([0, 30, 3600]),
    "grant_reason": grant_reasons,
    "grant_message": texts,
}
ANYTHING = {
    "observed_claim_id": maybe(identifiers),
    "conditions": conditions,
    "tenure": tenures,
    "tenures": chosen([0, 1, 2, HISTORY_MAX]),
    "last_tenure": chosen([0, 0, 1]),
}
EPOCHS = [100, 100, 1, 7, 2**51, STATED_EPOCH_MAX]


def status_of(drawn: Drawn) -> WorkLeaseStatus:
    fields = dict(drawn)
    tenure, number, behind = fields.pop("tenure"), fields.pop("tenures"), fields.pop("last_tenure")
    last = max(0, fields["epoch"] - behind)
    kept = [Tenure(epoch=max(0, last - back), claim_id="c0", **tenure) for back in range(number)]
    return WorkLeaseStatus(history=tuple(reversed(kept)), **fields)


any_status = maps(
    {
        "phase": chosen(Phase),
        "epoch": chosen([*EPOCHS, 0, GRANTED_EPOCH_MAX]),
        "successor": maybe(successors),
        **{name: maybe(strategy) for name, strategy in {**HOLDER, **GRANT}.items()},
        **ANYTHING,
    }
).map(status_of)
lawful_status = st.one_of(
    maps({"phase": st.just(Phase.AVAILABLE), "epoch": st.just(0), **ANYTHING}),
    maps(
        {
            "phase": chosen(sorted(LEASED)),
            "epoch": chosen(EPOCHS),
            "successor": maybe(successors),
            **HOLDER,
            **GRANT,
            **ANYTHING,
        }
    ),
    maps(
        {
            "phase": chosen([Phase.RELEASED, Phase.EXPIRED]),
            "epoch": chosen(EPOCHS),
            "successor": maybe(successors),
            **GRANT,
            **ANYTHING,
        }
    ),
    maps({"phase": chosen([Phase.REVOKED, Phase.COMPLETED]), "epoch": chosen(EPOCHS), **GRANT, **ANYTHING}),
).map(status_of)


handoffs = st.lists(
    maps(
        {
            "phase": chosen([HandoffPhase.PENDING, HandoffPhase.PENDING, *HandoffPhase]),
            "named": maybe(places),
            "pinned": maybe(places),
            "sender": maybe(maps(HOLDER)),
            "target": maps({"holder_identity": names, "instance": maybe(instances)}),
            "answer": maybe(chosen([ResponseDecision.ACCEPTED, *ResponseDecision])),
            "created": maybe(times),
            "claim_within_seconds": chosen([1, 300, 86400]),
        }
    ),
    max_size=2,
)


def handoffs_of(drawn: list[Drawn], current: int) -> tuple[Handoff, ...]:
    """Of the same item; the first has the uid that a drawn successor names."""

    def epoch(place: str | None) -> int | None:
        return None if place is None else min(max(PLACES[place](current), 1), STATED_EPOCH_MAX)

    return tuple(
        Handoff(
            metadata=Metadata(
                name=f"h{number}",
                namespace="team",
                uid="uid-h" if number == 0 else f"uid-h{number}",
                creation_timestamp=one["created"],
            ),
            spec=HandoffSpec(
                work_lease_name="item",
                epoch=epoch(one["named"]),
                from_=one["sender"] and one["sender"]["holder_identity"],
                from_instance=one["sender"] and one["sender"]["instance"],
                to=Target(**one["target"]),
                claim_within_seconds=one["claim_within_seconds"],
                response=one["answer"] and Response(decision=one["answer"], reason=""),
            ),
            status=HandoffStatus(phase=one["phase"], epoch=epoch(one["pinned"])),
        )
        for number, one in enumerate(drawn)
    )


@dataclass(frozen=True)
class Case:
    """Everything that one decision is handed."""

    lease: WorkLease
    observation: Observation | None
    now: Moment
    floor: int
    handoffs: tuple[Handoff, ...]


WAITS = chosen([0.0, 0.001, 5.0, 10.0, 60.0, 90.0, 100000.0])
circumstances = maps(
    {
        "version": versions,
        "deleted": chosen([None, None, None, "2026-11-30T12:00:00Z"]),
        "seen_before": maybe(maps({"phase": chosen(sorted(LEASED)), "renewed_since": st.booleans()})),
        "heard": chosen([None, None, -1e5, -70.0, -1.0, 1e5]),
        "seen_after": WAITS,
        "decided_after": WAITS,
        "floor": chosen([0, 0, 1, 100, 2**51]),
        "handoffs": st.just([]) | handoffs,
    }
)


def case_of(drawn: tuple[Drawn, WorkLeaseStatus, Drawn]) -> Case:
    spec, status, around = drawn
    metadata = Metadata(
        name="item",
        namespace="team",
        uid="uid-1",
        resource_version=around["version"],
        deletion_timestamp=around["deleted"],
    )
    lease = WorkLease(metadata=metadata, spec=spec_of(spec, status.epoch), status=status)
    seen: Observation | None = None
    if before := around["seen_before"]:
        earlier = lease.model_copy(update={"status": status.model_copy(update={"phase": before["phase"]})})
        if before["renewed_since"]:
            earlier = earlier.model_copy(update={"spec": lease.spec.model_copy(update={"renewal": None})})
        seen = observe(None, earlier, at(0), None)
    heard = None if around["heard"] is None else at(around["heard"]).wall
    seen = observe(seen, lease, at(around["seen_after"]), heard)
    now = at(around["seen_after"] + around["decided_after"])
    return Case(lease, seen, now, around["floor"], handoffs_of(around["handoffs"], status.epoch))


cases = st.tuples(specs, any_status, circumstances).map(case_of)
"""Any WorkLease that fits the schema, what was seen of it (nothing, one sight, or two), handoffs, and a later time."""
lawful_cases = st.tuples(specs, lawful_status, circumstances).map(case_of)
"""The same, with a status that an operator could have left."""
