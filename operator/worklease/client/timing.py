"""What a holder may believe about its lease, and when it renews: pure, on times that it is handed.

Every time is in seconds on one clock that counts sleep. The operator times a lease from when it saw the last renewal,
which is never before that renewal was sent: so a holder that counts from the sending stops believing first.
"""

from dataclasses import dataclass
from enum import StrEnum

MARGIN_FLOOR_SECONDS = 1.0
"""For what is on its way when belief ends: a write that was sent just before, a task that is being cancelled."""
CLOCK_RATE = 500e-6
"""By how much two honest clocks may differ in rate (the slew limit of NTP): 43 s in a lease of a day."""
RENEWALS_PER_LEASE = 3
REQUESTS_PER_RENEWAL = 2
REQUEST_MAX_SECONDS = 10.0
RETRY_FIRST_SECONDS = 0.2
RETRY_MAX_SECONDS = 5.0


class Standing(StrEnum):
    """What the holder may believe at an instant."""

    HELD = "Held"
    """The lease is certainly its own: effects are permitted."""
    JEOPARDY = "Jeopardy"
    """It cannot be sure. No effects; the lease may become certain again."""
    LOST = "Lost"
    """The tenure has ended, or may have. This never changes again."""
    ENDED = "Ended"
    """The holder itself released, completed or handed over the work. This never changes again."""


FINAL = frozenset({Standing.LOST, Standing.ENDED})


def margin_seconds(duration_seconds: float) -> float:
    """How much earlier than a duration a holder stops believing."""
    return MARGIN_FLOOR_SECONDS + CLOCK_RATE * duration_seconds


@dataclass(frozen=True, slots=True)
class Terms:
    """The durations of a grant, and what follows from them for its holder."""

    lease_seconds: float
    jeopardy_seconds: float

    @property
    def certain_seconds(self) -> float:
        """For how long after the sending the lease is certainly held."""
        return self.lease_seconds - margin_seconds(self.lease_seconds)

    @property
    def safe_seconds(self) -> float:
        """For how long after the sending the work certainly is nobody else's."""
        total = self.lease_seconds + self.jeopardy_seconds
        return total - margin_seconds(total)

    @property
    def renewal_seconds(self) -> float:
        """From one renewal to the next."""
        return self.lease_seconds / RENEWALS_PER_LEASE

    @property
    def request_seconds(self) -> float:
        """How long one request may take, so that there is time for another before the deadline."""
        return min(self.renewal_seconds / REQUESTS_PER_RENEWAL, REQUEST_MAX_SECONDS)


class Belief:
    """The holder's belief in one tenure, from the last claim or renewal that was accepted."""

    def __init__(self, terms: Terms, sent_at: float) -> None:
        self.terms = terms
        self.confirmed_at = sent_at
        self._final: Standing | None = None

    @property
    def deadline(self) -> float:
        """Until when effects are permitted."""
        return self.confirmed_at + self.terms.certain_seconds

    @property
    def expiry(self) -> float:
        """From when the work may be somebody else's."""
        return self.confirmed_at + self.terms.safe_seconds

    def standing(self, now: float) -> Standing:
        """What may be believed now. Past the expiry it is Lost for good, whatever is answered later."""
        if self._final is None and now >= self.expiry:
            self._final = Standing.LOST
        if self._final is not None:
            return self._final
        return Standing.HELD if now < self.deadline else Standing.JEOPARDY

    def confirm(self, sent_at: float, now: float) -> bool:
        """A renewal that was sent then has been accepted. False when that came too late to believe it."""
        if self.standing(now) in FINAL:
            return False
        self.confirmed_at = max(self.confirmed_at, sent_at)
        return self.standing(now) not in FINAL

    def begin(self, terms: Terms, sent_at: float, now: float) -> bool:
        """A re-claim that was sent then has been granted under these terms. False when that came too late.

        What confirmed the old epoch counts for the new one: it was accepted before the grant, so it was sent before the
        operator began to time the new tenure.
        """
        if self.standing(now) in FINAL:
            return False
        self.terms = terms
        return self.confirm(sent_at, now)

    def end(self, final: Standing) -> bool:
        """The tenure is over. False when it was before."""
        if self._final is not None:
            return False
        self._final = final
        return True

    def next_change(self, now: float) -> float | None:
        """When the standing changes next if nothing is heard; None when it does not."""
        standing = self.standing(now)
        if standing in FINAL:
            return None
        return self.deadline if standing is Standing.HELD else self.expiry


def pause_seconds(belief: Belief, failures: int, now: float, retry_after_seconds: float = 0.0) -> float:
    """How long to wait before the next renewal is sent, after so many in a row of which nothing is known.

    A server's Retry-After is respected as long as one more attempt fits before the deadline.
    """
    if not failures:
        return max(0.0, belief.confirmed_at + belief.terms.renewal_seconds - now)
    backoff = min(RETRY_FIRST_SECONDS * 2.0 ** min(failures - 1, 10), RETRY_MAX_SECONDS, belief.terms.request_seconds)
    bound = belief.deadline if now < belief.deadline else belief.expiry
    latest = bound - belief.terms.request_seconds - now
    return min(max(backoff, retry_after_seconds), max(backoff, latest))


def timeout_seconds(belief: Belief, now: float) -> float:
    """How long a request that is sent now may take: it ends before the standing changes, or at once."""
    change = belief.next_change(now)
    return 0.0 if change is None else min(belief.terms.request_seconds, change - now)
