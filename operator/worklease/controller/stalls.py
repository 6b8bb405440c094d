"""Objects that this operator cannot read: it says so on the object itself, and leaves the others alone."""

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from worklease.kube.session import Session
from worklease.kube.swap import patch_status
from worklease.protocol.history import words
from worklease.protocol.moments import rfc3339
from worklease.protocol.reasons import ConditionName, StallReason


@dataclass(slots=True)
class Unreadable:
    """An object as it came, with what is wrong with it, and whether that has been said."""

    version: int
    raw: dict[str, Any]
    explanation: str
    said: bool = False


def explain(error: ValidationError) -> str:
    """The first thing that is wrong, by its field; values are left out, they may be anybody's."""
    first = error.errors(include_url=False, include_input=False)[0]
    return words(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}")


async def mark(session: Session, unreadable: Unreadable) -> None:
    """Set condition Stalled, unless it says the same already. Raises Conflict when the object has changed."""
    raw = unreadable.raw
    metadata, status = raw["metadata"], raw.get("status") or {}
    message = words(f"this operator cannot read the object: {unreadable.explanation}")
    before = [c for c in status.get("conditions") or [] if isinstance(c, dict)]
    known = next((c for c in before if c.get("type") == ConditionName.STALLED and c.get("status") == "True"), {})
    if known.get("message") == message:
        return
    stalled = {
        "type": ConditionName.STALLED.value,
        "status": "True",
        "reason": StallReason.UNREADABLE.value,
        "message": message,
        "lastTransitionTime": known.get("lastTransitionTime") or rfc3339(session.server_clock.now()),
    }
    conditions = [*[c for c in before if c.get("type") != ConditionName.STALLED][:15], stalled]
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/status/conditions", "value": conditions},
    ]
    await patch_status(session, metadata["namespace"], metadata["name"], patch)
