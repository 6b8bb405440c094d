"""What the operator keeps of handoffs: for each lease what bears on it, however many offers name it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from support.handoffs import accepted, handoff
from support.leases import successor, work_lease
from worklease.api.handoff import Handoff, HandoffPhase
from worklease.api.worklease import Phase
from worklease.controller.clock import WatchClock
from worklease.controller.handoffs import Handoffs
from worklease.controller.metrics import Metrics
from worklease.controller.view import View
from worklease.kube.clock import ServerClock

KEY = "team/item"


@pytest.fixture
def reconsidered() -> list[str]:
    """The leases that were decided on again."""
    return []


@pytest.fixture
def handoffs(reconsidered: list[str]) -> Handoffs:
    view = View()
    nobody = cast(Any, None)
    metrics = Metrics(view)
    clock = WatchClock(ServerClock())
    return Handoffs(nobody, clock, view, metrics, nobody, lambda uid: 1.0, reconsidered.append)


def raw(offer: Handoff, version: int = 7) -> dict[str, Any]:
    manifest = offer.manifest()
    manifest["metadata"]["resourceVersion"] = str(version)
    return manifest


def test_an_offer_without_an_answer_bears_on_no_lease(handoffs: Handoffs) -> None:
    """A thousand of them cost a decision on the lease nothing (nobody stops the operator by making offers)."""
    for number in range(1000):
        handoffs.see(raw(handoff(uid=f"uid-{number}")))
    assert handoffs.of(work_lease(Phase.HELD)) == ()


def test_an_acceptance_bears_on_its_lease(handoffs: Handoffs, reconsidered: list[str]) -> None:
    """It is taken into account, and the lease is decided on again."""
    handoffs.see(raw(accepted(handoff())))
    (known,) = handoffs.of(work_lease(Phase.HELD))
    assert known.metadata.uid == handoff().metadata.uid
    assert reconsidered == [KEY]


def test_the_handoff_behind_a_reservation_bears_on_the_lease_even_as_it_was_before_its_answer(
    handoffs: Handoffs,
) -> None:
    """The watch of handoffs may be behind: what took effect is not taken back for that."""
    offer = handoff()
    handoffs.see(raw(offer))
    held = work_lease(Phase.HELD)
    reservation = {"successor": successor(handoff_uid=offer.metadata.uid)}
    reserved = held.model_copy(update={"status": held.status.model_copy(update=reservation)})
    assert [one.metadata.uid for one in handoffs.of(reserved)] == [offer.metadata.uid]


def test_a_deleted_handoff_has_its_lease_decided_on_again(handoffs: Handoffs, reconsidered: list[str]) -> None:
    """Its reservation may have waited for what it had to say; without it, it ends in time."""
    offer = accepted(handoff())
    handoffs.see(raw(offer))
    reconsidered.clear()
    handoffs.forget(offer.metadata.uid)
    assert reconsidered == [KEY]
    assert handoffs.of(work_lease(Phase.HELD)) == ()


@pytest.mark.parametrize("phase", [HandoffPhase.REJECTED, HandoffPhase.STALE, HandoffPhase.COMPLETED])
def test_a_resolved_handoff_is_forgotten_but_for_its_version(handoffs: Handoffs, phase: HandoffPhase) -> None:
    """An older event of it brings nothing back."""
    handoffs.see(raw(handoff(phase=phase), version=9))
    handoffs.see(raw(accepted(handoff()), version=8))
    assert handoffs.of(work_lease(Phase.HELD)) == ()


def test_of_a_lapsed_handoff_only_the_fact_is_kept(handoffs: Handoffs) -> None:
    """Its message may be long, and is of no more use to a decision."""
    handoffs.see(raw(handoff(phase=HandoffPhase.LAPSED, message="m" * 4096)))
    (known,) = handoffs.of(work_lease(Phase.HELD))
    assert known.spec.message is None
