"""The kinds of lock that are compared, each with its terms, and how a process that holds such locks is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from peers import HERE, ensure
from peers.ours import JEOPARDY_SECONDS, LEASE_SECONDS
from peers.party import Party


@dataclass(frozen=True)
class Way:
    """How a process gets to the servers, and as whom."""

    kubeconfig: Path
    context: str
    namespace: str
    etcd: str


@dataclass(frozen=True)
class Kind:
    """A kind of lock under certain terms; `expires_seconds` after its last renewal anybody may have it.

    `watches`: who waits is told when the lock is free, rather than asks from time to time.
    `processes`: how many share the locks to be lost; a client that renews all of its own in step is one trial.
    """

    name: str
    terms: str
    expires_seconds: float
    command: Callable[[Way], list[str]]
    watches: bool = False
    processes: int = 1

    async def party(self, way: Way) -> Party:
        """A process that holds locks of this kind."""
        return await Party.start(self.command(way), {**os.environ, "PYTHONPATH": str(HERE.parent)})


def _ours(way: Way) -> list[str]:
    return [sys.executable, "-m", "peers.ours", str(way.kubeconfig), way.context, way.namespace]


def _client_go(lease: str, deadline: str, retry: str, timeout: str = "0") -> Callable[[Way], list[str]]:
    terms = [f"--lease={lease}", f"--renew-deadline={deadline}", f"--retry={retry}", f"--timeout={timeout}"]

    def command(way: Way) -> list[str]:
        where = [f"--kubeconfig={way.kubeconfig}", f"--context={way.context}", f"--namespace={way.namespace}"]
        return [str(ensure()), "--kind=client-go", *where, *terms]

    return command


def _etcd(ttl_seconds: int) -> Callable[[Way], list[str]]:
    return lambda way: [str(ensure()), "--kind=etcd", f"--endpoint={way.etcd}", f"--ttl={ttl_seconds}"]


OURS = Kind(
    "worklease",
    f"{LEASE_SECONDS} s + {JEOPARDY_SECONDS} s jeopardy, the smallest; default 600 s + 30 s",
    LEASE_SECONDS + JEOPARDY_SECONDS,
    _ours,
    watches=True,
)
CLIENT_GO = Kind(
    "client-go",
    "15 s, renewed within 10 s, retry 2 s: its default; the smallest is 1 s",
    15.0,
    _client_go("15s", "10s", "2s"),
)
IMPATIENT = Kind("client-go, requests end after 5 s", "15 s, 10 s, 2 s", 15.0, _client_go("15s", "10s", "2s", "5s"))
"""As controller-runtime and kube-controller-manager have it: half the renew deadline."""
BRIEF = Kind(
    "client-go, brief",
    "3 s, renewed within 2 s, retry 0.5 s",
    3.0,
    _client_go("3s", "2s", "500ms"),
)
ETCD = Kind("etcd mutex", "TTL 10 s; the smallest is 2 s, default 60 s", 10.0, _etcd(10), watches=True, processes=8)
