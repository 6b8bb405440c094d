"""hack/explore: which scopes are explored how far, and what is printed of it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from exploration.controls import CONTROLS, set_up
from exploration.scopes import LONG, SCOPES, SHORT
from exploration.search import Found, Search, Violation

CPU_SECONDS = 60.0
FOUND, MISSED = 1, 2


def main(arguments: list[str]) -> int:
    """0 when nothing was found that may not happen; with --without, when all of it was."""
    options = _parser().parse_args(arguments)
    if options.without:
        return _controls(CONTROLS if options.without == "all" else [options.without], options.cpu_seconds)
    scopes = SCOPES if options.scope == "all" else SHORT if options.scope == "short" else [options.scope]
    try:
        for name in scopes:
            _explored(name, options.cpu_seconds, options.states)
    except Violation as violation:
        print(f"FOUND what may never happen: {violation}", flush=True)
        return FOUND
    return 0


def _explored(name: str, cpu_seconds_max: float, states_max: int | None) -> Found:
    started = time.monotonic()
    with set_up(None) as (judge, decisions):
        found = Search(SCOPES[name], judge, decisions).run(states_max, cpu_seconds_max)
    print(f"{name}: {found}, {time.monotonic() - started:.0f} s in all", flush=True)
    return found


def _controls(names: Iterable[str], cpu_seconds_max: float) -> int:
    missed = 0
    for name in names:
        control = CONTROLS[name]
        with set_up(control) as (judge, decisions):
            try:
                found = Search(control.scope, judge, decisions).run(cpu_seconds_max=cpu_seconds_max)
            except Violation as violation:
                caught = control.found in str(violation)
                print(f"{'caught' if caught else 'OTHERWISE'}: {name}: {violation}", flush=True)
                missed += not caught
            else:
                print(f"MISSED: {name}: {found}", flush=True)
                missed += 1
    return MISSED if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/explore", description=__doc__)
    parser.add_argument(
        "scope",
        nargs="?",
        default="short",
        choices=["short", "all", *SCOPES],
        help=f"one of {', '.join(SHORT)} (all of them: short), or of the larger {', '.join(LONG)}",
    )
    parser.add_argument("--cpu-seconds", type=float, default=CPU_SECONDS, help="the bound for each scope")
    parser.add_argument("--states", type=int, help="another bound for each scope")
    parser.add_argument("--without", metavar="CONTROL", choices=["all", *CONTROLS], help="what is taken away, or all")
    return parser
