"""The races of a handoff on a real API server: whoever is faster, both objects say the same, nothing is ownerless."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.api import Answer
from support.offering import WITHIN_SECONDS, Offer, Team
from support.speaking import SHORTEST_LEASE_SECONDS, Work
from support.waiting import wait_for

ROUNDS = 6
FINAL = ("Rejected", "Withdrawn", "Expired", "Stale", "Completed", "Lapsed")


def at_once(*acts: Callable[[], Answer]) -> list[Answer]:
    """All of them side by side."""
    with ThreadPoolExecutor(len(acts)) as pool:
        return [future.result() for future in [pool.submit(act) for act in acts]]


def offers(team: Team, rounds: int = ROUNDS, **spec: Any) -> list[tuple[Work, int, Offer]]:
    """Held work items, each with an offer to Bob that the operator has seen."""
    made = []
    for _ in range(rounds):
        work, epoch = team.held()
        made.append((work, epoch, Offer.make(work, team.alice, team.bob, **spec)))
    for _, _, offer in made:
        offer.seen()
    return made


def test_accept_against_withdraw(team: Team) -> None:
    """The API server picks one: exactly one answer is admitted, and what becomes of the work follows from it."""
    for work, _, offer in offers(team):
        accepted, withdrawn = at_once(
            lambda offer=offer: offer.respond(team.bob, "Accepted"),  # type: ignore[misc]
            lambda offer=offer: offer.respond(team.alice, "Withdrawn", "I go on"),  # type: ignore[misc]
        )
        assert [accepted.ok, withdrawn.ok].count(True) == 1
        loser = withdrawn if accepted.ok else accepted
        assert loser.status in (409, 422)
        assert "answered once" in loser.message or "no longer pending" in loser.message or loser.status == 409
        offer.reaches("Accepted" if accepted.ok else "Withdrawn")
        assert ("successor" in work.status) == accepted.ok


def test_accept_against_expiry_of_the_lease(team: Team) -> None:
    """Before, at and after the moment when the sender's lease expires an acceptance takes effect: the epoch stands."""
    pairs = []
    for _ in range(ROUNDS):
        work, _ = team.held(lease_seconds=SHORTEST_LEASE_SECONDS)
        pairs.append((work, Offer.make(work, team.alice, team.bob)))

    def accept(number: int) -> None:
        work, offer = pairs[number]
        if number % 2:
            wait_for(lambda: work.status["phase"] == "Expired", "the expiry", WITHIN_SECONDS)
        else:
            granted_at = str(work.status["acquireTime"])
            due = time.time() + SHORTEST_LEASE_SECONDS - _age(granted_at)
            wait_for(lambda: time.time() >= due - 0.05 + number * 0.02, "the moment", WITHIN_SECONDS)
        offer.respond(team.bob, "Accepted").must()

    with ThreadPoolExecutor(ROUNDS) as pool:
        list(pool.map(accept, range(ROUNDS)))
    for work, offer in pairs:
        offer.reaches("Accepted")
        work.reaches("Expired", within_seconds=WITHIN_SECONDS)
        epoch = work.hold(team.bob)
        assert offer.reaches("Completed")["grantedEpoch"] == epoch
        assert work.status["grantReason"] == "Handoff"


def _age(acquire_time: str) -> float:
    return time.time() - time.mktime(time.strptime(acquire_time[:19], "%Y-%m-%dT%H:%M:%S")) + time.timezone


def test_accept_while_an_administrator_takes_over(team: Team) -> None:
    """The takeover wins: the administrator holds, nothing stays reserved, and the handoff is Stale."""
    for work, epoch, offer in offers(team):
        claim = team.carol.claim(epoch)
        revocation = {"epoch": epoch, "reason": "on call"}
        accepted, taken = at_once(
            lambda offer=offer: offer.respond(team.bob, "Accepted"),  # type: ignore[misc]
            lambda work=work, r=revocation, c=claim: work.say(work.cluster.admin, revocation=r, claim=c),  # type: ignore[misc]
        )
        taken.must()
        higher = work.granted(claim["id"])
        status = offer.reaches("Stale")
        assert accepted.ok or accepted.status in (409, 422)
        assert higher > epoch
        final = work.status
        assert (final["grantReason"], final["holderIdentity"]) == (
            "AfterRevocation",
            team.carol.identity.username,
        )
        assert "successor" not in final
        assert "grantedEpoch" not in status


def test_the_targets_claim_against_claim_within_seconds(team: Team) -> None:
    """Case 24: a claim in time is a grant, one too late is refused and the sender goes on; the handoff tells which."""
    made = offers(team, claimWithinSeconds=1)
    for work, _, offer in made:
        offer.respond(team.bob, "Accepted").must()
        wait_for(lambda work=work: work.status.get("successor"), "the reservation", WITHIN_SECONDS)  # type: ignore[misc]

    def claim(number: int) -> tuple[bool, str]:
        work, epoch, _ = made[number]
        wait_for(
            lambda: (s := work.status).get("successor") is None or _left(s) < 0.03 * number,
            "the moment",
            WITHIN_SECONDS,
        )
        stated = team.bob.claim(epoch)
        return work.say(team.bob, claim=stated).ok, stated["id"]

    with ThreadPoolExecutor(len(made)) as pool:
        claimed = list(pool.map(claim, range(len(made))))
    for (work, epoch, offer), (admitted, claim_id) in zip(made, claimed, strict=True):
        phase = offer.reaches("Completed", "Lapsed")["phase"]
        status = work.status
        assert "successor" not in status
        if phase == "Completed":
            assert admitted
            assert (status["claimID"], status["holderIdentity"]) == (claim_id, team.bob.identity.username)
        else:
            assert (status["epoch"], status["holderIdentity"]) == (epoch, team.alice.identity.username)
            assert not admitted or status["observedClaimID"] == claim_id
            work.renew(team.alice, epoch).must()


def _left(status: dict[str, Any]) -> float:
    return -_age(status["successor"]["until"]) if "successor" in status else 0.0


def test_two_offers_of_one_epoch(team: Team) -> None:
    """The first acceptance to take effect makes the other Stale, with the reason; there is never a second one."""
    for work, _, first in offers(team):
        second = Offer.make(work, team.alice, team.carol)
        second.seen()
        answers = at_once(
            lambda offer=first: offer.respond(team.bob, "Accepted"),  # type: ignore[misc]
            lambda offer=second: offer.respond(team.carol, "Accepted"),  # type: ignore[misc]
        )
        phases = {offer.name: offer.reaches("Accepted", "Stale")["phase"] for offer in (first, second)}
        assert sorted(phases.values()) == ["Accepted", "Stale"]
        chosen, other = (first, second) if phases[first.name] == "Accepted" else (second, first)
        assert answers[0 if chosen is first else 1].ok
        assert work.status["successor"]["handoff"] == chosen.name
        assert other.message.startswith("AnotherAccepted: ")


def test_the_sender_releases_after_the_acceptance(team: Team) -> None:
    """It may leave early; the work stays reserved, nobody else gets it, and the target is granted it by the handoff."""
    work, epoch = team.held()
    offer = Offer.make(work, team.alice, team.bob)
    offer.accept(team.bob)
    work.release(team.alice, epoch).must()
    status = work.reaches("Released", within_seconds=WITHIN_SECONDS)
    assert status["successor"]["holderIdentity"] == team.bob.identity.username
    assert work.condition("Claimable") == "False/Reserved"
    assert "reserved for the target" in work.say(team.carol, claim=team.carol.claim(epoch)).message
    assert work.hold(team.bob) == offer.reaches("Completed")["grantedEpoch"]


def test_the_sender_does_nothing_final_after_the_acceptance(team: Team) -> None:
    """No completion, no new claim, no new effect; what was begun is moved on, and renewals go on until the grant."""
    work, epoch = team.held()
    effect = {"id": "e1", "epoch": epoch, "recipient": "mail", "action": "send", "state": "Attempted"}
    work.say(team.alice, **{"effects/-": effect}).must()
    offer = Offer.make(work, team.alice, team.bob)
    offer.accept(team.bob)
    refused = work.say(team.alice, **{"effects/-": {**effect, "id": "e2"}})
    assert (refused.status, "being handed over" in refused.message) == (422, True)
    work.say(team.alice, **{"effects/0/state": "Succeeded"}).must()
    completed = work.complete(team.alice, epoch)
    assert (completed.status, "being handed over" in completed.message) == (422, True)
    reclaimed = work.say(team.alice, claim=team.alice.claim(epoch))
    assert (reclaimed.status, "reserved for the target" in reclaimed.message) == (422, True)
    work.renew(team.alice, epoch).must()
    higher = work.hold(team.bob)
    for late in (
        work.renew(team.alice, epoch),
        work.say(team.alice, **{"effects/-": {**effect, "id": "e3"}}),
        work.release(team.alice, epoch),
        work.complete(team.alice, epoch),
    ):
        assert late.status in (403, 422)
    assert (work.status["phase"], work.epoch) == ("Held", higher)


def test_an_acceptance_beside_the_senders_release(team: Team) -> None:
    """Seen together the release comes first and the acceptance is Stale, or the work was reserved before it ended."""
    for work, epoch, offer in offers(team):
        accepted, released = at_once(
            lambda offer=offer: offer.respond(team.bob, "Accepted"),  # type: ignore[misc]
            lambda work=work, epoch=epoch: work.release(team.alice, epoch),  # type: ignore[misc]
        )
        released.must()
        work.reaches("Released", within_seconds=WITHIN_SECONDS)
        phase = offer.reaches("Accepted", "Stale")["phase"]
        assert accepted.ok or phase == "Stale"
        assert ("successor" in work.status) == (phase == "Accepted")
