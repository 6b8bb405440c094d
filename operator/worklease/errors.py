"""Every exception that worklease raises on purpose, with what it means for the caller."""

from datetime import datetime


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


class ConfigurationError(WorkleaseError):
    """No way to the API server is configured, or it does not lead there. The text says what was tried."""


class ApiError(WorkleaseError):
    """The API server answered with a failure, or not at all."""

    may_pass = True
    """Whether the same request may be answered otherwise a moment later."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Unanswered(ApiError):
    """No answer in time, or none at all: whether the request took effect is unknown."""


class Unavailable(ApiError):
    """The API server cannot serve the request now (429, 5xx): whether it took effect is unknown for 5xx."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after_seconds: float = 0.0) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after_seconds = retry_after_seconds


class Unauthenticated(ApiError):
    """The credentials are not, or no longer, accepted (401)."""


class Refused(ApiError):
    """The request is not permitted, by authorization, a policy or a rule (403, 422 and other 4xx)."""

    may_pass = False


class Forbidden(Refused):
    """Authorization or a policy denies the request (403). A server that starts knows neither roles nor bindings yet."""

    may_pass = True


class NotFound(Refused):
    """The object does not exist (404)."""


class Conflict(Refused):
    """The object has changed since it was read, or exists already (409; for a tested patch also 422)."""

    may_pass = True


class Unreadable(ApiError):
    """The answer is not the object that was asked for, or one of a schema that this version does not know."""

    may_pass = False


class LeaseError(WorkleaseError):
    """About one work item, `lease` (NAMESPACE/NAME)."""

    def __init__(self, lease: str, message: str) -> None:
        super().__init__(lease, message)
        self.lease = lease
        self.message = message

    def __str__(self) -> str:
        return f"{self.lease}: {self.message}"


class NoSuchWork(LeaseError):
    """There is no such work item, and none was to be created."""


class ClaimRefused(LeaseError):
    """The work cannot be had now; the claim had no effect."""


class WorkIsLeased(ClaimRefused):
    """Somebody else holds the work, or has just claimed it. `until` is advice, None when nobody can say."""

    def __init__(self, lease: str, message: str, until: datetime | None = None) -> None:
        super().__init__(lease, message)
        self.until = until


class WorkIsReserved(ClaimRefused):
    """The work is kept for the target of a handoff."""


class WorkIsSuspended(ClaimRefused):
    """The work takes no claims for now."""


class WorkIsComplete(ClaimRefused):
    """The work is done: no claim will ever be admitted unless it is reopened."""


class ClaimUndecided(LeaseError):
    """The claim was made, or may have been, and nothing was decided in time. It holds nothing that was confirmed."""


class WaitedTooLong(LeaseError):
    """The work did not become free within the time that the caller wanted to wait."""


class NotPermitted(LeaseError):
    """The caller lacks a verb; the message names it and the role that has it."""


class StatementRefused(LeaseError):
    """The holder's statement was refused though it may still hold: the message says what the API server wants."""


class EffectsUnreconciled(StatementRefused):
    """Effects are Attempted or Unknown: find out what became of them and say so first."""


class LeaseInJeopardy(LeaseError):
    """The holder cannot be sure that it holds, so it may cause no effect; the lease may become certain again."""


class LeaseLost(LeaseError):
    """The tenure has ended, or may have by now. `reason` is one of worklease.LostReason."""

    def __init__(self, lease: str, reason: str, message: str) -> None:
        super().__init__(lease, message)
        self.reason = reason


class HandoffOver(LeaseError):
    """A handoff can no longer be answered, or did not come about; `phase` is what became of it."""

    def __init__(self, lease: str, phase: str, message: str) -> None:
        super().__init__(lease, message)
        self.phase = phase


class EffectFailed(WorkleaseError):
    """Raise it inside `lease.effect(...)` when it is certain that the recipient did nothing."""
