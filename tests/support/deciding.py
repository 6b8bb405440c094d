"""Writes status as the operator does, by its own account, so that a test decides what the state is."""

from __future__ import annotations

from typing import Any

from support.api import Answer
from support.cluster import Cluster, Identity
from support.stored import Stored
from support.words import Operations, Raw, now

OPERATORS_NAMESPACE, OPERATORS_ACCOUNT = "worklease-system", "worklease-operator"
FREED: Raw = {"holderIdentity": None, "instance": None}
"""What a tenure's end takes out of status."""


def operator_of(cluster: Cluster) -> Identity:
    """The operator's own ServiceAccount."""
    return cluster.service_account(OPERATORS_NAMESPACE, OPERATORS_ACCOUNT)


def decided(**decision: Any) -> Operations:
    """The JSON patch of a decision; None removes a field."""
    return [{"op": "add", "path": f"/status/{name}", "value": value} for name, value in decision.items()]


def decide(item: Stored[Any], operator: Identity, **decision: Any) -> Answer:
    """Writes a decision."""
    return operator.api.patch(f"{item.path}/status", decided(**decision))


def granted(whole: Raw) -> Raw:
    """The decision to grant the claim that is stated."""
    spec, claim = whole["spec"], whole["spec"]["claim"]
    return {
        "phase": "Held",
        "epoch": max(whole["status"]["epoch"] + 1, int(whole["metadata"]["resourceVersion"])),
        "holderIdentity": claim["holderIdentity"],
        "instance": claim["instance"],
        "claimID": claim["id"],
        "observedClaimID": None,
        "acquireTime": now(),
        "leaseDurationSeconds": spec["leaseDurationSeconds"],
        "jeopardyDurationSeconds": spec["jeopardyDurationSeconds"],
        "successor": None,
    }


def grant(item: Stored[Any], operator: Identity) -> int:
    """Grants the claim that is stated; returns its epoch."""
    decision = granted(item.read())
    decide(item, operator, **decision).must()
    return int(decision["epoch"])
