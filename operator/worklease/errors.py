"""Every exception that worklease raises on purpose, with what it means for the caller."""


class WorkleaseError(Exception):
    """The base of all of them."""


class ConfigurationError(WorkleaseError):
    """No way to the API server is configured, or it does not lead there. The text says what was tried."""


class ApiError(WorkleaseError):
    """The API server answered with a failure, or not at all."""

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


class NotFound(Refused):
    """The object does not exist (404)."""


class Conflict(Refused):
    """The object has changed since it was read, or exists already (409; for a tested patch also 422)."""
