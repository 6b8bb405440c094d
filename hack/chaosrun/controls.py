"""Negative controls: each breaks one thing that a promise rests on, in a child process only, and must be caught.

Nothing of this is in the product: a control is a patch that the process of a party applies to itself.
"""

from __future__ import annotations


def break_agent(control: str) -> None:
    """Breaks the client of this process."""


def break_operator(control: str) -> None:
    """Breaks the operator of this process."""
