"""The states that the tables begin with, reached by real statements and the operator's decisions."""

from __future__ import annotations

from collections.abc import Callable

from support.deciding import FREED
from support.statements import (
    ADMIN,
    ALICE,
    BOB,
    OPERATOR,
    Deed,
    Work,
    checkpoints,
    claims,
    completes,
    configures,
    creates,
    decides,
    logs,
    moves,
    releases,
    renews,
    revokes,
    successor,
)

State = Callable[[Work], None]


def then(*deeds: State | tuple[str, Deed]) -> State:
    """States and who did what, one after the other, each admitted."""

    def brought_about(work: Work) -> None:
        for deed in deeds:
            if isinstance(deed, tuple):
                who, does = deed
                does(work, who).must()
            else:
                deed(work)

    return brought_about


def granted(work: Work) -> None:
    """The operator grants the claim that is there."""
    work.grant()


def unmade(work: Work) -> None:
    """There is no such work item yet."""


def ended(phase: str) -> tuple[str, Deed]:
    """The operator sees that the tenure has ended."""
    return OPERATOR, decides(phase=phase, **FREED)


jeopardised: tuple[str, Deed] = (OPERATOR, decides(phase="Jeopardy"))
"""The operator sees that the lease has lapsed."""


def reserved_for(who: str, instance: str | None = None) -> tuple[str, Deed]:
    """The operator sees an accepted handoff, to a process of theirs or to any."""
    of = {"instance": instance} if instance else {}
    return OPERATOR, decides(successor=lambda work: successor(work, who, **of))


available = then(unmade, (ADMIN, creates()))
suspended = then(available, (ADMIN, configures(suspend=True)))
claimed = then(available, (ALICE, claims()))
refused = then(available, (ALICE, claims(id="refused")), (OPERATOR, decides(observedClaimID="refused")))

held = then(available, (ALICE, claims(id="granted")), granted)
held_and_suspended = then(held, (ADMIN, configures(suspend=True)))
renewed = then(held, (ALICE, renews()))
checkpointed = then(held, (ALICE, checkpoints("sha256:1")))
reclaiming = then(held, (ALICE, claims(id="again")))
jeopardy = then(held, jeopardised)
being_handed_over = then(held, reserved_for(BOB))

attempted = then(held, (ALICE, logs("e1")))
unknown = then(attempted, (ALICE, moves("e1", "Unknown")))
succeeded = then(attempted, (ALICE, moves("e1", "Succeeded")))
failed = then(attempted, (ALICE, moves("e1", "Failed")))
compensated = then(succeeded, (ALICE, moves("e1", "Compensated")))

release_stated = then(held, (ALICE, releases()))
revocation_stated = then(held, (ADMIN, revokes()))
completion_stated = then(held, (ALICE, completes()))

free_after_renewal = then(renewed, ended("Expired"))
expired = then(held, ended("Expired"))
released = then(release_stated, ended("Released"))
revoked = then(revocation_stated, ended("Revoked"))
completed = then(completion_stated, ended("Completed"))
reopening = then(completed, (ADMIN, revokes()))
reserved = then(being_handed_over, (ALICE, releases()), ended("Released"))


def held_again_after(state: State, who: str = ALICE) -> State:
    """A later tenure: `past` is the epoch of the one before."""
    return then(state, (who, claims()), granted)


held_again = held_again_after(expired)
"""Alice holds under a second epoch."""
taken = held_again_after(expired, BOB)
"""Bob holds what alice held before."""
