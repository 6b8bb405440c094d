"""Two operators, two agents and an administrator in any order, with losses: no order breaks what may never happen."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from support.api_model import Lost, Server
from support.leases import ALICE, BOB, at, wall
from worklease.api.statements import (
    Claim,
    Completion,
    Effect,
    EffectState,
    Outcome,
    Release,
    Renewal,
    Revocation,
)
from worklease.api.worklease import FREE, LEASED, Phase, WorkLease, WorkLeaseSpec
from worklease.protocol.decide import Decision, decide
from worklease.protocol.moments import Moment
from worklease.protocol.observation import Observation, last_heard, observe

SKEWS = st.sampled_from([-2.0, 0.0, 2.0])
AGENTS = st.sampled_from([ALICE, BOB])
EPOCHS = st.sampled_from([0, 0, 0, 0, 0, 0, 0, 0, -1, 1])
"""Which epoch a speaker names, beside the current one."""


SEEN_BY = st.sampled_from([0, 0, 0, 1, 1, None])
REPLICAS = st.sampled_from([0, 1])
BACK = st.integers(1, 6)
ATTEMPTED = EffectState.ATTEMPTED


class Replica:
    """One operator: what it has seen of the object, on a clock of its own."""

    def __init__(self, server: Server, clock_offset_seconds: float) -> None:
        self.server = server
        self.clock_offset_seconds = clock_offset_seconds
        self.trusts_server_times = True
        self.restart()

    def restart(self) -> None:
        self.lease: WorkLease | None = None
        self.seen: Observation | None = None

    def moment(self, skew_seconds: float) -> Moment:
        """Now, by a server whose clock is off by so much."""
        true = at(self.server.seconds)
        return Moment(true.clock_seconds + self.clock_offset_seconds, at(self.server.seconds + skew_seconds).wall)

    def look(self, behind: int, skew_seconds: float) -> None:
        """Sees a version that is not older than what it knows, `behind` the newest if it can be."""
        versions, known = self.server.versions, self.lease
        if known is not None and known.metadata.uid != versions[-1].metadata.uid:
            self.restart()
            known = None
        since = 0 if known is None else next(i for i, one in enumerate(versions) if one.metadata == known.metadata)
        lease = versions[max(since, len(versions) - 1 - behind)]
        heard = None
        if self.trusts_server_times and (self.seen is None or self.seen.epoch != lease.status.epoch):
            # The entry's time goes with the newest version: an older one is shown with none, which is the careful case.
            fields = self.server.managed_fields() if lease is versions[-1] else None
            heard = last_heard(lease, fields)
        self.lease, self.seen = lease, observe(self.seen, lease, self.moment(skew_seconds), heard)

    def act(self, *, tested: bool, skew_seconds: float) -> Decision | None:
        """Decides from what it knows, and swaps; forgets nothing when the swap is lost."""
        if self.lease is None:
            return None
        decision = decide(self.lease, self.seen, self.moment(skew_seconds), floor=self.server.floor)
        if decision.status is None:
            return decision
        try:
            self.server.swap(self.lease, decision.status, tested=tested)
        except Lost:
            return decision
        self.look(0, skew_seconds)
        return decision


class Interleavings(RuleBasedStateMachine):
    """The life of one work item. What may never happen is asserted by the server, at every write of status."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.replicas = [Replica(self.server, 0.0), Replica(self.server, 12345.0)]
        self.claims = 0
        self.backups: list[WorkLeaseSpec] = []

    @initialize(jeopardy_seconds=st.sampled_from([0, 30]))
    def create(self, jeopardy_seconds: int) -> None:
        self.server.create(lease_duration_seconds=60, jeopardy_duration_seconds=jeopardy_seconds)

    def epoch(self, beside: int) -> int:
        return max(1, self.server.lease.status.epoch + beside)

    def fresh(self, agent: dict[str, str], beside: int) -> Claim:
        self.claims += 1
        epoch = max(0, self.server.lease.status.epoch + beside)
        return Claim(epoch=epoch, id=f"c{self.claims}", purpose="to work", **agent)

    def seen(self, by: int | None) -> None:
        """A replica sees it and acts on it at once, or none does."""
        if by is not None:
            self.look_and_act(by, 0.0)

    def standing(self) -> bool:
        return self.server.lease.status.phase in LEASED

    @precondition(lambda self: self.server.lease.status.phase in FREE)
    @rule(agent=AGENTS, beside=EPOCHS, by=SEEN_BY)
    def claim(self, agent: dict[str, str], beside: int, by: int | None) -> None:
        self.server.say(claim=self.fresh(agent, beside))
        self.seen(by)

    @precondition(standing)
    @rule(beside=EPOCHS)
    def reclaim(self, beside: int) -> None:
        """Whoever holds wants a fresh epoch."""
        status = self.server.lease.status
        holder = {"holder_identity": str(status.holder_identity), "instance": str(status.instance)}
        self.server.say(claim=self.fresh(holder, beside))

    @precondition(standing)
    @rule(beside=EPOCHS, skew=SKEWS, by=SEEN_BY)
    def renew(self, beside: int, skew: float, by: int | None) -> None:
        renewal = Renewal(epoch=self.epoch(beside), renew_time=wall(self.server.seconds))
        self.server.say(renewal=renewal, server_skew_seconds=skew)
        self.seen(by)

    @precondition(lambda self: self.standing() or self.server.lease.status.phase is Phase.COMPLETED)
    @rule(
        how=st.sampled_from(["release", "release", "revoke", "take over", "complete"]),
        beside=EPOCHS,
        agent=AGENTS,
        by=SEEN_BY,
    )
    def end(self, how: str, beside: int, agent: dict[str, str], by: int | None) -> None:
        epoch = self.epoch(beside)
        if how == "release":
            self.server.say(release=Release(epoch=epoch, reason="enough"))
        elif how == "revoke":
            self.server.say(revocation=Revocation(epoch=epoch, reason="wedged"))
        elif how == "take over":
            self.server.say(revocation=Revocation(epoch=epoch, reason="on call"), claim=self.fresh(agent, beside))
        else:
            self.server.say(completion=Completion(epoch=epoch, outcome=Outcome.SUCCEEDED, message=""))
        self.seen(by)

    @precondition(standing)
    @rule(state=st.sampled_from([None, EffectState.SUCCEEDED, EffectState.UNKNOWN, EffectState.FAILED]))
    def log(self, state: EffectState | None) -> None:
        """An effect is attempted, or the first that is open is reconciled."""
        effects = self.server.lease.spec.effects
        if state is None:
            added = Effect(id=str(len(effects)), epoch=self.epoch(0), recipient="mail", action="send", state=ATTEMPTED)
            self.server.say(effects=(*effects, added))
        elif effects and effects[0].state is ATTEMPTED:
            self.server.say(effects=(effects[0].model_copy(update={"state": state}), *effects[1:]))

    @rule(how=st.sampled_from(["suspend", "resume", "resume", "resume", "prune"]))
    def administrate(self, how: str) -> None:
        """Work is suspended or resumed, or Git takes out what has no force."""
        if how == "prune":
            self.server.say(release=None, revocation=None, completion=None)
        else:
            self.server.say(suspend=how == "suspend")

    @rule(seconds=st.sampled_from([0.5, 5.0, 20.0, 31.0, 61.0]), by=SEEN_BY)
    def wait(self, seconds: float, by: int | None) -> None:
        self.server.seconds += seconds
        self.seen(by)

    @precondition(standing)
    @rule(which=REPLICAS, skew=SKEWS, restarted=st.booleans())
    def wait_until_a_replica_wakes(self, which: int, skew: float, restarted: bool) -> None:
        """It acts at the very time that it gave, by servers whose clocks are off as they may be."""
        replica = self.replicas[which]
        if restarted:
            replica.restart()
        self.look_and_act(which, skew)
        decision = replica.act(tested=False, skew_seconds=skew)
        if decision is not None and decision.wake_at is not None:
            woken_at = decision.wake_at - replica.clock_offset_seconds - at(0).clock_seconds
            self.server.seconds = max(self.server.seconds, woken_at)
        replica.act(tested=False, skew_seconds=skew)

    @rule(which=REPLICAS, behind=st.integers(0, 2), skew=SKEWS)
    def look(self, which: int, behind: int, skew: float) -> None:
        self.replicas[which].look(behind, skew)

    @rule(which=REPLICAS, tested=st.booleans(), skew=SKEWS)
    def act(self, which: int, tested: bool, skew: float) -> None:
        self.replicas[which].act(tested=tested, skew_seconds=skew)

    @rule(which=REPLICAS, skew=SKEWS, hammered=st.booleans())
    def look_and_act(self, which: int, skew: float, hammered: bool = False) -> None:
        """Somebody who writes all the time leaves the replica only the patch that tests what it read."""
        self.replicas[which].look(0, skew)
        if hammered:
            self.server.touch()
        self.replicas[which].act(tested=hammered, skew_seconds=skew)

    @rule(which=REPLICAS)
    def restart(self, which: int) -> None:
        self.replicas[which].restart()

    @precondition(lambda self: len(self.server.versions) > 12)
    @rule(how=st.sampled_from(["back up", "create", "create from a backup", "lose status", "restore"]), back=BACK)
    def lose(self, how: str, back: int) -> None:
        if how == "back up":
            self.backups.append(self.server.lease.spec)
        elif how == "lose status":
            self.server.lose_status()
        elif how == "restore":
            self.server.restore(back)
            for replica in self.replicas:  # renewals are lost with the store: its times say nothing of the holders
                replica.trusts_server_times = False
                replica.restart()
        elif how == "create" or not self.backups:
            self.server.create(lease_duration_seconds=60, jeopardy_duration_seconds=30)
        else:
            self.server.create(**dict(self.backups[-1]))

    def teardown(self) -> None:
        """Left alone, a replica settles everything: no claim waits, no lease outlives its time, nobody is woken."""
        if not self.server.versions:
            return
        replica = self.replicas[0]
        self.settle(replica)
        assert not self.server.lease.claim_pending
        for _ in range(2):
            if self.server.lease.status.phase in LEASED:
                self.server.seconds += 200.0
                self.settle(replica)
        assert self.server.lease.status.phase in FREE | {Phase.COMPLETED}

    def settle(self, replica: Replica) -> None:
        for _ in range(4):
            replica.look(0, 0.0)
            decision = replica.act(tested=False, skew_seconds=0.0)
            if decision is not None and decision.status is None:
                return
        raise AssertionError("the decisions do not come to rest")


Interleavings.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestInterleavings = Interleavings.TestCase
