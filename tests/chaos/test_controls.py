"""The negative controls on a real control plane: what is broken on purpose is caught, and nothing else is reported."""

from __future__ import annotations

from pathlib import Path

from chaosrun.controlled import play
from chaosrun.controls import CONTROLS


def test_each_control_is_caught_and_nothing_is_found_without_it(tmp_path: Path) -> None:
    """One thing is broken in each scene, and the promise that rests on it is reported; unbroken, none is."""
    verdicts = play(tmp_path, CONTROLS)
    assert {verdict.control: verdict.honest for verdict in verdicts} == dict.fromkeys(CONTROLS, ())
    assert [verdict.control for verdict in verdicts if not verdict.caught] == []
