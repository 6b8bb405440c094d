"""Whatever is sent about either kind, nothing of ours fails: neither a rule, nor the operator, nor a neighbour's lease.

WORKLEASE_FUZZ_WRITES makes it longer, WORKLEASE_FUZZ_SEED plays other choices.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from support.api import MERGE_PATCH
from support.cluster import Cluster
from support.fuzzing import Fuzzer, kinds
from support.operators import Launcher
from support.speaking import Agent, Work
from support.waiting import wait_for
from support.words import fresh
from worklease.api.handoff import Handoff
from worklease.api.worklease import Phase, WorkLease
from worklease.protocol.reasons import ConditionName

SEED = int(os.environ.get("WORKLEASE_FUZZ_SEED", "1"))
WRITES = int(os.environ.get("WORKLEASE_FUZZ_WRITES", "1500"))
WITHIN_SECONDS = 30.0 if "WORKLEASE_FUZZ_WRITES" not in os.environ else 3600.0
"""On a machine that is busy, fewer writes are made."""
ENOUGH_WRITES = 300
NEIGHBOUR_LEASE_SECONDS = 60
RENEWS_EVERY_SECONDS = 0.5
LOOKS_EVERY = 250
SETTLED_WITHIN_SECONDS = 60.0
REPORTED_MAX = 20
COMPLAINTS = ("Traceback", "cannot be read", "settling", "Unclosed")


@dataclass
class Neighbour:
    """An honest agent beside it all: renews throughout, and notes every renewal that was not admitted."""

    work: Work
    agent: Agent
    epoch: int = 0
    renewals: int = 0
    slowest_seconds: float = 0.0
    refusals: list[str] = field(default_factory=list)
    _enough: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Neighbour:
        self.epoch = self.work.hold(self.agent)
        self._thread = threading.Thread(target=self._renew, name="neighbour")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._enough.wait(RENEWS_EVERY_SECONDS):
            started = time.monotonic()
            answer = self.work.renew(self.agent, self.epoch)
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
            self.renewals += 1
            if not answer.ok:
                self.refusals.append(f"{answer.status} {answer.message}")


def test_nothing_of_ours_fails_whatever_is_sent(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """No 5xx, no exception in the operator, every object readable and decided; a neighbour's lease is renewed
    throughout, and new work beside it is granted as ever (cases 26, 33).
    """
    agent, creator, admin = (
        cluster.service_account(namespace, name, f"worklease-{name}") for name in ("agent", "agent-creator", "admin")
    )
    bound = cluster.pod_identity(namespace, "bound", "bound-0", "worklease-agent-creator")
    choice = random.Random(SEED)
    fuzzer = Fuzzer(choice, kinds(namespace), (agent, creator, admin, bound, cluster.admin), cluster.admin)
    launcher = Launcher(cluster, tmp_path)
    started, made, grants_seconds = time.monotonic(), 0, []
    honest = Agent.of(cluster.service_account(namespace, "honest", "worklease-agent"))
    neighbour = Neighbour(Work.create(cluster, namespace, lease_seconds=NEIGHBOUR_LEASE_SECONDS), honest)
    try:
        operator = launcher.start(namespace, "--log-format=json").ready()
        with neighbour:
            while made < WRITES and time.monotonic() < started + WITHIN_SECONDS:
                fuzzer.write()
                made += 1
                if made % LOOKS_EVERY == 0:
                    grants_seconds.append(_granted_within(cluster, namespace, honest))
                    assert operator.process.poll() is None, operator.log
        _settled(cluster, namespace)
        complaints = [line for line in operator.log.splitlines() if any(word in line for word in COMPLAINTS)]
    finally:
        launcher.stop()
        _let_go(cluster, namespace)
    seconds = time.monotonic() - started
    statuses = {code: sum(n for key, n in fuzzer.answers.items() if key.endswith(code)) for code in _codes(fuzzer)}
    print(
        f"seed {SEED}: {made} writes in {seconds:.0f} s, answers {statuses}; {neighbour.renewals} renewals of a "
        f"neighbour, slowest {neighbour.slowest_seconds:.2f} s; new work granted within "
        f"{max(grants_seconds, default=0):.2f} s; by way: {json.dumps(fuzzer.answers, sort_keys=True)}"
    )
    assert not fuzzer.wrong, f"seed {SEED}: {fuzzer.wrong[:REPORTED_MAX]}"
    assert not complaints, complaints[:REPORTED_MAX]
    assert made >= ENOUGH_WRITES
    assert neighbour.renewals
    assert not neighbour.refusals
    status = neighbour.work.status
    assert (status["phase"], status["epoch"]) == (Phase.HELD, neighbour.epoch)
    for way in ("creates 201", "merges 200", "patches 200", "applies 200", "puts 200"):
        assert fuzzer.answers[way], f"no write was admitted: {way}"


def _codes(fuzzer: Fuzzer) -> list[str]:
    return sorted({key.rsplit(" ", 1)[1] for key in fuzzer.answers})


def _granted_within(cluster: Cluster, namespace: str, agent: Agent) -> float:
    """How long new work waits for its grant."""
    work = Work.create(cluster, namespace, f"n-{fresh()}")
    started = time.monotonic()
    epoch = work.hold(agent)
    waited = time.monotonic() - started
    work.release(agent, epoch).must()
    cluster.api.delete(work.path)
    return waited


def _let_go(cluster: Cluster, namespace: str) -> None:
    """Takes out the finalizers that somebody may have written: nobody else would."""
    for kind in kinds(namespace):
        for raw in cluster.api.get(kind.collection).must()["items"]:
            if raw["metadata"].get("finalizers"):
                path = f"{kind.collection}/{raw['metadata']['name']}"
                cluster.api.patch(path, {"metadata": {"finalizers": None}}, MERGE_PATCH)


def _settled(cluster: Cluster, namespace: str) -> None:
    """Every object that is left can be read by the models, and no claim waits for a decision; where one mentions an
    epoch that the store has not reached, the operator says so in condition Stalled.
    """
    leases, handoffs = kinds(namespace)
    for raw in cluster.api.get(handoffs.collection).must()["items"]:
        Handoff.model_validate(raw)

    waiting: list[WorkLease] = []

    def decided() -> bool:
        found = [WorkLease.model_validate(raw) for raw in cluster.api.get(leases.collection).must()["items"]]
        waiting[:] = [one for one in found if one.claim_pending and not _excused(one)]
        return not waiting

    try:
        wait_for(decided, "every claim to be decided", SETTLED_WITHIN_SECONDS)
    except AssertionError as error:
        raise AssertionError(f"claims are left undecided: {waiting[:REPORTED_MAX]}") from error


def _excused(lease: WorkLease) -> bool:
    stalled = any(one.type == ConditionName.STALLED and one.status == "True" for one in lease.status.conditions)
    return stalled or lease.metadata.deletion_timestamp is not None
