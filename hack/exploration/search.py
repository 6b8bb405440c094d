"""Breadth first through all states, so that what is found first is found by a shortest path."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from celcheck import Judge, Speaker, Verdict, Write
from exploration import operating, promises
from exploration.attempts import (
    Attempt,
    grants,
    of_handoffs,
    recreations,
    remembered,
    speech_key,
    statements,
    verdict_key,
    written,
)
from exploration.objects import Object, canonical, handoff_of, raw_of, version_of
from exploration.operating import Decisions
from exploration.speaking import ADMIN, Scope, new_lease
from exploration.state import Memory, Replica, State
from worklease.api.worklease import LEASED

OPERATOR = Speaker("operator")
CHUNK = 64
"""How many states are expanded together, so that their writes are judged together."""
REST_WITHIN = 24
ENDS_WITHIN_TICKS = 8


@dataclass(eq=False)
class Violation(Exception):
    """What went wrong, and the shortest way there."""

    wrong: tuple[str, ...]
    path: tuple[str, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(self.path, 1))
        return f"{'; '.join(self.wrong)}\n{steps}"


@dataclass
class Found:
    """What was covered."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    judged: int = 0
    admitted: int = 0
    refused: int = 0
    complete: bool = False
    cpu_seconds: float = 0.0
    steps: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        how = "all of them" if self.complete else "as far as the bound allows"
        return (
            f"{self.states} states ({how}), {self.transitions} transitions, depth {self.depth}; "
            f"{self.judged} different writes judged, {self.admitted} attempts admitted, {self.refused} refused; "
            f"{self.cpu_seconds:.0f} s of CPU"
        )


class Search:
    """All states that a scope reaches."""

    def __init__(self, scope: Scope, judge: Judge, decisions: Decisions) -> None:
        self.scope, self.found = scope, Found()
        self._judge, self._decisions = judge, decisions
        self._verdicts: dict[tuple[object, ...], Verdict] = {}
        self._parents: dict[State, tuple[State, str] | None] = {}
        self._said: dict[tuple[object, ...], tuple[list[Attempt], int]] = {}
        self._rested: set[tuple[object, ...]] = set()

    def run(self, states_max: int | None = None, cpu_seconds_max: float | None = None) -> Found:
        """Explores until all is seen or a bound is reached. Raises Violation."""
        started = time.process_time()
        frontier = [self._initial()]
        while frontier:
            following: list[State] = []
            for start in range(0, len(frontier), CHUNK):
                for state, words, after in self._expanded(frontier[start : start + CHUNK]):
                    self.found.transitions += 1
                    after = (self._seen_at_once(after) if self.scope.prompt else after).canonical()
                    if after not in self._parents:
                        self._parents[after] = state, words
                        following.append(after)
                        self._check(after)
                self.found.cpu_seconds = time.process_time() - started
                self.found.states = len(self._parents)
                if (states_max and self.found.states > states_max) or (
                    cpu_seconds_max and self.found.cpu_seconds > cpu_seconds_max
                ):
                    return self.found
            self.found.depth += bool(following)
            frontier = following
        self.found.complete = True
        return self.found

    def _initial(self) -> State:
        verdict = self._judge.judge([Write(None, new_lease(self.scope), ADMIN)])[0]
        assert verdict.stored is not None, verdict.message
        slots: tuple[None, ...] = (None,) * self.scope.handoffs
        replica = Replica(handoffs=slots, pending=slots)
        lease = canonical({**verdict.stored, "metadata": {**verdict.stored["metadata"], "resourceVersion": "1"}})
        state = State(lease, slots, (replica,) * self.scope.replicas, Memory()).canonical()
        self._parents[state] = None
        for words in self.scope.start:
            afters = {step: after for _, step, after in self._expanded([state])}
            after = afters[words]
            after = (self._seen_at_once(after) if self.scope.prompt else after).canonical()
            self._parents[after] = state, words
            state = after
        return state

    def _expanded(self, states: list[State]) -> Iterator[tuple[State, str, State]]:
        attempts = [(state, list(self._attempts(state))) for state in states]
        fresh = {speech_key(state): state for state in states if speech_key(state) not in self._said}
        said_now = {speech: list(statements(self.scope, state)) for speech, state in fresh.items()}
        tried = [*(one for _, of_state in attempts for one in of_state), *(a for _, o in said_now.items() for a in o)]
        self._judge_all(tried)
        for speech, of_state in said_now.items():
            admitted = [one for one in of_state if self._admits(one, fresh[speech])]
            self._said[speech] = admitted, len(of_state) - len(admitted)
        for state, of_state in attempts:
            admitted, refused = self._said[speech_key(state)]
            self.found.refused += refused
            self.found.admitted += len(admitted)
            for attempt in admitted:
                yield state, attempt.words, attempt.after(state)
            for attempt in of_state:
                if self._admits(attempt, state):
                    self.found.admitted += 1
                    yield state, attempt.words, attempt.after(state)
                else:
                    self.found.refused += 1
            for words, after in self._silent(state):
                yield state, words, after

    def _admits(self, attempt: Attempt, state: State) -> bool:
        verdict = self._verdicts[verdict_key(attempt)]
        if verdict.admitted:
            self._fail_if(tuple(attempt.wrong()), state, attempt.words)
            return True
        wrong = list(promises.of_refusal(verdict.message, raw_of(state.lease), attempt.speaker))
        if attempt.must:
            wrong.append(f"promise 8: refused: {verdict.message}")
        self._fail_if(tuple(wrong), state, attempt.words)
        return False

    def _seen_at_once(self, state: State) -> State:
        for number, replica in enumerate(state.replicas):
            replica = operating.sees_lease(self._decisions, state, replica)
            for place in range(len(state.handoffs)):
                replica = operating.sees_handoff(state, replica, place)
            state = operating.with_replica(state, number, replica)
        return state

    def _silent(self, state: State) -> Iterator[tuple[str, State]]:
        """Steps that nobody judges: time, crashes, and what operators see and prepare."""
        yield "time passes", state.later()
        for number, replica in enumerate(state.replicas):
            name = f"operator {number}"
            empty = Replica(handoffs=(None,) * len(replica.handoffs), pending=(None,) * len(replica.pending))
            if replica != empty:
                yield f"{name} crashes", operating.with_replica(state, number, empty)
            for words, after in operating.unseen(self._decisions, state, replica):
                yield f"{name} {words}", operating.with_replica(state, number, after)
            for handoff in range(len(state.handoffs)):
                prepared = operating.prepares(self._decisions, state, replica, handoff)
                if prepared is not None and prepared != replica:
                    yield f"{name} decides on handoff {handoff}", operating.with_replica(state, number, prepared)
        if state.memory.losses < self.scope.losses_max:
            yield "the status is lost", self._without_status(state)

    def _without_status(self, state: State) -> State:
        raw = raw_of(state.lease)
        memory = replace(state.memory, losses=state.memory.losses + 1, taken_by="")
        return replace(
            state, lease=written({**raw, "status": {"phase": "Available", "epoch": 0}}, state), memory=memory
        )

    def _attempts(self, state: State) -> Iterator[Attempt]:
        yield from recreations(self.scope, state)
        for number, replica in enumerate(state.replicas):
            if replica.lease is not None:
                yield from self._swaps(state, number, replica)
            yield from self._handoff_swaps(state, number, replica)
        yield from of_handoffs(self.scope, state)

    def _swaps(self, state: State, number: int, replica: Replica) -> Iterator[Attempt]:
        decided = operating.decided_lease(self._decisions, state, replica)
        if decided is None:
            return
        status, knowing = decided
        if not operating.lands(state, knowing):
            return
        before = raw_of(state.lease)
        granted = grants(before["status"], status)
        if granted and state.memory.grants >= self.scope.grants_max:
            return
        lease = written({**before, "status": status}, state)
        memory = remembered(state.memory, before["status"], status, granted=granted)

        def after(state: State) -> State:
            stored = replace(state, lease=lease, memory=memory)
            return operating.with_replica(stored, number, operating.sees_lease(self._decisions, stored, knowing))

        what = f"operator {number} swaps {before['status']['phase']} -> {status['phase']}"
        what += " and grants" if granted else " with a successor" if "successor" in status else ""
        yield Attempt(
            what,
            OPERATOR,
            state.lease,
            lease,
            "status",
            after,
            partial(promises.of_decision, before, status, state.memory),
            must=True,
        )

    def _handoff_swaps(self, state: State, number: int, replica: Replica) -> Iterator[Attempt]:
        for place, write in enumerate(replica.pending):
            stored = state.handoffs[place]
            if write is None or stored is None:
                continue
            settled = replace(replica, pending=(*replica.pending[:place], None, *replica.pending[place + 1 :]))
            if version_of(stored) != write.version:
                continue  # a conflict: it sees the handoff and decides again, which are steps of their own
            raw = {**raw_of(stored), "status": raw_of(write.handoff)["status"]}
            handoff = written(raw, state)

            def after(state: State, place: int = place, handoff: Object = handoff, settled: Replica = settled) -> State:
                stored = replace(state, handoffs=(*state.handoffs[:place], handoff, *state.handoffs[place + 1 :]))
                return operating.with_replica(stored, number, operating.sees_handoff(stored, settled, place))

            yield Attempt(
                f"operator {number} swaps handoff {place} {_phase(stored)} -> {raw['status']['phase']}",
                OPERATOR,
                stored,
                handoff,
                "status",
                after,
                partial(promises.of_handoff, raw_of(stored), raw, raw_of(state.lease), state.memory),
                must=True,
            )

    def _judge_all(self, attempts: list[Attempt]) -> None:
        asked = {verdict_key(one): one for one in attempts if verdict_key(one) not in self._verdicts}
        writes = [
            Write(raw_of(one.old) if one.old else None, raw_of(one.new), one.speaker, one.subresource)
            for one in asked.values()
        ]
        for key, verdict in zip(asked, self._judge.judge(writes), strict=True):
            self._verdicts[key] = replace(verdict, stored=None)
        self.found.judged = len(self._verdicts)

    def _fail_if(self, wrong: tuple[str, ...], state: State, words: str) -> None:
        if wrong:
            raise Violation(wrong, (*self._path(state), words))

    def _path(self, state: State) -> tuple[str, ...]:
        steps: list[str] = []
        while (parent := self._parents[state]) is not None:
            state, words = parent
            steps.append(words)
        return tuple(reversed(steps))

    def _check(self, state: State) -> None:
        wrong = tuple(promises.of_state(raw_of(state.lease)))
        if wrong:
            raise Violation(wrong, self._path(state))
        alone = (state.lease, state.handoffs, state.memory.heard_seconds_ago, state.memory.top_epoch)
        if alone not in self._rested:
            self._rested.add(alone)
            wrong = tuple(self._left_alone(state))
            if wrong:
                raise Violation(wrong, (*self._path(state), "a new operator is left alone"))

    def _left_alone(self, state: State) -> Iterator[str]:
        """A new operator settles whatever it finds; and when time passes, no tenure or reservation outlives it."""
        slots = (None,) * len(state.handoffs)
        state = replace(state, replicas=(Replica(handoffs=slots, pending=slots),))
        for tick in range(ENDS_WITHIN_TICKS):
            rested = self._rest(state)
            if rested is None:
                yield "the decisions do not come to rest"
                return
            state = rested
            if not tick:
                yield from promises.of_rest(
                    raw_of(state.lease), [raw_of(one) for one in state.handoffs if one is not None]
                )
            state = state.later()
        status = raw_of(state.lease)["status"]
        if status["phase"] in LEASED or "successor" in status:
            yield f"{status['phase']} outlives its time, successor {status.get('successor')}"

    def _rest(self, state: State) -> State | None:
        for _ in range(REST_WITHIN):
            state = self._seen_at_once(state).canonical()
            replica = state.replicas[0]
            decided = operating.decided_lease(self._decisions, state, replica)
            if decided is not None:
                before = raw_of(state.lease)
                granted = grants(before["status"], decided[0])
                memory = remembered(state.memory, before["status"], decided[0], granted=granted)
                state = replace(state, lease=written({**before, "status": decided[0]}, state), memory=memory)
                continue
            prepared = next(
                (
                    (place, done.pending[place])
                    for place in range(len(state.handoffs))
                    if (done := operating.prepares(self._decisions, state, replica, place)) is not None
                ),
                None,
            )
            if prepared is None:
                return state
            place, write = prepared
            assert write is not None
            handoff = written(raw_of(write.handoff), state)
            state = replace(state, handoffs=(*state.handoffs[:place], handoff, *state.handoffs[place + 1 :]))
        return None


def _phase(stored: Object) -> str:
    return handoff_of(stored).status.phase.value
