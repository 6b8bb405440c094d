"""Everything that can happen in small scopes, and that the search would find what may never happen."""

from __future__ import annotations

import pytest

from exploration.controls import CONTROLS, set_up
from exploration.scopes import SHORT
from exploration.search import Search, Violation

ENOUGH_STATES = 4000
TO_THE_END = {"handoff"}
CONTROL_CPU_SECONDS = 20.0
QUICK_CONTROLS = (
    "effects in jeopardy",
    "anybody speaks for the holder",
    "a completion of another epoch counts",
    "epochs are counted up",
    "no grace after the lease has lapsed",
    "a handoff is not read again",
    "an acceptance takes effect again",
)


@pytest.mark.parametrize("name", SHORT)
def test_nothing_that_may_never_happen_is_reached(name: str) -> None:
    """Every state of a scope keeps the promises: all of them, or the first of them, which are those nearby."""
    with set_up(None) as (judge, decisions):
        found = Search(SHORT[name], judge, decisions).run(None if name in TO_THE_END else ENOUGH_STATES)
    print(f"{name}: {found}")
    assert found.complete or found.states > ENOUGH_STATES
    assert found.complete or name not in TO_THE_END
    assert found.admitted
    assert found.refused


@pytest.mark.parametrize("name", QUICK_CONTROLS)
def test_search_finds_what_a_missing_line_allows(name: str) -> None:
    """With a rule, a policy's check or a line of the decisions taken away, the broken promise is found and named."""
    control = CONTROLS[name]
    with set_up(control) as (judge, decisions):
        search = Search(control.scope, judge, decisions)
        with pytest.raises(Violation) as violation:
            search.run(cpu_seconds_max=CONTROL_CPU_SECONDS)
    assert control.found in str(violation.value)
    assert violation.value.path
