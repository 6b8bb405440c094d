"""When to decide again about which lease: a heap that costs nothing for a renewal.

A deadline that moves later is noticed when the old one comes up, so a renewal, which only ever moves it later, does not
touch the heap. One that moves earlier is entered again; the heap is at most twice as long as there are leases in it.
"""

import heapq

SPARE = 64


class Deadlines:
    """Due times in seconds on the watch clock, by uid."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._queued_at: dict[str, float] = {}
        self._due_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._due_at)

    def set(self, uid: str, due_at: float | None) -> bool:
        """Remember when `uid` is due (None: never); True when the earliest entry has changed."""
        if due_at is None:
            self.drop(uid)
            return False
        self._due_at[uid] = due_at
        queued_at = self._queued_at.get(uid)
        if queued_at is not None and queued_at <= due_at:
            return False
        self._queued_at[uid] = due_at
        heapq.heappush(self._heap, (due_at, uid))
        if len(self._heap) > 2 * len(self._queued_at) + SPARE:  # leave out what was entered again, or dropped
            self._heap = [(at, one) for one, at in self._queued_at.items()]
            heapq.heapify(self._heap)
        return self._heap[0][1] == uid

    def drop(self, uid: str) -> None:
        self._due_at.pop(uid, None)
        self._queued_at.pop(uid, None)

    def next_at(self) -> float | None:
        """When the earliest entry comes up; it may turn out to have moved."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[tuple[str, float]]:
        """Take out what is due, with the time at which it was."""
        due: list[tuple[str, float]] = []
        while self._heap and self._heap[0][0] <= now:
            queued_at, uid = heapq.heappop(self._heap)
            if self._queued_at.get(uid) != queued_at:
                continue  # a later entry of a lease that was re-entered earlier
            del self._queued_at[uid]
            due_at = self._due_at.get(uid)
            if due_at is None:
                continue
            if due_at > now:
                self._queued_at[uid] = due_at
                heapq.heappush(self._heap, (due_at, uid))
            else:
                del self._due_at[uid]
                due.append((uid, due_at))
        return due
