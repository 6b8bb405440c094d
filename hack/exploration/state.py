"""A state: what is stored, what each operator knows, and what only the search remembers in order to judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from exploration.objects import (
    CLAIM_ID,
    OLDEST_SECONDS,
    RENEW_TIME,
    TICK_SECONDS,
    Object,
    later,
    names_in,
    renamed,
)


class Seen(NamedTuple):
    """What an operator has observed of a tenure: as much of worklease's Observation as decides anything."""

    epoch: int
    phase: str
    renew_time: str | None
    lapses_at: float
    expires_at: float


class Pending(NamedTuple):
    """A status of a handoff that is on its way to the store, and the version that it was made from."""

    version: int
    handoff: Object


@dataclass(frozen=True, slots=True)
class Replica:
    """One operator: the newest versions that it has seen, and what it is about to write."""

    lease: Object | None = None
    seen: Seen | None = None
    handoffs: tuple[Object | None, ...] = ()
    pending: tuple[Pending | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """What has happened, as far as a promise needs it."""

    top_epoch: int = 0
    """The highest epoch that was ever granted."""
    heard_seconds_ago: int = OLDEST_SECONDS
    """When the tenure was granted or last renewed, by the store's order."""
    taken_by: str = ""
    """The uid of the handoff whose acceptance has taken effect on the current epoch."""
    grants: int = 0
    losses: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """All of it. States that differ in nothing that matters are equal."""

    lease: Object
    handoffs: tuple[Object | None, ...]
    replicas: tuple[Replica, ...]
    memory: Memory

    def revisions(self) -> Iterator[int]:
        """Every revision and epoch in it."""
        yield from self.lease.revisions
        yield self.memory.top_epoch
        for stored in self.handoffs:
            if stored:
                yield from stored.revisions
        for replica in self.replicas:
            if replica.lease:
                yield from replica.lease.revisions
            if replica.seen:
                yield replica.seen.epoch
            for known in replica.handoffs:
                if known:
                    yield from known.revisions
            for write in replica.pending:
                if write:
                    yield write.version
                    yield from write.handoff.revisions

    def next_revision(self) -> int:
        """The store's next revision."""
        return max(self.revisions()) + 1

    def objects(self) -> Iterator[Object]:
        """Every object in it."""
        yield self.lease
        yield from (one for one in self.handoffs if one)
        for replica in self.replicas:
            if replica.lease:
                yield replica.lease
            yield from (one for one in replica.handoffs if one)
            yield from (one.handoff for one in replica.pending if one)

    def canonical(self) -> State:
        """The same, with revisions renumbered in their order and made-up names renamed; 0 is no epoch, and stays."""
        present = sorted({*self.revisions(), 0})
        ranks = {revision: rank for rank, revision in enumerate(present)}
        names: dict[str, str] = {}
        for stored in self.objects():
            for name in names_in(stored.text):
                if name not in names:
                    kind = CLAIM_ID if name.startswith('"c') else RENEW_TIME
                    names[name] = kind.format(sum(other[1] == name[1] for other in names))
        for replica in self.replicas:
            if replica.seen and replica.seen.renew_time and f'"{replica.seen.renew_time}"' not in names:
                names[f'"{replica.seen.renew_time}"'] = RENEW_TIME.format(sum(other[1] == "2" for other in names))
        renaming = tuple(names.items()) if any(one != other for one, other in names.items()) else ()
        if not renaming and all(revision == rank for revision, rank in ranks.items()):
            return self

        def other(stored: Object) -> Object:
            text = renamed(stored.text, renaming) if renaming else stored.text
            return Object(text, tuple(ranks[one] for one in stored.revisions))

        return State(
            other(self.lease),
            tuple(one and other(one) for one in self.handoffs),
            tuple(
                Replica(
                    replica.lease and other(replica.lease),
                    replica.seen
                    and replica.seen._replace(
                        epoch=ranks[replica.seen.epoch],
                        renew_time=replica.seen.renew_time and names[f'"{replica.seen.renew_time}"'].strip('"'),
                    ),
                    tuple(one and other(one) for one in replica.handoffs),
                    tuple(one and Pending(ranks[one.version], other(one.handoff)) for one in replica.pending),
                )
                for replica in self.replicas
            ),
            replace(self.memory, top_epoch=ranks[self.memory.top_epoch]),
        )

    def later(self) -> State:
        """One tick later."""
        return State(
            _aged(self.lease),
            tuple(_aged(one) if one else None for one in self.handoffs),
            tuple(
                Replica(
                    _aged(replica.lease) if replica.lease else None,
                    replica.seen._replace(
                        lapses_at=max(0.0, replica.seen.lapses_at - TICK_SECONDS),
                        expires_at=max(0.0, replica.seen.expires_at - TICK_SECONDS),
                    )
                    if replica.seen
                    else None,
                    tuple(_aged(one) if one else None for one in replica.handoffs),
                    tuple(one._replace(handoff=_aged(one.handoff)) if one else None for one in replica.pending),
                )
                for replica in self.replicas
            ),
            replace(self.memory, heard_seconds_ago=min(OLDEST_SECONDS, self.memory.heard_seconds_ago + TICK_SECONDS)),
        )


def _aged(stored: Object) -> Object:
    return stored._replace(text=later(stored.text))
