"""What an operator does in one step: see, decide and swap, by the decisions that ship.

Between any two steps it may crash, fall behind, or be overtaken by another replica. A swap of the WorkLease is decided
from what was last seen, however old; a swap of a handoff from the lease as it was when it was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from types import ModuleType

from exploration.objects import CACHED, MOMENT, Object, Raw, ago, canonical, handoff_of, lease_of, raw_of, version_of
from exploration.state import Pending, Replica, Seen, State
from worklease.api.handoff import Handoff, HandoffPhase
from worklease.api.worklease import Phase, Successor, WorkLease
from worklease.kube import swap
from worklease.protocol import decide as decide_module
from worklease.protocol import handoffs as handoffs_module
from worklease.protocol import observation as observation_module
from worklease.protocol.handoffs import OPEN, at_stake, is_accepted
from worklease.protocol.observation import Observation

TAKEN = frozenset({HandoffPhase.ACCEPTED, HandoffPhase.LAPSED})


class Decisions:
    """The modules that decide, as they ship or with a line changed; `confirms` is what the operator does about
    handoffs before it stores a decision on a reservation.
    """

    def __init__(
        self,
        decide: ModuleType = decide_module,
        handoffs: ModuleType = handoffs_module,
        observation: ModuleType = observation_module,
        *,
        confirms: bool = True,
    ) -> None:
        self.lease_status = lru_cache(CACHED)(self._lease_status)
        self.handoff_status = lru_cache(CACHED)(self._handoff_status)
        self.seeing = lru_cache(CACHED)(self._seeing)
        self.confirms = confirms
        self._decide, self._handoffs, self._observation = decide, handoffs, observation

    def _lease_status(self, lease: Object, seen: Seen | None, handoffs: tuple[Object, ...]) -> Raw | None:
        """The next status of a lease; None when there is nothing to do."""
        decision = self._decide.decide(
            lease_of(lease),
            _observation(seen),
            MOMENT,
            handoffs=tuple(handoff_of(one) for one in handoffs),
        )
        return decision.status.manifest() if decision.status is not None else None

    def _handoff_status(self, handoff: Object, lease: Object, others: tuple[Object, ...]) -> Raw | None:
        """The next status of a handoff."""
        decision = self._handoffs.decide_handoff(
            handoff_of(handoff), lease_of(lease), MOMENT, others=tuple(handoff_of(one) for one in others)
        )
        return decision.status.manifest() if decision.status is not None else None

    def _seeing(self, previous: Seen | None, lease: Object, heard_seconds_ago: int) -> Seen | None:
        """What is known of the tenure once the lease has been seen now."""
        model = lease_of(lease)
        heard = None
        if previous is None or previous.epoch != model.status.epoch:
            owner = {"time": ago(heard_seconds_ago), "fieldsV1": {"f:spec": {"f:renewal": {}}}}
            heard = self._observation.last_heard(model, [owner])
        found = self._observation.observe(_observation(previous), model, MOMENT, heard)
        if found is None:
            return None
        return Seen(found.epoch, found.phase, found.renew_time, max(0.0, found.lapses_at), max(0.0, found.expires_at))


def _observation(seen: Seen | None) -> Observation | None:
    if seen is None:
        return None
    return Observation(seen.epoch, Phase(seen.phase), seen.renew_time, seen.lapses_at, seen.expires_at, seen_at=0.0)


def sees_lease(decisions: Decisions, state: State, replica: Replica) -> Replica:
    """It has the newest version of the lease."""
    known = replica.lease
    same = known is not None and lease_of(known).metadata.uid == lease_of(state.lease).metadata.uid
    seen = decisions.seeing(replica.seen if same else None, state.lease, state.memory.heard_seconds_ago)
    return replace(replica, lease=state.lease, seen=seen)


def sees_handoff(state: State, replica: Replica, number: int) -> Replica:
    """It has the newest version of a handoff; what is resolved is forgotten, as the operator does."""
    newest = state.handoffs[number]
    kept = newest if newest and handoff_of(newest).status.phase in OPEN | {HandoffPhase.LAPSED} else None
    return replace(replica, handoffs=(*replica.handoffs[:number], kept, *replica.handoffs[number + 1 :]))


def _bearing(replica: Replica, lease: WorkLease) -> tuple[Object, ...]:
    """The handoffs that a decision on the lease takes into account."""
    successor = lease.status.successor
    reserving = successor.handoff_uid if successor is not None else None
    return tuple(
        one
        for one in replica.handoffs
        if one and (_bears(handoff_of(one)) or handoff_of(one).metadata.uid == reserving)
    )


def _bears(handoff: Handoff) -> bool:
    return handoff.status.phase in TAKEN or is_accepted(handoff)


def decided_lease(decisions: Decisions, state: State, replica: Replica) -> tuple[Raw, Replica] | None:
    """The status that it would swap in, and what it knows by then; None when there is nothing to do."""
    assert replica.lease is not None
    lease = lease_of(replica.lease)
    status = decisions.lease_status(replica.lease, replica.seen, _bearing(replica, lease))
    if status is None:
        return None
    after = Successor.model_validate(status["successor"]) if "successor" in status else None
    stake = at_stake(lease.status, lease.status.model_copy(update={"successor": after}))
    if stake is not None and decisions.confirms:
        replica = _confirmed(state, replica, lease, stake, making=after is not None)
        status = decisions.lease_status(replica.lease, replica.seen, _bearing(replica, lease))
        if status is None:
            return None
    return status, replica


def _confirmed(state: State, replica: Replica, lease: WorkLease, stake: Successor, *, making: bool) -> Replica:
    """What the operator makes sure of before it stores a decision about a reservation."""
    for number, known in enumerate(replica.handoffs):
        if known and handoff_of(known).metadata.uid == stake.handoff_uid:
            if not making or version_of(known) > int(lease.metadata.resource_version):
                return replica
            return sees_handoff(state, replica, number)
    for number, stored in enumerate(state.handoffs):
        if stored and handoff_of(stored).metadata.uid == stake.handoff_uid:
            return sees_handoff(state, replica, number)
    return replica


def lands(state: State, replica: Replica) -> bool:
    """A swap from what it knows would be made: the object is the same, or all that the tested patch names is."""
    assert replica.lease is not None
    if replica.lease == state.lease:
        return True
    known, stored = raw_of(replica.lease), raw_of(state.lease)
    return (
        known["metadata"]["uid"] == stored["metadata"]["uid"]
        and known["status"] == stored["status"]
        and all(known["spec"].get(name) == stored["spec"].get(name) for name in swap._READ)
    )


def prepares(decisions: Decisions, state: State, replica: Replica, number: int) -> Replica | None:
    """It reads the lease and decides on a handoff; the swap is on its way. None when there is nothing to do."""
    known = replica.handoffs[number]
    if known is None:
        return None
    others = tuple(
        one
        for other, one in enumerate(replica.handoffs)
        if other != number and one and handoff_of(one).status.phase in TAKEN
    )
    status = decisions.handoff_status(known, state.lease, others)
    if status is None:
        return None
    write = Pending(version_of(known), canonical({**raw_of(known), "status": status}))
    return replace(replica, pending=(*replica.pending[:number], write, *replica.pending[number + 1 :]))


def with_replica(state: State, number: int, replica: Replica) -> State:
    """The state with another replica in that place."""
    return replace(state, replicas=(*state.replicas[:number], replica, *state.replicas[number + 1 :]))


def unseen(decisions: Decisions, state: State, replica: Replica) -> Iterator[tuple[str, Replica]]:
    """Each thing that it may come to see next."""
    if replica.lease != state.lease:
        yield "sees the lease", sees_lease(decisions, state, replica)
    for number in range(len(state.handoffs)):
        after = sees_handoff(state, replica, number)
        if after != replica:
            yield f"sees handoff {number}", after
