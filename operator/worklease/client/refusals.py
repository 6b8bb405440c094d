"""What a refusal means: the API server's sentence, told apart by the rules that it was made from."""

import re
from collections.abc import Callable
from datetime import datetime

from worklease.api import statements
from worklease.api.roles import GRANTS
from worklease.errors import (
    ApiError,
    ClaimRefused,
    ConfigurationError,
    EffectsUnreconciled,
    LeaseError,
    NoSuchWork,
    NotFound,
    NotPermitted,
    StatementRefused,
    WorkIsComplete,
    WorkIsLeased,
    WorkIsReserved,
    WorkIsSuspended,
    WorkleaseError,
)
from worklease.protocol.moments import parse_rfc3339

UNTIL = re.compile(r"until about (\S+Z)")
MESSAGE_MAX = 1000
NO_SUCH_WORK = "there is no such work item"
VIEWER_ROLE, AGENT_ROLE = "worklease-viewer", "worklease-agent"
EVERYWHERE = "at the cluster scope"
_MISSING_VERB = re.compile(r'cannot (\w+) resource "(\w+)"')

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


def not_permitted(lease: str, error: ApiError, least: str = AGENT_ROLE) -> NotPermitted | None:
    """A missing verb, with the smallest role that has it; None when it is about something else."""
    if error.status != 403 or not (found := _MISSING_VERB.search(str(error))):
        return None
    verb, kind = found[1], found[2]
    role = smallest_role(kind, verb, least)
    said = f"the verb {verb} on {kind} is missing" + (f"; ClusterRole {role} has it" if role else "")
    if role and EVERYWHERE in str(error):
        said += ", given by a ClusterRoleBinding"
    return NotPermitted(lease, f"{said}: {_short(str(error))}")


def smallest_role(kind: str, verb: str, least: str = AGENT_ROLE) -> str | None:
    """The shipped role with the fewest verbs among those that have this one and all of `least`; None when none has."""
    having = [
        role
        for role, kinds in GRANTS.items()
        if verb in kinds.get(kind, ()) and all(set(verbs) <= set(kinds[of]) for of, verbs in GRANTS[least].items())
    ]
    return min(having, key=lambda role: sum(len(verbs) for verbs in GRANTS[role].values()), default=None)


def missing(lease: str, error: NotFound) -> WorkleaseError:
    """What it means that a work item is not found: there is none, no such namespace, or no WorkLeases at all."""
    namespace, _, name = lease.partition("/")
    if f'namespaces "{namespace}" not found' in str(error):
        return NoSuchWork(lease, f"there is no namespace {namespace}")
    if f'"{name}" not found' in str(error):
        return NoSuchWork(lease, NO_SUCH_WORK)
    if f"{name} has been deleted" in str(error):
        return NoSuchWork(lease, "the work item has been deleted")
    return ConfigurationError(
        f"{lease}: the API server does not know WorkLeases: is worklease installed? ({_short(str(error))})"
    )


def _short(message: str) -> str:
    return " ".join(message.split())[:MESSAGE_MAX]
