"""The code blocks of the documentation that are marked to be run: `<!-- run: NAME -->` in the line above the fence."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

_MARKED = re.compile(r"^<!-- run: (?P<name>[-a-z0-9]+) -->\n```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
_FENCED = re.compile(r"^```(?P<language>python|sql|lua|nginx|yaml|sh)\n", re.M)


def links(page: str) -> list[str]:
    """Where a page's links lead, anchors left out."""
    prose = re.sub(r"^```.*?^```$", "", (DOCS / page).read_text(), flags=re.M | re.S)
    return [target for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose) if "://" not in target]


def blocks(page: str) -> dict[str, str]:
    """The marked blocks of a page under docs/, by name."""
    return {match["name"]: match["code"] for match in _MARKED.finditer((DOCS / page).read_text())}


def unmarked(page: str) -> list[str]:
    """The first lines of blocks of code that nothing runs."""
    text = (DOCS / page).read_text()
    run = {match.start("language") - 3 for match in _MARKED.finditer(text)}
    return [text[match.start() :].splitlines()[1] for match in _FENCED.finditer(text) if match.start() not in run]
