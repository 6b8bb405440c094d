"""Builds a small program that prints what kstatus, the library that Flux waits with, makes of objects."""

from __future__ import annotations

from pathlib import Path

from controlplane.build import cached

HERE = Path(__file__).resolve().parent


def ensure() -> Path:
    """The path of the program."""
    return cached(HERE, "kstatus", "kstatus", "30 s on 2 cores")
