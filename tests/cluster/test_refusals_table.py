"""What the API server admits and refuses, with the operator stopped: every row of the tables, by real credentials."""

import pytest

from support.refusals import Row
from support.refusals.tables import TABLES
from support.statements import ALICE, HOLDERS_WORDS, OPERATOR, Scene


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{statement}: {row.case}") for statement, rows in TABLES.items() for row in rows]
)
def test_statement_is_admitted_or_refused(row: Row, scene: Scene) -> None:
    """The API server gives the answer of the row, in its words, and tells a loser nothing of the holder (case 13)."""
    answer = row.play(scene.work())
    row.judge(answer)
    if row.refused and row.who not in (ALICE, OPERATOR):
        assert not [word for word in HOLDERS_WORDS if word in answer.message]
