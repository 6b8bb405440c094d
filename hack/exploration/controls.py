"""What the search must find: a rule, a check of a policy or a line of the decisions taken away, and where it tells."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from celcheck import Judge
from exploration.operating import Decisions
from exploration.scopes import TWO_ACCEPTANCES
from exploration.speaking import Scope
from worklease.api import policies
from worklease.api.crd import handoff_crd, worklease_crd
from worklease.protocol import decide, handoffs, observation


@dataclass(frozen=True)
class Control:
    """What is taken away, where, and a part of what is then found to be wrong."""

    scope: Scope
    found: str
    rule: str = ""
    policy: str = ""
    module: str = ""
    line: str = ""
    instead: str = ""
    confirms: bool = True
    """Whether the operator makes sure of a handoff before it stores a decision about a reservation."""


_TENURE = Scope(grants_max=1, statements=("claim", "renewal", "release", "completion", "revocation"), effects=("e1",))
_AGAIN = Scope(grants_max=2, statements=("claim", "completion", "revocation"))
_HANDOFF = Scope(grants_max=2, statements=("claim",), handoffs=1)

CONTROLS: dict[str, Control] = {
    "a claim may name another epoch": Control(_TENURE, "promise 2", rule="claim.epoch"),
    "a release may name another epoch": Control(_TENURE, "promise 2", rule="release.standing"),
    "effects in jeopardy": Control(_TENURE, "promise 3", rule="effects.standing"),
    "open effects may be dropped": Control(_TENURE, "promise 6", rule="effects.dropped"),
    "completion with open effects": Control(_TENURE, "promise 7", rule="completion.effects"),
    "anybody speaks for the holder": Control(_TENURE, "spoke for the holder", policy="holder"),
    "anybody revokes": Control(_TENURE, "promise 8", policy="revocation"),
    "anybody answers a handoff": Control(_HANDOFF, "answered for the target", policy="handoff.target"),
    "a completion of another epoch counts": Control(
        _AGAIN, "promise 2", module="decide", line="completion.epoch != epoch or ", instead=""
    ),
    "a pending claim is forgotten": Control(_TENURE, "promise 4", module="decide", line="    _claim,\n", instead=""),
    "epochs are counted up": Control(
        Scope(grants_max=2, statements=("claim",), losses_max=1),
        "promise 1",
        module="decide",
        line="epoch = floor + int(version) if",
        instead="epoch = max(status.epoch, highest_mentioned(lease)) + 1 if",
    ),
    "no grace after the lease has lapsed": Control(
        _TENURE,
        "promise 9",
        module="observation",
        line="lapses_at, expires_at = clock + lease_seconds, clock + both_seconds",
        instead="lapses_at, expires_at = clock + lease_seconds, clock + lease_seconds",
    ),
    "Accepted before it has taken effect": Control(
        _HANDOFF,
        "has not taken effect",
        module="handoffs",
        line='return HandoffPhase.PENDING, "accepted: it takes effect',
        instead='return HandoffPhase.ACCEPTED, "accepted: it takes effect',
    ),
    "an acceptance takes effect again": Control(
        TWO_ACCEPTANCES,
        "a second acceptance",
        module="handoffs",
        line="if status.successor is not None or any(_has_taken_effect(handoff, status) for handoff in known):",
        instead="if status.successor is not None:",
    ),
    "a handoff is not read again": Control(
        Scope(
            grants_max=1,
            statements=("claim",),
            handoffs=1,
            senders=("holder",),
            answers=("Accepted",),
            start=(
                "alice claims",
                "operator 0 sees the lease",
                "operator 0 swaps Available -> Held and grants",
                "alice offers the work to bob",
                "bob answers handoff 0: Accepted",
            ),
        ),
        "promise 4: an acceptance took effect",
        confirms=False,
    ),
}


@contextmanager
def set_up(control: Control | None) -> Iterator[tuple[Judge, Decisions]]:
    """The judge and the decisions: as they ship, or less what a control takes away."""
    given = control or Control(Scope(), "")
    without = {given.rule} if given.rule else set()
    manifests = policies.manifests(without={given.policy} if given.policy else set())
    with Judge([worklease_crd(without), handoff_crd(without)], manifests) as judge:
        yield judge, _decisions(given)


def _decisions(control: Control) -> Decisions:
    modules = {"decide": decide, "handoffs": handoffs, "observation": observation}
    if control.module:
        modules[control.module] = _changed(modules[control.module], control.line, control.instead)
        if control.module == "handoffs":
            modules["decide"] = _changed(decide, "", "")
            modules["decide"].__dict__["handoff_rules"] = modules["handoffs"]
    return Decisions(modules["decide"], modules["handoffs"], modules["observation"], confirms=control.confirms)


def _changed(module: ModuleType, line: str, instead: str) -> ModuleType:
    """The module, were a part of its text another."""
    source = Path(str(module.__file__)).read_text()
    assert line in source, f"{module.__name__} has no such line any more: {line}"
    changed = ModuleType(module.__name__)
    changed.__dict__.update(__file__=module.__file__)
    changed.__name__ = f"{module.__name__}_changed"
    sys.modules[changed.__name__] = changed  # dataclasses look their module up
    exec(compile(source.replace(line, instead) if line else source, str(module.__file__), "exec"), changed.__dict__)
    return changed
