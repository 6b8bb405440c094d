"""A short run of everybody under every kind of fault: the promises hold, and the run was not an empty one."""

from __future__ import annotations

from pathlib import Path

from chaosrun.checker import check, coverage
from chaosrun.run import Plan, run

PLAN = Plan(seed=11, seconds=40.0)
SEEN = ("faults", "answers", "runs")


def test_the_promises_hold_under_every_kind_of_fault(tmp_path: Path) -> None:
    """Pauses, kills, lost answers, storms and wrong clocks: no promise is broken, and the end is settled (case 39)."""
    records = run(PLAN, tmp_path)
    assert [str(violation) for violation in check(records)] == []
    assert [record for record in records if record["kind"] == "ended"] == []
    found = coverage.covered(records)
    assert [one for one in coverage.missing(found) if one.partition(":")[0] in SEEN] == []
    assert found["grants"].total() > 5
    assert found["refusals by rule"].total() > 5
