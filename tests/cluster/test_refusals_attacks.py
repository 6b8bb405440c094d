"""What agents have tried against the work of others, and what stops them while no operator runs."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster import Cluster
from support.refusals.states import (
    attempted,
    available,
    being_handed_over,
    completed,
    ended,
    granted,
    held,
    held_again_after,
    reclaiming,
    reserved,
    then,
)
from support.statements import (
    ADMIN,
    ALICE,
    BOB,
    OPERATOR,
    Scene,
    Work,
    checkpoints,
    claim,
    claims,
    completes,
    configures,
    creates,
    decides,
    drops,
    logs,
    moves,
    releases,
    removes,
    renews,
    revokes,
    states,
)
from support.words import adds, effect, handoff_manifest, work_manifest
from worklease.api.fields import EFFECTS_MAX
from worklease.api.group import API_VERSION

TENURES = 17
HUGE = "\u0001" * 256 * 1024
TAKES_OVER = revokes() & claims()


def others_can_act(work: Work, holder: str = ALICE) -> None:
    """The holder, the operator and an administrator still write."""
    renews()(work, holder).must()
    decides(phase="Jeopardy")(work, OPERATOR).must()
    TAKES_OVER(work, ADMIN).must()


def test_claim_of_the_first_epoch_is_refused_after_many_tenures(work: Work) -> None:
    """A claim that is applied again when the history has forgotten it, or that names no epoch, takes nothing back."""
    available(work)
    first = claim(work, ALICE, 0, id="first")
    work.say(ALICE, claim=first).must()
    work.grant()
    for tenure in range(TENURES):
        then(ended("Expired"), (ALICE if tenure % 2 else BOB, claims()), granted)(work)
    then(ended("Expired"))(work)
    again = work.say(ALICE, claim=first)
    assert (again.status, "the work has moved on" in again.message) == (422, True)
    del first["epoch"]
    timeless = work.say(ALICE, claim=first)
    assert (timeless.status, "spec.claim.epoch: Required value" in timeless.message) == (422, True)


def test_claim_of_a_backup_takes_nothing_back(scene: Scene, work: Work) -> None:
    """The claim of restored work is of an epoch that the new object has not had: it is not pending."""
    restored = creates(claim=lambda work, who: claim(work, who, 5, id="before"))
    restored(work, ADMIN).must()
    assert work.read()["status"] == {"phase": "Available", "epoch": 0}
    claims()(work, BOB).must()
    work.grant()
    again = states("claim", lambda work, who: claim(work, ALICE, 5, id="before"))(work, ALICE)
    assert (again.status, "work is leased" in again.message) == (422, True)


def test_agent_restores_no_history_of_its_own(scene: Scene, work: Work, cluster: Cluster) -> None:
    """Who may create but not configure brings neither a later epoch nor a holder's statement with it."""
    creator = cluster.service_account(scene.namespace, "maker", "worklease-agent-creator")
    for said in (
        {"completion": {"epoch": 7, "outcome": "Succeeded", "message": ""}},
        {"effects": [effect(7)]},
        {"renewal": {"epoch": 7, "renewTime": "2026-11-30T17:54:30Z"}},
    ):
        answer = creator.api.create(scene.collection, work_manifest(work.name, **said))
        assert (answer.status, "has no history" in answer.message) == (403, True)


def test_lease_is_not_shortened_under_its_holder(work: Work) -> None:
    """Other durations count from the next grant: what is said of the running lease is what was granted."""
    then(held, (ALICE, renews(renewTime="2026-11-30T17:54:30Z")))(work)
    assert configures(leaseDurationSeconds=10)(work, BOB).status == 403
    before = claims()(work, BOB).message
    configures(leaseDurationSeconds=10, jeopardyDurationSeconds=0)(work, ADMIN).must()
    assert claims()(work, BOB).message == before


def test_effect_is_not_slipped_in_beside_the_end_of_the_tenure(work: Work) -> None:
    """One write that releases, completes or revokes logs no new effect."""
    held(work)
    for ends, who in ((releases(), ALICE), (completes(), ALICE), (revokes(), ADMIN)):
        for both in (ends & logs(), logs() & ends):
            answer = both(work, who)
            assert (answer.status, "a new effect needs a lease that is held" in answer.message) == (422, True)
    assert work.read()["spec"]["effects"] == []


def test_last_holder_does_not_erase_what_it_left(work: Work) -> None:
    """After its tenure an agent removes neither checkpoint nor effect, nor the revocation that ended it."""
    state = then(held, (ALICE, logs("e1")), (ALICE, checkpoints("sha256:1")), (ADMIN, revokes()), ended("Revoked"))
    held_again_after(state, BOB)(work)
    for erases in (removes("checkpoint"), drops("e1"), removes("effects"), removes("revocation"), removes("claim")):
        assert not erases(work, ALICE).ok
    spec = work.read()["spec"]
    assert (spec["checkpoint"]["digest"], len(spec["effects"])) == ("sha256:1", 1)


def test_full_list_of_effects_does_not_block_the_work(work: Work) -> None:
    """A holder that fills the list reconciles, claims again and drops; the next holder can do the same for it."""
    held(work)
    states("effects", lambda work, who: [effect(work.epoch, f"e{n}") for n in range(EFFECTS_MAX)])(work, ALICE).must()
    assert "Too many" in logs("one-more")(work, ALICE).message
    then(ended("Expired"), (BOB, claims()), granted)(work)
    reconciled = states("effects", lambda work, who: [effect(work.past, f"e{n}", "Failed") for n in range(EFFECTS_MAX)])
    reconciled(work, BOB).must()
    (drops("e0") & logs("mine"))(work, BOB).must()
    others_can_act(work, BOB)


@pytest.mark.parametrize("field", ["id", "holderIdentity", "instance", "purpose"])
def test_claim_does_not_fill_the_object(field: str, work: Work) -> None:
    """256 KiB of control characters, which are six times as long in the store, do not get there."""
    held(work)
    changes: dict[str, Any] = {field: HUGE}
    answer = claims(**changes)(work, ALICE)
    assert answer.status == 422
    assert len(answer.message) < 2048
    others_can_act(work)


def test_answer_to_a_handoff_does_not_fill_the_object(scene: Scene) -> None:
    """Nor do they get there as the reason of a response."""
    path = f"/apis/{API_VERSION}/namespaces/{scene.namespace}/handoffs"
    body = handoff_manifest("huge", to={"holderIdentity": scene.voices[ALICE].username})
    scene.voices[ADMIN].api.create(path, body).must()
    response = {"decision": "Rejected", "reason": HUGE}
    answer = scene.voices[ALICE].api.patch(f"{path}/huge", adds(response=response))
    assert (answer.status, "spec.response.reason" in answer.message) == (422, True)


def test_largest_statements_leave_room_for_the_operator_and_administrators(work: Work) -> None:
    """Every statement at its largest, and the effects full: a takeover and the operator's status still fit."""
    held(work)
    wide = "\u00e9" * 1024
    fills = (
        claims(id="i" * 64, purpose=wide),
        states("effects", lambda work, who: [largest_effect(work.epoch, f"e{n}") for n in range(EFFECTS_MAX)]),
        checkpoints("d" * 128),
    )
    for fill in fills:
        fill(work, ALICE).must()
    others_can_act(work)
    tenures = [{"epoch": work.epoch, "purpose": wide, "endMessage": wide, "grantMessage": wide} for _ in range(16)]
    decides(history=tenures)(work, OPERATOR).must()


def largest_effect(epoch: int, name: str) -> dict[str, object]:
    """An effect that takes as much room as one may."""
    return effect(epoch, name, recipient="r" * 253, action="a" * 253, digest="d" * 128, detail="\u00e9" * 1024)


def test_reserved_work_is_never_out_of_an_administrators_reach(work: Work) -> None:
    """Released work that is reserved for a day is revoked and claimed in one write."""
    reserved(work)
    TAKES_OVER(work, ADMIN).must()


def test_parked_claim_does_not_stand_against_a_takeover(work: Work) -> None:
    """A re-claim that is always pending keeps nobody with the right to take over from doing so."""
    reclaiming(work)
    assert "being decided" in claims()(work, ALICE).message
    TAKES_OVER(work, ADMIN).must()
    work.grant()
    assert work.read()["status"]["holderIdentity"] == work.username(ADMIN)


def test_pending_claim_is_not_rewritten_by_another(work: Work) -> None:
    """Bob does not make alice's pending claim his own under its id."""
    then(available, (ALICE, claims(id="parked")))(work)
    stolen = states("claim", lambda work, who: claim(work, BOB, 0, id="parked"))(work, BOB)
    assert (stolen.status, "a claim is not edited" in stolen.message) == (422, True)


def test_completed_work_is_not_claimed_for_later(work: Work) -> None:
    """Who completes does not claim again in the same write or after it, for the day when the work is reopened."""
    held(work)
    for both in (completes() & claims(), claims() & completes()):
        answer = both(work, ALICE)
        assert (answer.status, "work is leased" in answer.message) == (422, True)
    completes()(work, ALICE).must()
    assert "work is leased" in claims()(work, ALICE).message
    then(ended("Completed"))(work)
    assert "work is complete" in claims()(work, ALICE).message


def test_sender_of_a_handoff_does_not_act_on(work: Work) -> None:
    """Once an accepted handoff has taken effect the sender renews, and neither acts, completes nor claims again."""
    being_handed_over(work)
    renews()(work, ALICE).must()
    for does, words in (
        (logs(), "being handed over"),
        (completes(), "being handed over"),
        (claims(), "reserved for the target"),
    ):
        answer = does(work, ALICE)
        assert (answer.status, words in answer.message) == (422, True)


def test_zombie_is_refused_in_everything(work: Work) -> None:
    """A holder that was away says nothing about its past epoch that is admitted (cases 1, 15, 37)."""
    held_again_after(then(attempted, ended("Expired")), BOB)(work)
    stored = work.read()
    speaks = (
        renews(lambda work: work.past),
        checkpoints(epoch=lambda work: work.past),
        logs("late", epoch=lambda work: work.past),
        moves("e1", "Succeeded"),
        releases(lambda work: work.past),
        completes(lambda work: work.past),
        claims(lambda work: work.past),
        revokes(),
    )
    assert not [saying for saying in speaks if saying(work, ALICE).ok]
    assert work.read() == stored


def test_work_is_not_reopened_by_who_completed_it(work: Work) -> None:
    """The completion of an epoch stands until an administrator revokes it, and then the epoch is over."""
    completed(work)
    assert not removes("completion")(work, ALICE).ok
    assert not removes("completion")(work, ADMIN).ok
    revokes()(work, ADMIN).must()
    assert not renews()(work, ALICE).ok
    assert not removes("revocation")(work, ADMIN).ok
