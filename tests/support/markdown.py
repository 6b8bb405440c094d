"""The code blocks of the documentation that are marked to be run: `<!-- run: NAME -->` in the line above the fence.

A page is named by its path from the repository's root.
"""

from __future__ import annotations

import re

from repository import REPOSITORY

_MARKED = re.compile(r"^<!-- run: (?P<name>[-a-z0-9]+) -->\n```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
_FENCED = re.compile(r"^```(?P<language>python|sql|lua|nginx|yaml|sh)\n", re.M)


def written(page: str) -> str:
    """The whole page."""
    return (REPOSITORY / page).read_text()


def blocks(page: str) -> dict[str, str]:
    """The marked blocks of a page, by name; no two have one name."""
    found = [(match["name"], match["code"]) for match in _MARKED.finditer(written(page))]
    names = [name for name, _ in found]
    assert len(set(names)) == len(names), f"{page} has two blocks of one name: {names}"
    return dict(found)


def unmarked(page: str) -> list[str]:
    """The first lines of blocks of code that nothing runs."""
    whole = written(page)
    run = {match.start("language") - 3 for match in _MARKED.finditer(whole)}
    return [whole[match.start() :].splitlines()[1] for match in _FENCED.finditer(whole) if match.start() not in run]
