"""Times as the decisions are handed them: seconds on the operator's own clock, and the server's wall time."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant: `clock_seconds` for every deadline, `wall` (the API server's time) for what people read."""

    clock_seconds: float
    wall: datetime

    def clock_at(self, wall: datetime) -> float:
        """Where a wall time lies on the clock."""
        return self.clock_seconds + (wall - self.wall).total_seconds()

    def later(self, seconds: float) -> "Moment":
        return Moment(self.clock_seconds + seconds, self.wall + timedelta(seconds=seconds))


def rfc3339(wall: datetime) -> str:
    """The form in which times are stored: UTC, microseconds, Z."""
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rfc3339_seconds(wall: datetime) -> str:
    """The same without decimals, for times that are as coarse as the server's own."""
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str | None) -> datetime | None:
    """A stored time; None for what is absent or is not a time."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else None
