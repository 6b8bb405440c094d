"""Tokens that the API server does not know: it is asked about each once in some seconds, and about few of one peer."""

import time
from collections import OrderedDict
from collections.abc import Callable

UNKNOWN_FOR_SECONDS = 5.0
UNKNOWN_MAX = 4096
ASKED_AT_ONCE = 20
ASKED_PER_SECOND = 1.0
PEERS_MAX = 4096


class Strangers:
    """What is remembered of them: digests, never tokens, and what each peer has left to ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unknown: OrderedDict[bytes, float] = OrderedDict()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """How many tokens may be asked about, and since when that is so."""

    def are_unknown(self, digest: bytes) -> bool:
        """The API server has said so until lately."""
        return self._unknown.get(digest, -1.0) > self._clock()

    def note(self, digest: bytes) -> None:
        """The API server has just said so."""
        self._unknown[digest] = self._clock() + UNKNOWN_FOR_SECONDS
        self._unknown.move_to_end(digest)
        while len(self._unknown) > UNKNOWN_MAX:
            self._unknown.popitem(last=False)

    def may_ask(self, peer: str) -> bool:
        """Whether a token of this peer may be asked about; if so, that counts as one until it is known."""
        left = self._left_of(peer)
        if left < 1.0:
            return False
        self._keep(peer, left - 1.0)
        return True

    def was_known(self, peer: str) -> None:
        """It was no stranger's, or nobody could be asked: it does not count."""
        self._keep(peer, self._left_of(peer) + 1.0)

    def _left_of(self, peer: str) -> float:
        left, since = self._left.get(peer, (float(ASKED_AT_ONCE), self._clock()))
        return min(float(ASKED_AT_ONCE), left + (self._clock() - since) * ASKED_PER_SECOND)

    def _keep(self, peer: str, left: float) -> None:
        self._left[peer] = min(float(ASKED_AT_ONCE), left), self._clock()
        self._left.move_to_end(peer)
        while len(self._left) > PEERS_MAX:
            self._left.popitem(last=False)
