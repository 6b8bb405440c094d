"""The schedule of faults and the files of a history: what a run is made of, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.histories import held
from chaosrun import command, history
from chaosrun.checker import coverage
from chaosrun.checker.model import History
from chaosrun.faults import KINDS, LONG_SECONDS, schedule
from chaosrun.history import Recorder

COUNTS = {"agent": 4, "operator": 2}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("seconds", [10.0, 60.0, 600.0])
def test_every_kind_of_fault_occurs_however_short_the_run(seed: int, seconds: float) -> None:
    """A schedule leaves no kind out, befalls only who is there, and ends each fault."""
    planned = schedule(seed, seconds, COUNTS)
    assert {(fault.target, fault.fault) for fault in planned} == set(KINDS)
    assert all(0 <= fault.number < COUNTS.get(fault.target, 1) for fault in planned)
    assert all(0 < fault.lasts_seconds <= LONG_SECONDS[1] for fault in planned)


def test_a_seed_is_a_schedule() -> None:
    """The same seed gives the same faults, another one others."""
    assert schedule(7, 60.0, COUNTS) == schedule(7, 60.0, COUNTS)
    assert schedule(7, 60.0, COUNTS) != schedule(8, 60.0, COUNTS)


def test_the_files_of_all_parties_become_one_history_by_time(tmp_path: Path) -> None:
    """Each party has a file of its own; what a kill has cut short is left out."""
    late, early = Recorder(tmp_path, "b#1"), Recorder(tmp_path, "a#1")
    late.write("call", at=2.0)
    early.write("call", at=1.0)
    with (tmp_path / "history-a#1.jsonl").open("a") as file:
        file.write('{"at": 3.0, "kind": "ca')
    merged = history.merge(tmp_path)
    assert [record["at"] for record in merged] == [1.0, 2.0]
    assert history.read(tmp_path / history.MERGED) == merged


def test_a_history_that_was_kept_is_checked_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check FILE` finds in a file what was found in the run, and its exit status says so."""
    right, wrong = tmp_path / "right.jsonl", tmp_path / "wrong.jsonl"
    history.save(right, held().records)
    history.save(wrong, held().pass_by(8).decide(phase="Jeopardy").records)
    assert command.main(["--check", str(right)]) == 0
    assert command.main(["--check", str(wrong)]) == 1
    assert "VIOLATION ns/item" in capsys.readouterr().out


def test_a_long_run_in_which_nothing_happened_does_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """What was not seen is named, and a whole run fails for it."""
    assert command.report([], whole=True) == 1
    assert "faults: agent cut" in capsys.readouterr().out


def test_a_history_is_counted_by_kind() -> None:
    """Grants by reason and statements by kind are those of the store."""
    found = coverage.covered(held().records)
    assert found["grants"] == {"FirstGrant": 1}
    assert found["statements stored"] == {"claim": 1, "renewal": 1}
    assert len(History.of(held().records).beliefs) == found["beliefs"]["all"] == 1
