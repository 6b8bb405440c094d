"""What hack/chaos does: runs everything under faults, checks the history, and prints what it covered."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from progress import say

from . import history
from .checker import check, coverage
from .controlled import Verdict, play
from .controls import CONTROLS
from .history import MERGED, Record
from .run import Plan, run

CAUGHT_MOST = 40
LONG_SECONDS = 280.0
"""From this length on a run fails when it has not seen everything that must occur."""


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0 when no promise was broken and enough was seen, else 1."""
    parser = argparse.ArgumentParser(prog="hack/chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long the faults last. Default: 5")
    parser.add_argument("--seed", type=int, default=1, help="of the schedule, and of what the parties do. Default: 1")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where to leave the history and the logs")
    parser.add_argument("--no-faults", action="store_true", help="run without any fault")
    parser.add_argument(
        "--without",
        action="append",
        choices=(*CONTROLS, "all"),
        help="instead of a run: a directed scene with this broken, which must be caught; may be repeated",
    )
    parser.add_argument("--check", type=Path, metavar="FILE", help="check this history again instead of running")
    options = parser.parse_args(arguments)
    if options.check:
        return report(history.read(options.check), whole=False)
    directory = _directory(options.keep)
    if options.without:
        names = list(CONTROLS) if "all" in options.without else options.without
        return _finished(report_controls(play(directory, names)), directory, kept=bool(options.keep))
    plan = Plan(options.seed, options.minutes * 60, with_faults=not options.no_faults)
    records = run(plan, directory)
    failed = report(records, whole=plan.with_faults and plan.seconds >= LONG_SECONDS)
    return _finished(failed, directory, kept=bool(options.keep))


def report_controls(verdicts: Sequence[Verdict]) -> int:
    """Prints what was found in each scene; 1 unless every control was caught, and nothing without one."""
    print("| broken | caught | found | without the control |")
    print("|---|---|---|---|")
    for verdict in verdicts:
        found = next((v for v in verdict.broken if v.promise is CONTROLS[verdict.control].promise), None)
        caught, honest = "yes" if verdict.caught else "NO", f"{len(verdict.honest)} violations"
        print(f"| {CONTROLS[verdict.control].what} | {caught} | {found or list(verdict.broken)} | {honest} |")
        for violation in verdict.honest:
            print(f"VIOLATION {violation}")
    return 0 if all(verdict.caught and not verdict.honest for verdict in verdicts) else 1


def _finished(failed: int, directory: Path, *, kept: bool) -> int:
    if failed or kept:
        say(f"the history: hack/chaos --check {directory / MERGED}")
    else:
        shutil.rmtree(directory)
    return failed


def report(records: Sequence[Record], *, whole: bool) -> int:
    """Prints coverage and violations; 1 when there are any, or when a `whole` run has missed something."""
    found = coverage.covered(records)
    print(coverage.table(found, records))
    violations = check(records)
    for violation in violations[:CAUGHT_MOST]:
        print(f"VIOLATION {violation}")
    if len(violations) > CAUGHT_MOST:
        print(f"and {len(violations) - CAUGHT_MOST} more: {dict(Counter(one.promise for one in violations))}")
    absent = coverage.missing(found)
    if absent:
        print(f"not seen: {'; '.join(absent)}")
    ended = [record for record in records if record["kind"] == "ended"]
    for record in ended:
        print(f"ENDED BY ITSELF: {record['member']} with {record['exit_code']}:\n{record['log']}")
    print(f"{len(records)} events, {len(violations)} violations")
    return 1 if violations or ended or (whole and absent) else 0


def _directory(kept: Path | None) -> Path:
    if kept is None:
        return Path(tempfile.mkdtemp(prefix="worklease-chaos-"))
    if kept.exists() and any(kept.iterdir()):
        raise SystemExit(f"hack/chaos: {kept} is not empty; name a new directory")
    kept.mkdir(parents=True, exist_ok=True)
    return kept.resolve()
