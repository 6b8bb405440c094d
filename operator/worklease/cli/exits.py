"""The exit codes of the command, and which error ends with which: the documentation's table is made from this."""

from enum import IntEnum

from worklease import errors


class Exit(IntEnum):
    """What a shell is told."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    REFUSED = 3
    LOST = 4
    WAITED = 124


MEANINGS = {
    Exit.DONE: "done",
    Exit.ERROR: "an error: there is no such object, no answer or none that can be read, or a person said no; or it is "
    "not known whether it was done",
    Exit.USAGE: "the command was used wrongly: its words, their values, or a variable that it reads",
    Exit.REFUSED: "refused: the work is leased, suspended, reserved or complete, the handoff is over, what is said is "
    "not about your own present tenure, or a verb is missing",
    Exit.LOST: "the lease was lost, or not certain any more, while `hold` held it",
    Exit.WAITED: "the work did not become free within the time given by --wait",
}

# The first that fits counts.
ERRORS: tuple[tuple[type[errors.WorkleaseError], Exit], ...] = (
    (errors.WaitedTooLong, Exit.WAITED),
    (errors.LeaseLost, Exit.LOST),
    (errors.LeaseInJeopardy, Exit.LOST),
    (errors.NotPermitted, Exit.REFUSED),
    (errors.Forbidden, Exit.REFUSED),
    (errors.ClaimRefused, Exit.REFUSED),
    (errors.StatementRefused, Exit.REFUSED),
    (errors.HandoffOver, Exit.REFUSED),
    (errors.WorkleaseError, Exit.ERROR),
)


def exit_of(error: errors.WorkleaseError) -> Exit:
    """The code with which an error ends the command."""
    return next(code for kind, code in ERRORS if isinstance(error, kind))


def table() -> str:
    """The codes as a table in Markdown."""
    lines = [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()]
    return "\n".join(["| code | meaning |", "|---|---|", *lines])
