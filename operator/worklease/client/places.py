"""Which work this process claims or holds, whatever client or thread does so.

All of a process is one instance to the protocol, and the API server admits a re-claim by the holder's own instance: one
block would take the work from another. So a block takes its place here first.
"""

from dataclasses import dataclass, field

Key = tuple[str, str, str, str]

_taken: set[Key] = set()  # Adding to a set and looking into it are atomic: threads need no lock.


@dataclass
class Places:
    """The places of one client; it gives back those that it has taken when it is closed."""

    server: str
    username: str
    instance: str
    _own: set[Key] = field(default_factory=set)

    def is_taken(self, lease: str) -> bool:
        """Whether some block of this process claims or holds this work."""
        return self._key(lease) in _taken

    def take(self, lease: str) -> None:
        """From now on nobody else of this process claims it."""
        _taken.add(self._key(lease))
        self._own.add(self._key(lease))

    def leave(self, lease: str) -> None:
        """The claim has failed, or the block has ended."""
        _taken.discard(self._key(lease))
        self._own.discard(self._key(lease))

    def leave_all(self) -> None:
        """The client is closed."""
        _taken.difference_update(self._own)
        self._own.clear()

    def _key(self, lease: str) -> Key:
        return self.server, self.username, self.instance, lease
