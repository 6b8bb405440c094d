"""How the characters speak: statements as JSON patches through kubectl."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from .stage import Stage

SHORTEST_LEASE_SECONDS = 10


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def username(stage: Stage, agent: str) -> str:
    """Whom the API server takes an agent for."""
    return f"system:serviceaccount:{stage.namespace}:{agent}"


def claim(stage: Stage, agent: str, claim_id: str, epoch: int, purpose: str) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "id": claim_id,
        "holderIdentity": username(stage, agent),
        "instance": f"host:{agent}/1",
        "purpose": purpose,
    }


def work_lease(name: str, first_claim: dict[str, Any], jeopardy_seconds: int) -> str:
    """A manifest of new work that is claimed at once."""
    spec = {
        "work": {"type": "invoice", "id": name.rpartition("-")[2]},
        "leaseDurationSeconds": SHORTEST_LEASE_SECONDS,
        "jeopardyDurationSeconds": jeopardy_seconds,
        "claim": first_claim,
    }
    manifest = {"apiVersion": "worklease.dev/v1alpha1", "kind": "WorkLease", "metadata": {"name": name}, "spec": spec}
    return json.dumps(manifest, indent=1)


def say(stage: Stage, who: str, work: str, /, *, refused: str = "", **statements: Any) -> str:
    """Say statements in one write: each replaces the one before as a whole."""
    patch = [{"op": "add", "path": f"/spec/{name}", "value": value} for name, value in statements.items()]
    arguments = ("patch", "worklease", work, "--type=json", f"--patch={json.dumps(patch)}")
    return stage.run(*arguments, as_=who, refused=refused)


def granted(stage: Stage, who: str, work: str, claim_id: str) -> int:
    """Wait until the claim is granted; its epoch."""
    stage.run("wait", f"worklease/{work}", f"--for=jsonpath={{.status.claimID}}={claim_id}", "--timeout=30s", as_=who)
    return int(stage.state(work, who)["status"]["epoch"])


def begun(effect_id: str, epoch: int) -> dict[str, Any]:
    """The statement that logs an effect before it is caused."""
    effect = {"id": effect_id, "epoch": epoch, "recipient": "payments", "action": "charge", "state": "Attempted"}
    return {"effects/-": effect}
