"""The scopes that are explored, by name: the short ones in every test, the others when asked for."""

from __future__ import annotations

from exploration.speaking import Scope

TWO_ACCEPTANCES = Scope(
    grants_max=2,
    statements=("claim",),
    handoffs=2,
    senders=("holder",),
    answers=("Accepted",),
    prompt=True,
    start=(
        "alice claims",
        "operator 0 swaps Available -> Held and grants",
        "alice offers the work to bob",
        "alice offers the work to bob",
        "bob answers handoff 0: Accepted",
        "bob answers handoff 1: Accepted",
        "operator 0 decides on handoff 0",
        "operator 0 decides on handoff 1",
        "operator 0 swaps handoff 0 Pending -> Pending",
        "operator 0 swaps handoff 1 Pending -> Pending",
    ),
)
"""Both are accepted before the operator has said a word."""

SHORT: dict[str, Scope] = {
    "tenure": Scope(grants_max=1, statements=("claim", "renewal", "release", "revocation")),
    "completion": Scope(grants_max=1, statements=("claim", "completion", "revocation"), effects=("e1",)),
    "succession": Scope(grants_max=2, statements=("claim", "revocation")),
    "handoff": Scope(grants_max=1, statements=("claim",), handoffs=1, senders=("holder",), prompt=True),
    "two-acceptances": TWO_ACCEPTANCES,
}
"""Explored to the end, or as far as a bound of CPU allows."""
LONG: dict[str, Scope] = {
    "statements": Scope(grants_max=2, checkpoint=True, suspension=True, effects=("e1",)),
    "pairs": Scope(grants_max=2, effects=("e1",), pairs=True),
    "three-agents": Scope(agents=3, grants_max=2, statements=("claim", "renewal", "release", "revocation")),
    "no-jeopardy": Scope(grants_max=2, jeopardy_seconds=0, statements=("claim", "renewal", "release")),
    "replicas": Scope(replicas=2, grants_max=1, statements=("claim", "renewal", "release", "revocation")),
    "losses": Scope(grants_max=2, statements=("claim", "renewal", "revocation"), losses_max=1),
    "handoffs": Scope(grants_max=2, statements=("claim", "renewal", "release", "revocation"), handoffs=1),
    "handoff-late": Scope(grants_max=1, statements=("claim",), handoffs=1),
    "handoffs-prompt": Scope(
        grants_max=2, handoffs=1, effects=("e1",), prompt=True, senders=("holder", "anybody", "admin")
    ),
    "two-handoffs-prompt": Scope(grants_max=2, statements=("claim", "release"), handoffs=2, prompt=True),
    "two-handoffs": Scope(grants_max=1, statements=("claim",), handoffs=2),
    "handoffs-of-replicas": Scope(replicas=2, grants_max=1, statements=("claim",), handoffs=1),
    "handoff-and-effects": Scope(
        grants_max=2, statements=("claim", "completion"), effects=("e1",), handoffs=1, senders=("holder", "anybody")
    ),
}
"""Explored as far as the bound that is given allows."""
SCOPES = SHORT | LONG
