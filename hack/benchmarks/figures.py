"""Percentiles and the table that they are printed in."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


def milliseconds(seconds: Sequence[float], *percents: float) -> str:
    return " / ".join(f"{percentile(seconds, percent) * 1e3:.1f}" for percent in percents)


class Table:
    """Rows of a measurement, printed as they come."""

    def __init__(self, title: str) -> None:
        print(f"\n{title}", flush=True)

    def row(self, name: str, value: str, note: str = "") -> None:
        print(f"  {name:<58} {value:>20}  {note}".rstrip(), flush=True)
