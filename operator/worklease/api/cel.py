"""How a rule of the API server is written here: one guard, then named checks, each with the message of its refusal.

One rule per statement keeps the cost of a write down: the API server pays for every field that a rule looks up in
proportion to the number of properties beside it, so a rule begins with the cheapest test that lets it end early.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

FORBIDDEN = "FieldValueForbidden"
INVALID = "FieldValueInvalid"


@dataclass(frozen=True)
class Check:
    """A condition (CEL) under its name, and what is said when it is false: a sentence, or a CEL string expression."""

    name: str
    holds: str
    message: str
    message_expression: str | None = None

    @property
    def spoken(self) -> str:
        """The message as a CEL string expression."""
        return self.message_expression or "'" + self.message.replace("'", "\\'") + "'"


@dataclass(frozen=True)
class Rule:
    """An x-kubernetes-validations entry.

    The rule passes when `unless` holds, else when all checks hold; `given` binds names to CEL expressions for both.
    """

    checks: tuple[Check, ...]
    unless: str | None = None
    field_path: str | None = None
    reason: str = FORBIDDEN
    optional_old_self: bool = False

    def manifest(self, without: Collection[str] = ()) -> dict[str, Any] | None:
        """The entry, less the checks whose names are in `without` (how a test shows that a check is needed)."""
        checks = [check for check in self.checks if check.name not in without]
        if not checks:
            return None
        holds = " && ".join(f"({check.holds})" for check in checks)
        entry: dict[str, Any] = {
            "rule": f"{self.unless} || ({holds})" if self.unless else holds,
            "message": checks[0].message,
            "reason": self.reason,
        }
        if len(checks) > 1 or checks[0].message_expression:
            *most, last = checks
            entry["messageExpression"] = "".join(f"!({c.holds}) ? {c.spoken} : " for c in most) + last.spoken
        if self.field_path:
            entry["fieldPath"] = self.field_path
        if self.optional_old_self:
            entry["optionalOldSelf"] = True
        return entry


def validations(rules: Iterable[Rule], without: Collection[str] = ()) -> list[dict[str, Any]]:
    """The list for x-kubernetes-validations."""
    return [entry for rule in rules if (entry := rule.manifest(without)) is not None]
