"""What callers were told: the order of their writes, and for every refusal a state of the store that justifies it.

The store's revisions are the linearization, so none has to be searched for: a write that was answered ok has its place
there, and a refusal needs one version, current at some instant between its call and its answer, by which it is right.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator

from worklease.api import handoff, statements
from worklease.api.cel import Check
from worklease.api.fields import EFFECTS_MAX
from worklease.api.policies import POLICIES

from . import handoffs
from .model import Call, History, Promise, Version, Violation
from .patches import PatchError, patched
from .rules import refused

DENIED = re.compile(r"denied request: (.*)", re.S)
UNAUTHORIZED = re.compile(r'User "[^"]*" cannot \w+ resource')
DUPLICATE = "Duplicate value"
"""By the schema: an effect is logged again after a lost answer, and the list is a map by id."""
TOO_MANY = f"spec.effects: Too many: {EFFECTS_MAX + 1}"
TEST_FAILED = "the server rejected our request"
_RULES = (*statements.RULES, *(rule for rules in statements.EFFECT_ITSELF.values() for rule in rules), *handoff.RULES)
CHECKS: tuple[Check, ...] = tuple(check for rule in _RULES for check in rule.checks)
POLICY_CHECKS: tuple[Check, ...] = tuple(check for policy in POLICIES for check in policy.checks)


def check(history: History) -> Iterator[Violation]:
    yield from _in_real_time(history)
    secrets = _secrets(history)
    for call in history.calls:
        target = call.target
        if call.outcome != "refused" or target is None or target[2] or call.method not in ("PATCH", "POST"):
            continue
        if target[0] == "workleases":
            yield from _justified(history, call, target[1])
            yield from _discreet(call, target[1], secrets[target[1]])
        elif call.method == "PATCH":
            versions = history.current("handoffs", target[1], call.began_at, call.ended_at)
            if not any(handoffs.justifies(version, call) for version in versions):
                text = f"{call.party} was refused ({call.status} {' '.join(call.message.split())[:200]}) for no reason"
                yield Violation(Promise.JUSTIFIED, target[1], 0, text)


def rules_of(call: Call) -> list[str]:
    """The names of the checks whose sentences a refusal gives, or what else it was refused for."""
    if call.status == 409:
        return ["conflict" if call.method != "POST" else "already exists"]
    if call.status == 404:
        return ["not found"]
    found = sorted({check.name for check in (*CHECKS, *POLICY_CHECKS) if check.message in call.message})
    # Statements share sentences: the check meant is that of a statement which was made.
    made = {path.split("/")[2] for path in _paths(call)}
    meant = [name for name in found if name.partition(".")[0] in made]
    if found:
        return meant or found
    if UNAUTHORIZED.search(call.message):
        return ["authorization"]
    if DUPLICATE in call.message:
        return ["effects.duplicate"]
    if TOO_MANY in call.message:
        return ["effects.max"]
    return ["patch test"] if TEST_FAILED in call.message else ["other"]


def _paths(call: Call) -> list[str]:
    return [op["path"] for op in call.body if op["path"].startswith("/spec/")] if isinstance(call.body, list) else []


def _in_real_time(history: History) -> Iterator[Violation]:
    """A write that began after another one was answered has a later revision, and none is seen before it is made."""
    for (_, name), versions in history.versions.items():
        for version in versions:
            if version.not_before > version.not_after:
                text = f"it was seen {version.not_before - version.not_after:.3f} s before it can have been made"
                yield Violation(Promise.JUSTIFIED, name, version.revision, text)
    by_object: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in history.calls:
        target = call.target
        if call.outcome == "ok" and call.version and target is not None:
            by_object[target[:2]].append(call)
    for (_, name), calls in by_object.items():
        answered: list[tuple[float, int]] = []
        highest = 0
        for call in sorted(calls, key=lambda one: one.began_at):
            while answered and answered[0][0] < call.began_at:
                highest = max(highest, heapq.heappop(answered)[1])
            if call.version < highest:
                text = f"{call.party} was answered by revision {call.version} after revision {highest} was answered"
                yield Violation(Promise.JUSTIFIED, name, call.version, text)
            heapq.heappush(answered, (call.ended_at, call.version))


def _justified(history: History, call: Call, name: str) -> Iterator[Violation]:
    versions = list(history.current("workleases", name, call.began_at, call.ended_at))
    conflict = call.status == 409 and call.method == "PATCH"
    # A patch is tried again by the server itself: it is in conflict only with writes that happened meanwhile.
    if (conflict and len(versions) < 2) or not any(_justifies(version, call) for version in versions):
        states = [f"{v.revision}:{v.status.get('phase', 'absent')}@{v.status.get('epoch', 0)}" for v in versions]
        text = f"{call.party} was refused ({call.status} {' '.join(call.message.split())[:200]}) in none of {states}"
        yield Violation(Promise.JUSTIFIED, name, 0, text)


def _justifies(version: Version, call: Call) -> bool:
    """By this version the refusal is right."""
    if call.status == 404:
        return version.state is None
    if UNAUTHORIZED.search(call.message):
        return True  # about the caller's role; a server that has just started does not know all roles yet
    if call.status == 409:
        return call.method == "PATCH" or version.state is not None
    if call.method == "POST":
        return DENIED.search(call.message) is not None
    if version.state is None:
        return False
    try:
        new = patched(version.state, call.body)["spec"]
    except PatchError:
        return TEST_FAILED in call.message or call.status in (400, 422)
    if DUPLICATE in call.message:
        ids = [effect["id"] for effect in new.get("effects", [])]
        return len(set(ids)) < len(ids)
    if TOO_MANY in call.message:
        return len(new.get("effects", [])) == EFFECTS_MAX + 1
    failed = refused(version.state, new)
    if denied := DENIED.search(call.message):
        # Policies are asked after the rules, so here the rules must have admitted it.
        return not failed and _policy_justifies(version, call, denied[1])
    said = [check for check in CHECKS if check.message in call.message]
    return bool(said) and all(any(one.name in failed for one in said if one.message == c.message) for c in said)


def _policy_justifies(version: Version, call: Call, sentence: str) -> bool:
    """The policies look at who speaks; of those only the one about the holder depends on the state."""
    if sentence.startswith("only the holder"):
        holder = version.status.get("holderIdentity"), version.status.get("instance")
        return holder != (call.party.partition("#")[0], call.instance)
    return any(check.message in sentence or check.message_expression for check in POLICY_CHECKS)


def _secrets(history: History) -> dict[str, set[str]]:
    """What a denial must not tell: holders, their processes and what they do."""
    told: dict[str, set[str]] = defaultdict(set)
    for name, versions in history.leases():
        for version in versions:
            claim = version.spec.get("claim") or {}
            words = (*(claim.get(part) for part in ("holderIdentity", "instance", "purpose")), claim.get("id"))
            told[name] |= {word for word in words if word}
    return told


def _discreet(call: Call, name: str, secrets: set[str]) -> Iterator[Violation]:
    if not any(op.get("path") == "/spec/claim" for op in call.body or () if isinstance(op, dict)):
        return
    own = {str(value) for op in call.body for value in (op.get("value") or {}).values() if op["path"] == "/spec/claim"}
    # The message names the user who was denied, and the object.
    own.add(call.party.partition("#")[0])
    for word in sorted(secrets - own):
        if word in call.message:
            yield Violation(Promise.DENIAL, name, 0, f"the denial to {call.party} says {word!r}")
