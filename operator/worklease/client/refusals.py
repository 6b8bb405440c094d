"""What a refusal means: the API server's sentence, told apart by the rules that it was made from."""

import re
from collections.abc import Callable
from datetime import datetime

from worklease.api import statements
from worklease.errors import (
    ApiError,
    ClaimRefused,
    EffectsUnreconciled,
    LeaseError,
    NotFound,
    NotPermitted,
    StatementRefused,
    WorkIsComplete,
    WorkIsLeased,
    WorkIsReserved,
    WorkIsSuspended,
)
from worklease.protocol.moments import parse_rfc3339

UNTIL = re.compile(r"until about (\S+Z)")
MESSAGE_MAX = 1000
_MISSING_VERB = re.compile(r'cannot (\w+) resource "(\w+)"')
ROLE_WITH = {"create": "worklease-agent-creator", "revoke": "worklease-handler", "configure": "worklease-admin"}
"""The smallest of the shipped roles that has a verb; the others are in worklease-agent."""
AGENT_ROLE = "worklease-agent"

_MESSAGES = {check.name: check.message for rule in statements.RULES for check in rule.checks}
MOVED_ON = _MESSAGES["claim.epoch"]
NOT_FRESH = _MESSAGES["claim.fresh"]
_CLAIMS: dict[str, Callable[[str, str], ClaimRefused]] = {
    _MESSAGES["claim.suspended"]: WorkIsSuspended,
    _MESSAGES["claim.complete"]: WorkIsComplete,
    _MESSAGES["claim.reserved"]: WorkIsReserved,
    _MESSAGES["claim.pending"]: WorkIsLeased,
}
_EFFECTS = (_MESSAGES["completion.effects"], _MESSAGES["effects.reconciled"])
_HELD = (_MESSAGES["effects.standing"], _MESSAGES["completion.standing"])


def until(message: str) -> datetime | None:
    """The time in a refusal."""
    found = UNTIL.search(message)
    return parse_rfc3339(found[1]) if found else None


def claim_refusal(lease: str, error: ApiError) -> LeaseError:
    """What a refused claim is to its claimant."""
    message = str(error)
    if _MESSAGES["claim.leased"] in message:
        when = until(message)
        said = f"work is leased until about {when:%Y-%m-%dT%H:%M:%SZ}" if when else "work is leased"
        return WorkIsLeased(lease, said, when)
    for sentence, kind in _CLAIMS.items():
        if sentence in message:
            return kind(lease, sentence)
    return not_permitted(lease, error) or ClaimRefused(lease, _short(message))


def needs_held(error: ApiError) -> bool:
    """The statement is admitted in phase Held only, and may not have been because of the phase."""
    return any(sentence in str(error) for sentence in _HELD)


def statement_refusal(lease: str, error: ApiError) -> LeaseError:
    """What a refused statement of a holder is to it, when its tenure goes on."""
    message = str(error)
    for sentence in _EFFECTS:
        if sentence in message:
            return EffectsUnreconciled(lease, sentence)
    return not_permitted(lease, error) or StatementRefused(lease, _short(message))


def not_permitted(lease: str, error: ApiError, role: str = AGENT_ROLE) -> NotPermitted | None:
    """A missing verb, with the role that has it (`role` if several have); None when it is about something else."""
    if error.status != 403 or not (found := _MISSING_VERB.search(str(error))):
        return None
    verb, resource = found[1], found[2]
    role = ROLE_WITH.get(verb, role)
    return NotPermitted(
        lease, f"the verb {verb} on {resource} is missing; ClusterRole {role} has it: {_short(str(error))}"
    )


def missing(lease: str, error: NotFound) -> ClaimRefused:
    """There is no such work item."""
    return ClaimRefused(
        lease, f"there is no such work item: create it, or ask for that: create=True, --create ({error})"
    )


def _short(message: str) -> str:
    return " ".join(message.split())[:MESSAGE_MAX]
