"""What the rules of the CRD cost a renewal, beside a copy of the CRD that has none: printed, never judged."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from support.cluster import Cluster
from support.definitions import installed
from support.refusals import CHECKS
from support.refusals.states import held
from support.statements import ALICE, Scene, renews, unguarded
from worklease.api.crd import worklease_crd

ROUNDS, RENEWALS = 9, 10


def renewing(scene: Scene) -> Callable[[], float]:
    """A held work item of this scene, and the milliseconds that a renewal of it takes: the median of a few."""
    work = scene.work()
    held(work)

    def milliseconds() -> float:
        taken = []
        for _ in range(RENEWALS):
            began = time.perf_counter()
            renews()(work, ALICE).must()
            taken.append((time.perf_counter() - began) * 1000)
        return statistics.median(taken)

    return milliseconds


def test_renewal_is_admitted_with_and_without_rules_and_the_ratio_is_printed(cluster: Cluster, namespace: str) -> None:
    """A CRD without any check admits what the real one admits; both are timed in turns on the same server."""
    groups = [f"z-{name}-{namespace}.mutants.worklease.dev" for name in ("ruled", "unruled")]
    ruled, unruled = (
        worklease_crd(without=without, group=group) for without, group in zip(((), CHECKS), groups, strict=True)
    )
    assert "x-kubernetes-validations" not in str(unruled)
    with installed(cluster, ruled), installed(cluster, unruled):
        with_rules, without = (renewing(unguarded(cluster, namespace, group)) for group in groups)
        pairs = [(with_rules(), without()) for _ in range(ROUNDS)]
    p50, p50_unruled = (statistics.median(one) for one in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for one, other in pairs)
    print(f"renewal p50: {p50:.2f} ms with the rules, {p50_unruled:.2f} ms without, ratio {ratio:.2f}")
