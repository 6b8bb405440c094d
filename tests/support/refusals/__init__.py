"""What the API server admits and what it refuses, as tables: one line for each case, the rules of the CRD first.

Each row begins with a state, and says who does what there and which check refuses it, if any. The tables are played
with the real rules, and once more without each check, to see that it is this check that refuses.
"""

from __future__ import annotations

from dataclasses import dataclass

from support.api import Answer
from support.refusals.states import State
from support.statements import Deed, Work
from worklease.api.cel import Check, Rule
from worklease.api.worklease import RULES

SCHEMA, POLICY = "the schema", "a policy"
"""What refuses when it is none of the named checks."""

CHECKS: dict[str, tuple[Rule, Check]] = {
    check.name: (rule, check) for rules in RULES.values() for rule in rules for check in rule.checks
}
"""Every check of WorkLease's CRD by name, with the rule that it belongs to."""


@dataclass(frozen=True)
class Row:
    """One case. `refused` is the check that refuses, SCHEMA, POLICY, or None when it is admitted."""

    case: str
    given: State
    who: str
    does: Deed
    refused: str | None = None
    words: str = ""

    def play(self, work: Work) -> Answer:
        """Brings the work item into the state, and returns the answer to what is then done."""
        self.given(work)
        return self.does(work, self.who)

    def judge(self, answer: Answer) -> None:
        """Fails unless the answer is the row's."""
        if self.refused is None:
            assert answer.ok, answer.message
            return
        assert answer.status == (403 if self.refused == POLICY else 422), f"{answer.status}: {answer.message}"
        assert self.words in answer.message
        if self.refused in CHECKS:
            rule, check = CHECKS[self.refused]
            assert (rule.field_path or "").removeprefix(".") in answer.message
            assert check.message in answer.message
