"""Every exception that worklease raises on purpose, with what it means for the caller."""


class WorkleaseError(Exception):
    """The base of all of them."""


class FencingError(WorkleaseError):
    """A recipient refused an effect, or could not find out whether it may happen. The effect must not be produced."""


class StaleEpoch(FencingError):
    """A later tenure has already reached this recipient: the sender's standing has ended, for good."""

    def __init__(self, lease: str, epoch: int, highest: int) -> None:
        super().__init__(lease, epoch, highest)
        self.lease = lease
        self.epoch = epoch
        self.highest = highest

    def __str__(self) -> str:
        return (
            f"stale epoch {self.epoch} for {self.lease}: epoch {self.highest} has been here. "
            "The lease that this was sent under has passed to a later tenure; claim the work again before any effect."
        )


class MissingToken(FencingError):
    """The effect carries no fencing token, or only half of one."""


class MalformedToken(FencingError, ValueError):
    """The fencing token cannot be what worklease hands out: never a pass, and no retry will help."""


class OtherLease(FencingError):
    """The token is for other work than the effect touches."""

    def __init__(self, lease: str, expected: str) -> None:
        super().__init__(lease, expected)
        self.lease = lease
        self.expected = expected

    def __str__(self) -> str:
        return f"the token is for {self.lease}, this effect belongs to {self.expected}; send it under that lease"


class MarkUnavailable(FencingError):
    """The mark could not be read or moved, so nothing is known: refuse the effect, repair the store, try again."""


class EffectMismatch(FencingError):
    """An effect's id was used before for a different request: a new effect needs a new id."""


class NoStanding(FencingError):
    """The API server says that this epoch has no standing now."""

    def __init__(self, lease: str, epoch: int, reason: str) -> None:
        super().__init__(lease, epoch, reason)
        self.lease = lease
        self.epoch = epoch
        self.reason = reason

    def __str__(self) -> str:
        return f"epoch {self.epoch} has no standing for {self.lease}: {self.reason}"
