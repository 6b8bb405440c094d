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
    Exit.ERROR: "an error, or it is not known whether it was done",
    Exit.USAGE: "the command was used wrongly",
    Exit.REFUSED: "refused: the work is leased, suspended, reserved or complete, or the statement is not permitted",
    Exit.LOST: "the lease was lost, or not certain any more, while it was held",
    Exit.WAITED: "the work did not become free within the time given by --wait",
}

# The first that fits counts.
ERRORS: tuple[tuple[type[errors.WorkleaseError], Exit], ...] = (
    (errors.WaitedTooLong, Exit.WAITED),
    (errors.LeaseLost, Exit.LOST),
    (errors.LeaseInJeopardy, Exit.LOST),
    (errors.NotPermitted, Exit.ERROR),
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
