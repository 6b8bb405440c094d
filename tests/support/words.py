"""What is said in tests, in the API's own words: statements, effects, JSON patches and manifests, not yet sent."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from worklease.api.group import API_VERSION

Raw = dict[str, Any]
Operations = list[Raw]

PURPOSE = "to do the work"
"""What a claim is for, unless a test says otherwise."""


def now() -> str:
    """The time, as a statement carries it: hardly ever the same twice."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def fresh() -> str:
    """An id that nobody has used."""
    return secrets.token_hex(8)


def claim(username: str, instance: str, epoch: int = 0, /, **changes: Any) -> Raw:
    """A claim in that name, with an id of its own."""
    return {
        "epoch": epoch,
        "id": fresh(),
        "holderIdentity": username,
        "instance": instance,
        "purpose": PURPOSE,
        **changes,
    }


def effect(epoch: int, effect_id: str = "e1", /, state: str = "Attempted", **changes: Any) -> Raw:
    """An effect under that epoch."""
    return {"id": effect_id, "epoch": epoch, "recipient": "payments", "action": "charge", "state": state, **changes}


def adds(**statements: Any) -> Operations:
    """The JSON patch that says each of these fields of spec whole, in one write."""
    return [{"op": "add", "path": f"/spec/{name}", "value": value} for name, value in statements.items()]


def removes(*paths: str) -> Operations:
    """The JSON patch that removes what is at these paths."""
    return [{"op": "remove", "path": path} for path in paths]


def work_manifest(name: str = "", *, api_version: str = API_VERSION, metadata: Raw | None = None, **spec: Any) -> Raw:
    """A WorkLease, which the server names when no name is given but `generateName` in its metadata."""
    spec = {"work": {"type": "task", "id": name or "1"}, **spec}
    return _manifest("WorkLease", name, api_version, metadata, spec)


def handoff_manifest(
    name: str = "", *, api_version: str = API_VERSION, metadata: Raw | None = None, **spec: Any
) -> Raw:
    """A Handoff, of the work `w` unless its spec names another."""
    return _manifest("Handoff", name, api_version, metadata, {"workLeaseName": "w", **spec})


def _manifest(kind: str, name: str, api_version: str, metadata: Raw | None, spec: Raw) -> Raw:
    named = {"name": name} if name else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**named, **(metadata or {})}, "spec": spec}
