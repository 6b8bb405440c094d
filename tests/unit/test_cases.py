"""The list of what went wrong elsewhere and the tests agree: each of its rows has tests that say its number."""

import re

from repository import REPOSITORY

ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)
NAMED = re.compile(r"\b[Cc]ases? (\d+(?:(?:, | and )\d+)*)")


def listed() -> list[int]:
    """The numbers of the rows of docs/cases.md."""
    return [int(number) for number in ROW.findall((REPOSITORY / "docs/cases.md").read_text())]


def test_the_rows_are_numbered_without_a_gap() -> None:
    """A number that a test says is the place of its row."""
    assert listed()
    assert listed() == list(range(1, len(listed()) + 1))


def test_every_case_is_named_by_a_test_and_no_test_names_another() -> None:
    """Each number of the table is said somewhere in tests/, and none beside them."""
    named: dict[int, str] = {}
    for path in (REPOSITORY / "tests").rglob("*.py"):
        for numbers in NAMED.findall(path.read_text()):
            named |= dict.fromkeys(map(int, re.findall(r"\d+", numbers)), path.name)
    assert set(listed()) - set(named) == set(), "no test covers these"
    assert {number: where for number, where in named.items() if number not in listed()} == {}, "not in docs/cases.md"
