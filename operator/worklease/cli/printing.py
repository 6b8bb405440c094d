"""How things are printed: tables, objects as JSON or YAML, names, and words in colour where a person looks."""

import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from worklease.api.handoff import HandoffPhase
from worklease.api.statements import EffectState
from worklease.api.worklease import Phase

Cells = Sequence[str]
GAP = "   "
ESCAPE = re.compile(r"(\x1b\[[0-9]+m)")
GREEN, YELLOW, RED, BLUE, GREY = "32", "33", "31", "34", "90"
COLOURS: dict[str, str] = {
    Phase.AVAILABLE: GREY,
    Phase.HELD: GREEN,
    Phase.JEOPARDY: YELLOW,
    Phase.EXPIRED: RED,
    Phase.RELEASED: GREY,
    Phase.REVOKED: RED,
    Phase.COMPLETED: BLUE,
    EffectState.ATTEMPTED: YELLOW,
    EffectState.UNKNOWN: YELLOW,
    EffectState.SUCCEEDED: GREEN,
    EffectState.FAILED: RED,
    EffectState.COMPENSATED: BLUE,
    HandoffPhase.PENDING: YELLOW,
    HandoffPhase.ACCEPTED: GREEN,
    HandoffPhase.REJECTED: RED,
    HandoffPhase.WITHDRAWN: GREY,
    HandoffPhase.STALE: GREY,
    HandoffPhase.LAPSED: RED,
}
"""The colour of each phase and state, wherever it stands alone."""


def colourful() -> bool:
    """Whether stdout is a terminal, and nothing asks for no colours (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(word: str) -> str:
    """A phase or state in its colour, on a terminal."""
    return _painted(word, word) if colourful() else word


def _painted(word: str, text: str) -> str:
    colour = COLOURS.get(word)
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def lines(
    head: Cells, rows: Iterable[Cells], *, width: int | None = None, widths: list[int] | None = None
) -> list[str]:
    """Columns as kubectl prints them, cut at `width`; `widths` are kept, and grow, from one call to the next."""
    table = [tuple(plain(cell) for cell in row) for row in ((head, *rows) if head else rows)]
    widths = [] if widths is None else widths
    for row in table:
        widths += [0] * (len(row) - len(widths))
        widths[:] = [max(known, len(cell)) for known, cell in zip(widths, row, strict=True)]
    paint: Callable[[str, str], str] = _painted if colourful() else lambda _, text: text
    return [_line(row, widths, width, paint) for row in table]


def _line(row: Cells, widths: Sequence[int], width: int | None, paint: Callable[[str, str], str]) -> str:
    left = sys.maxsize if width is None else width
    last = max((at for at, cell in enumerate(row) if cell), default=-1)
    line = ""
    for at, cell in enumerate(row[: last + 1]):
        text = (cell if at == last else cell.ljust(widths[at]) + GAP)[: max(0, left)]
        left -= len(text)
        line += paint(cell, text)
    return line


def cut(line: str, width: int | None) -> str:
    """A line of at most so many characters, colours aside."""
    if width is None:
        return line
    kept, left = "", width
    for part in ESCAPE.split(line):
        if part.startswith("\x1b"):
            kept += part
        else:
            kept += part[:left]
            left -= min(left, len(part))
    return kept


def table(head: Cells, rows: Iterable[Cells]) -> None:
    """Prints a table."""
    print("\n".join(lines(head, rows)))


def plain(line: str) -> str:
    """Without what, in others' words, steers a terminal or turns a line around. The API itself takes no escapes."""
    if line.isascii():
        return line
    return "".join(one for one in line if one == "\x1b" or not unicodedata.category(one).startswith("C"))


def second(time: str | None) -> str:
    """A stored time without decimals; empty for none."""
    return f"{time.partition('.')[0]}Z" if time and "." in time else time or ""


def shown(raw: dict[str, Any]) -> dict[str, Any]:
    """An object as kubectl prints it: without managedFields."""
    metadata = {name: value for name, value in raw.get("metadata", {}).items() if name != "managedFields"}
    return {**raw, "metadata": metadata} if metadata else raw


def dump(value: Any, output: str) -> None:
    """Prints a value as `json` or `yaml`."""
    if output == "json":
        print(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        import yaml

        yaml.safe_dump(value, sys.stdout, sort_keys=False, allow_unicode=True)


def dump_list(values: Iterable[dict[str, Any]], output: str) -> None:
    """Prints several as the list that kubectl would print."""
    dump({"apiVersion": "v1", "kind": "List", "items": [shown(value) for value in values]}, output)


def name_of(raw: dict[str, Any]) -> str:
    """KIND/NAME, as kubectl takes it."""
    return f"{str(raw['kind']).lower()}/{raw['metadata']['name']}"
