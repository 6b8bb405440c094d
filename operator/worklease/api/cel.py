"""How a rule of the API server is written here: one guard, then named checks, each with the message of its refusal.

One rule per statement keeps the cost of a write down: for every field that a rule looks up the API server copies the
schemas of all properties beside it. So a rule begins with the cheapest test that lets it end early, looks up nothing
twice, and stands at the lowest level that has what it needs: a rule of a single value looks up nothing at all.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
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

    The rule passes when `unless` holds, else when all checks hold. `given` binds names to CEL expressions for all of
    it, `then_given` more names that `unless` does without.
    """

    checks: tuple[Check, ...]
    unless: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    then_given: Mapping[str, str] = field(default_factory=dict)
    field_path: str | None = None
    reason: str = FORBIDDEN
    optional_old_self: bool = False

    def manifest(self, without: Collection[str] = ()) -> dict[str, Any] | None:
        """The entry, less the checks whose names are in `without` (how a test shows that a check is needed)."""
        checks = [check for check in self.checks if check.name not in without]
        if not checks:
            return None
        holds = _all(self.then_given, " && ".join(f"({check.holds})" for check in checks))
        entry: dict[str, Any] = {
            "rule": _all(self.given, f"{self.unless} || ({holds})" if self.unless else holds),
            "message": checks[0].message,
            "reason": self.reason,
        }
        if len(checks) > 1 or checks[0].message_expression:
            *most, last = checks
            spoken = "".join(f"!({check.holds}) ? {check.spoken} : " for check in most) + last.spoken
            entry["messageExpression"] = _value({**self.given, **self.then_given}, spoken)
        if self.field_path:
            entry["fieldPath"] = self.field_path
        if self.optional_old_self:
            entry["optionalOldSelf"] = True
        return entry


def _all(given: Mapping[str, str], condition: str) -> str:
    """The condition, with each name standing for the value of its expression: a list of one is how CEL binds."""
    for name, expression in reversed(list(given.items())):
        condition = f"[{expression}].all({name}, {condition})"
    return condition


def _value(given: Mapping[str, str], expression: str) -> str:
    for name, bound in reversed(list(given.items())):
        expression = f"[{bound}].map({name}, {expression})[0]"
    return expression


def same(one: str, other: str) -> str:
    """Both are equal, or both absent: each is looked up once, `a.?b` where it is optional.

    The API server bounds the cost of a rule beforehand. For `==` it must know how long a string can be, which is lost
    where a name is bound or a field is optional; for `in` the length of the list is enough.
    """
    return f"{one} in [{other}]"


def validations(rules: Iterable[Rule], without: Collection[str] = ()) -> list[dict[str, Any]]:
    """The list for x-kubernetes-validations."""
    return [entry for rule in rules if (entry := rule.manifest(without)) is not None]
