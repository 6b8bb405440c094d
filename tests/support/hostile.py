"""Values made from a schema: mostly what it takes, often not, at times what nobody should send."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

STRINGS: tuple[str, ...] = (
    "",
    " ",
    "\x00",
    "\x1b[2J\x07",
    "a\r\nSet-Cookie: b",
    "\ud800",
    "\u202eevil\u2066",
    "\ufeff\u200b",
    "é" * 600,
    "\x01" * 1024,
    "x" * 70_000,
    "pod:agent-0/5c3a",
    "system:masters",
    "system:serviceaccount:worklease-system:worklease-operator",
    "'; DROP TABLE x; --",
    "${jndi:ldap://x}",
    "%s%s%n{0}{{.}}",
    "../../../etc/passwd",
    "null",
    "true",
    "1e999",
    "self.spec.claim == null ? true : true",
    "2026-13-40T99:99:99Z",
    "2026-02-31T00:00:00Z",
    "2026-01-01T00:00:00+99:99",
    "t",
    "9999-12-31T23:59:60Z",
    "2026-01-01T00:00:00.1234567890Z",
    "2999-12-31T23:59:59.999999999Z",
)
NUMBERS: tuple[Any, ...] = (-1, 0, 1, 2**31, 2**51 + 1, 2**52, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 0.5, 1e300)
ODDITIES: tuple[Any, ...] = (None, True, [], {}, [[[[[[]]]]]], {"a": {"b": {"c": []}}}, "0", 7)
DEEP_LEVELS = 200

WORDS = ("ledger", "r", "s3://bucket/key", "sha256:1", "e1", "e2", "billing", "host:aspen/1")


def deep() -> Any:
    """Lists in lists."""
    value: Any = []
    for _ in range(DEEP_LEVELS):
        value = [value]
    return value


@dataclass
class Maker:
    """Makes values for a schema. `known` are values that fit where a property of that name stands."""

    choice: random.Random
    known: dict[str, list[Any]]
    hostility: float = 0.06

    def of(self, schema: dict[str, Any], name: str = "") -> Any:
        """A value for this schema, which is called `name` where it stands."""
        if self.choice.random() < self.hostility:
            return self._hostile(schema)
        if name in self.known and self.choice.random() < 0.8:
            return self.choice.choice(self.known[name])
        if "enum" in schema:
            return self.choice.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                return self._object(schema)
            case "array":
                return [self.of(schema["items"]) for _ in range(self.choice.choice([0, 1, 1, 2, 3]))]
            case "integer":
                low = schema.get("minimum", 0)
                return self.choice.choice([low, low + 1, schema.get("maximum", low + 7), low + 10])
            case "boolean":
                return self.choice.random() < 0.5
            case _:
                return self._string(schema)

    def _object(self, schema: dict[str, Any]) -> dict[str, Any]:
        required = schema.get("required", [])
        made = {
            name: self.of(of, name)
            for name, of in schema.get("properties", {}).items()
            if self.choice.random() < (0.97 if name in required else 0.35)
        }
        if self.choice.random() < self.hostility:
            made[self.choice.choice(["unknown", "$ref", "x-kubernetes-validations", ""])] = self._odd()
        return made

    def _string(self, schema: dict[str, Any]) -> str:
        if schema.get("format") == "date-time":
            return f"2026-0{self.choice.randint(1, 9)}-01T00:00:00.{self.choice.randint(0, 999999):06}Z"
        return self.choice.choice(WORDS)

    def _hostile(self, schema: dict[str, Any]) -> Any:
        if schema.get("type") == "string" and self.choice.random() < 0.7:
            longest = schema.get("maxLength", 0)
            return self.choice.choice([*STRINGS, "y" * longest, "z" * (longest + 1)])
        if schema.get("type") == "integer" and self.choice.random() < 0.7:
            return self.choice.choice(NUMBERS)
        if schema.get("type") == "array" and self.choice.random() < 0.5:
            item = self.of(schema["items"])
            return [item] * self.choice.choice([2, 65, 300])
        return self._odd()

    def _odd(self) -> Any:
        return deep() if self.choice.random() < 0.05 else self.choice.choice([*ODDITIES, *STRINGS, *NUMBERS])
