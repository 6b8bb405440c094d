"""What a history covers, counted by kind: a run that was quiet proves nothing, so what must occur is a table too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from chaosrun.faults import KINDS
from chaosrun.history import Record

from . import answers, effects, standing, waits
from .model import History, State

Coverage = dict[str, Counter[str]]

FAULTS = tuple(f"{target} {fault}" for target, fault in KINDS)
STATEMENTS = ("claim", "renewal", "checkpoint", "effects", "release", "revocation", "completion", "suspend")
GRANTS = ("FirstGrant", "AfterRelease", "AfterExpiry", "AfterRevocation", "Handoff")
ENDS = ("Completed", "Revoked", "Released", "Expired", "HandedOver")
RULES = (
    "claim.leased",
    "claim.epoch",
    "renewal.standing",
    "release.standing",
    "completion.standing",
    "checkpoint.standing",
    "effects.standing",
)
DELIVERIES = ("ledger admitted", "ledger StaleEpoch", "vault admitted", "vault NoStanding", "mailbox admitted")
ANSWERS = ("ok", "refused", "unknown")
EXPECTED: dict[str, tuple[str, ...]] = {
    "faults": FAULTS,
    "grants": GRANTS,
    "ends of tenures": ENDS,
    "statements stored": STATEMENTS,
    "refusals by rule": RULES,
    "answers": ANSWERS,
    "deliveries": DELIVERIES,
    "handoffs": ("Completed", "Rejected", "Lapsed"),
    "runs": ("settled", "seen by watches"),
}
"""What a long run must have seen at least once."""


def covered(records: Iterable[Record]) -> Coverage:
    """Counts by kind, under the headings of EXPECTED and some more."""
    history = History.of(records)
    found: Coverage = {heading: Counter() for heading in EXPECTED}
    for record in history.records:
        if record["kind"] == "fault":
            found["faults"][record["fault"]] += 1
        elif record["kind"] == "delivery":
            found["deliveries"][f"{record['recipient']} {record['outcome']}"] += 1
        elif record["kind"] == "seen":
            found["runs"]["seen by watches"] += 1
        elif record["kind"] == "settled":
            found["runs"]["settled"] += 1
    deliveries = history.of_kind("delivery")
    found["deliveries"]["lower after higher, without a fence"] = len(effects.passed_by(deliveries, fenced=False))
    found["deliveries"]["lower after higher, with a fence"] = len(effects.passed_by(deliveries, fenced=True))
    _count_changes(history, found)
    for call in history.calls:
        found["answers"][call.outcome] += 1
        target = call.target
        if call.outcome == "refused" and target is not None:
            found["refusals by rule"].update(answers.rules_of(call))
    found["beliefs"] = Counter({"all": len(history.beliefs), **standing.excused(history)})
    found["revisions"] = Counter(plural for (plural, _), versions in history.versions.items() for _ in versions)
    found["milliseconds to a decision"] = Counter(waits.milliseconds(history))
    return found


def _count_changes(history: History, found: Coverage) -> None:
    for _, before, after in history.changes():
        stored = before.spec if before else {}
        for name in STATEMENTS:
            if after.spec.get(name) not in (stored.get(name), [], None):
                found["statements stored"][name] += 1
        old: State = before.status if before else {"epoch": 0}
        new = after.status
        if new["epoch"] > old["epoch"]:
            found["grants"][new.get("grantReason", "none")] += 1
        before_ended = {(t["epoch"], t.get("endReason")) for t in old.get("history", [])}
        for tenure in new.get("history", []):
            if tenure.get("endReason") and (tenure["epoch"], tenure["endReason"]) not in before_ended:
                found["ends of tenures"][tenure["endReason"]] += 1
    for (plural, _), versions in history.versions.items():
        phases = [version.status.get("phase") for version in versions if version.state]
        if plural == "handoffs" and phases:
            found["handoffs"][str(phases[-1])] += 1


def missing(found: Coverage) -> list[str]:
    """What a long run should have seen and this one has not."""
    return [f"{heading}: {name}" for heading, names in EXPECTED.items() for name in names if not found[heading][name]]


def table(found: Coverage, records: Iterable[Record] = ()) -> str:
    """The counts as markdown, under the plan of the run."""
    lines = ["| what | how often |", "|---|---|"]
    for record in records:
        if record["kind"] == "run":
            minutes = f"{record['seconds'] / 60:.1f} minutes"
            lines.append(
                f"| run | seed {record['seed']}, {minutes}, {record['agents']} agents, {record['items']} items |"
            )
    for heading, counts in found.items():
        told = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        lines.append(f"| {heading} | {told or 'none'} |")
    return "\n".join(lines)
