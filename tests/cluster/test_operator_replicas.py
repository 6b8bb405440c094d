"""Several operators at once decide everything exactly once: the swap is the safety, not who is in charge."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import urllib3

from support.api import WORKLEASES
from support.cluster import Cluster, Identity
from support.crashing import Nursery
from support.speaking import Agent, Work
from support.waiting import pass_time, wait_for

LIVES_AT_A_TIME = 100
ENDED_WITHIN_SECONDS = 150.0
RENEWALS = 4
RENEWED_EVERY_SECONDS = 6.0

Transition = tuple[str, int]


class Watched:
    """Every phase that the objects of a namespace go through, by name, as the API server's own watch tells it.

    Waiting for a grant here costs the API server nothing, unlike asking it again and again.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.transitions: dict[str, list[Transition]] = {}
        self._statuses: dict[str, dict[str, Any]] = {}
        path = WORKLEASES.format(namespace)
        self._version = cluster.api.get(path).must()["metadata"]["resourceVersion"]
        self._url = f"{cluster.server}{path}?watch=true"
        self._headers = {"Authorization": f"Bearer {cluster.api.token}"}
        self._pool = urllib3.PoolManager(ca_certs=str(cluster.ca_file), retries=False)
        threading.Thread(target=self._keep_reading, name="watch", daemon=True).start()

    def _keep_reading(self) -> None:
        while True:  # the server closes the watch of a reader that is too slow, and every watch in its own time
            url = f"{self._url}&resourceVersion={self._version}"
            try:
                for line in self._pool.request("GET", url, headers=self._headers, preload_content=False):
                    self._see(json.loads(line)["object"])
            except urllib3.exceptions.ProtocolError:
                continue
            except urllib3.exceptions.HTTPError:
                return  # the server is gone

    def _see(self, raw: dict[str, Any]) -> None:
        self._version = raw["metadata"]["resourceVersion"]
        self._statuses[raw["metadata"]["name"]] = raw["status"]
        transition = (raw["status"]["phase"], raw["status"]["epoch"])
        known = self.transitions.setdefault(raw["metadata"]["name"], [])
        if not known or known[-1] != transition:
            known.append(transition)

    def granted(self, work: Work, claim_id: str) -> int:
        """Waits for the grant of this claim; returns its epoch."""

        def there() -> int:
            status = self._statuses.get(work.name, {})
            return int(status["epoch"]) if status.get("claimID") == claim_id else 0

        return wait_for(there, f"the grant of {work.name}", ENDED_WITHIN_SECONDS)

    def all_are(self, phases: set[str]) -> bool:
        """Whether every object is in one of these phases."""
        return {status["phase"] for status in list(self._statuses.values())} <= phases

    def phases(self, work: Work) -> str:
        """The phases of one object in order, each followed by a space; that of its creation is left out."""
        return "".join(f"{phase} " for phase, _ in self.transitions[work.name][1:])


Telling = Callable[[Work, Agent, int, Watched], None]


class Fate:
    """What is said about a lease, and what must come of it."""

    def __init__(self, lease_seconds: int, tenures: list[tuple[str, str]], phases: str, tell: Telling) -> None:
        self.lease_seconds = lease_seconds
        self.tenures = tenures
        self.phases = phases
        self.tell = tell


def lapses(work: Work, agent: Agent, epoch: int, watched: Watched) -> None:
    """Its holder is never heard of again."""


def is_renewed(work: Work, agent: Agent, epoch: int, watched: Watched) -> None:
    """Its holder renews for longer than a lease lasts, and gives it back."""
    for _ in range(RENEWALS):
        work.renew(agent, epoch).must()
        pass_time(RENEWED_EVERY_SECONDS)
    work.release(agent, epoch).must()


def is_taken_over(work: Work, agent: Agent, epoch: int, watched: Watched) -> None:
    """It is taken over, and its new holder is never heard of again."""
    watched.granted(work, work.take_over(agent.sibling(), epoch))


def is_completed(work: Work, agent: Agent, epoch: int, watched: Watched) -> None:
    """It is renewed once and completed."""
    work.renew(agent, epoch).must()
    work.complete(agent, epoch).must()


def is_handed_back(work: Work, agent: Agent, epoch: int, watched: Watched) -> None:
    """It is released, and somebody else claims it in the same breath, and completes it."""
    other = agent.sibling()
    claim = other.claim(epoch)
    work.release(agent, epoch).must()
    work.say(other, claim=claim).must()
    work.complete(other, watched.granted(work, claim["id"])).must()


LAPSE = "(Jeopardy )?Expired "
FATES = [
    Fate(10, [("FirstGrant", "Expired")], f"Held {LAPSE}", lapses),
    Fate(20, [("FirstGrant", "Released")], "Held Released ", is_renewed),
    Fate(20, [("FirstGrant", "Revoked"), ("AfterRevocation", "Expired")], f"Held Held {LAPSE}", is_taken_over),
    Fate(60, [("FirstGrant", "Completed")], "Held Completed ", is_completed),
    Fate(
        60,
        [("FirstGrant", "Released"), ("AfterRelease", "Completed")],
        "Held (Released )?Held Completed ",
        is_handed_back,
    ),
]
"""Who says something after the grant has a longer lease: writers on a busy machine are slow. An operator that is late
may miss a short jeopardy, or see a release and the claim that follows it at once."""


@pytest.mark.parametrize(
    ("leases", "operators"),
    [
        (500, ["--replicas=2 --ordinal=0", "--replicas=2 --ordinal=1"]),
        (60, ["--replicas=2 --ordinal=0"]),
        (100, ["--replicas=1 --ordinal=0", "--replicas=1 --ordinal=0"]),
    ],
    ids=["two replicas", "one of two is dead", "two that both believe to be the only one"],
)
def test_every_transition_happens_once(
    leases: int,
    operators: list[str],
    cluster: Cluster,
    namespace: str,
    service_account: Callable[..., Identity],
    nursery: Nursery,
) -> None:
    """Leases claimed, renewed, lapsing, taken over and completed: each transition once, by the objects themselves."""
    identity = service_account(namespace, "agent", "worklease-agent-creator")
    started = [nursery.start(namespace, *flags.split()) for flags in operators]
    watched = Watched(cluster, namespace)

    def live(number: int) -> tuple[Work, Fate]:
        fate, agent = FATES[number % len(FATES)], Agent.of(identity)
        jeopardy = number % 3
        claim = agent.claim(0)
        work = Work.create(
            cluster,
            namespace,
            lease_seconds=fate.lease_seconds,
            jeopardy_seconds=jeopardy,
            by=identity,
            claim=claim,
        )
        fate.tell(work, agent, watched.granted(work, claim["id"]), watched)
        return work, fate

    with ThreadPoolExecutor(LIVES_AT_A_TIME) as pool:
        lives = list(pool.map(live, range(leases)))

    ended = {"Expired", "Released", "Completed"}
    wait_for(lambda: watched.all_are(ended), "every tenure to end", ENDED_WITHIN_SECONDS)
    items = {item["metadata"]["name"]: item for item in cluster.api.get(WORKLEASES.format(namespace)).must()["items"]}
    for work, fate in lives:
        status = items[work.name]["status"]
        history = status["history"]
        assert [(tenure["grantReason"], tenure["endReason"]) for tenure in history] == fate.tenures, status
        assert re.fullmatch(fate.phases, watched.phases(work)), watched.transitions[work.name]
        assert status["leaseTransitions"] == len(history)
        epochs = [tenure["epoch"] for tenure in history]
        assert epochs == sorted(set(epochs))
    grants = sum(len(fate.tenures) for _, fate in lives)
    # An Event may be dropped when the API server is busy, but nobody else records it once more.
    assert 0 < events_by_reason(cluster, namespace)["Granted"] <= grants
    for operator in started:
        assert operator.is_alive()
        assert "Traceback" not in operator.log
        assert " ERROR " not in operator.log


def events_by_reason(cluster: Cluster, namespace: str) -> Counter[str]:
    """How often each reason has occurred."""
    counted: Counter[str] = Counter()
    for event in cluster.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").must()["items"]:
        counted[event["reason"]] += (event.get("series") or {}).get("count", 1)
    return counted
