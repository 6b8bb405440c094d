"""The documentation's links lead somewhere: to files that exist, and to headings that are in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repository import REPOSITORY

PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), *REPOSITORY.glob("charts/*/*.md")])
LINK = re.compile(r"\]\((?!https?://|mailto:)(?P<file>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    made: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text())):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = 0
        while (one := f"{anchor}-{number}" if number else anchor) in made:
            number += 1
        made.add(one)
    return made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link, its anchor included."""
    for link in LINK.finditer(FENCED.sub("", page.read_text())):
        target = (page.parent / link["file"]).resolve() if link["file"] else page
        assert target.exists(), link[0]
        if link["anchor"] and target.suffix == ".md":
            assert link["anchor"] in anchors(target), link[0]
