"""Who may claim, and when."""

from __future__ import annotations

from support.refusals import POLICY, SCHEMA, Row
from support.refusals.states import (
    available,
    being_handed_over,
    claimed,
    completed,
    completion_stated,
    expired,
    held,
    held_again,
    held_and_suspended,
    jeopardy,
    reclaiming,
    refused,
    release_stated,
    released,
    reopening,
    reserved,
    reserved_for,
    revocation_stated,
    revoked,
    suspended,
    then,
    unmade,
)
from support.statements import (
    ADMIN,
    ALICE,
    BOB,
    INSTANCES,
    claim,
    claims,
    claims_again,
    configures,
    creates,
    past,
    releases,
    removes,
    renews,
    revokes,
)

restored = then(unmade, (ADMIN, creates(claim=lambda work, who: claim(work, who, 5))))
TAKES_OVER = revokes() & claims()

ROWS = (
    # Work that is free.
    Row("work that nobody has held", available, ALICE, claims()),
    Row("an expired lease", expired, BOB, claims()),
    Row("an expired lease, by its last holder", expired, ALICE, claims()),
    Row("released work", released, BOB, claims()),
    Row("released work whose release is not decided yet", release_stated, BOB, claims()),
    Row("revoked work", revoked, BOB, claims()),
    Row("revoked work whose revocation is not decided yet", revocation_stated, BOB, claims()),
    # Work that is held.
    Row("held work", held, BOB, claims(), "claim.leased", words="work is leased until about 2"),
    Row("held work that has been renewed", then(held, (ALICE, renews())), BOB, claims(), "claim.leased"),
    Row("held work, by an administrator who does not revoke", held, ADMIN, claims(), "claim.leased"),
    Row("a lease in jeopardy", jeopardy, BOB, claims(), "claim.leased", words="work is leased until about 2"),
    Row("held work, by the holder again", held, ALICE, claims()),
    Row("a lease in jeopardy, by the holder again", jeopardy, ALICE, claims()),
    Row(
        "held work, by another process of the holder",
        held,
        ALICE,
        claims(instance="host:elsewhere/2"),
        "claim.leased",
    ),
    Row(
        "held work, by a process that another identity names as its own too",
        held,
        BOB,
        claims(instance=INSTANCES[ALICE]),
        "claim.leased",
    ),
    # Takeover: two statements in one write.
    Row("taken over", held, ADMIN, TAKES_OVER),
    Row("taken over in jeopardy", jeopardy, ADMIN, TAKES_OVER),
    Row("taken over while suspended", held_and_suspended, ADMIN, TAKES_OVER),
    Row("taken over and suspended in one write", held, ADMIN, TAKES_OVER & configures(suspend=True)),
    Row("taken over from a pending re-claim", reclaiming, ADMIN, TAKES_OVER),
    Row("completed work, taken over", completed, ADMIN, TAKES_OVER),
    Row(
        "taken over with a revocation of an earlier epoch", held_again, ADMIN, revokes(past) & claims(), "claim.leased"
    ),
    # Suspension closes admission; who holds goes on.
    Row("suspended work", suspended, ALICE, claims(), "claim.suspended"),
    Row(
        "suspended work, revoked earlier",
        then(revoked, (ADMIN, configures(suspend=True))),
        BOB,
        claims(),
        "claim.suspended",
    ),
    Row("suspended work, by its holder again", held_and_suspended, ALICE, claims()),
    Row(
        "suspended work, released and not decided yet",
        then(held_and_suspended, (ALICE, releases())),
        BOB,
        claims(),
        "claim.suspended",
    ),
    # Work that is done.
    Row("completed work", completed, BOB, claims(), "claim.complete"),
    Row("completed work, by who completed it", completed, ALICE, claims(), "claim.complete"),
    Row("completed work that is being reopened", reopening, BOB, claims()),
    Row("completion stated, claimed by another", completion_stated, BOB, claims(), "claim.leased"),
    Row(
        "completion stated, claimed by its own speaker, to be granted when the work is reopened",
        completion_stated,
        ALICE,
        claims(),
        "claim.leased",
    ),
    # Work that is being handed over.
    Row("reserved work, by the target", being_handed_over, BOB, claims()),
    Row("reserved and released work, by the target", reserved, BOB, claims()),
    Row("reserved and released work, by another", reserved, ALICE, claims(), "claim.reserved"),
    Row("reserved work, by the sender that still holds it", being_handed_over, ALICE, claims(), "claim.reserved"),
    Row("reserved work, by a third", being_handed_over, ADMIN, claims(), "claim.leased"),
    Row("reserved for one process, by that process", then(held, reserved_for(BOB, INSTANCES[BOB])), BOB, claims()),
    Row(
        "reserved for one process, by another of the target",
        then(held, reserved_for(BOB, "host:x/1")),
        BOB,
        claims(),
        "claim.leased",
    ),
    Row("reserved work, taken over", being_handed_over, ADMIN, TAKES_OVER),
    Row("reserved and released work, taken over", reserved, ADMIN, TAKES_OVER),
    # A claim is decided before the next one.
    Row("work with a claim that is not decided", claimed, BOB, claims(), "claim.pending"),
    Row("work with one's own claim that is not decided", claimed, ALICE, claims(), "claim.pending"),
    Row("held work with one's own re-claim that is not decided", reclaiming, ALICE, claims(), "claim.pending"),
    Row("released work with a pending claim", then(release_stated, (BOB, claims())), ALICE, claims(), "claim.pending"),
    Row("work whose last claim was refused", refused, BOB, claims()),
    # The epoch that the claimant saw.
    Row(
        "an epoch that is past",
        then(held_again, (ALICE, releases())),
        BOB,
        claims(past),
        "claim.epoch",
        words="moved on",
    ),
    Row("an old manifest applied again", expired, BOB, claims(lambda work: 0), "claim.epoch"),
    Row("an epoch that has not been granted", available, ALICE, claims(lambda work: 7), "claim.epoch"),
    # The same id is the same claim.
    Row("the same claim said again", claimed, ALICE, claims_again()),
    Row("the granted claim said again after its end", expired, ALICE, claims_again()),
    Row(
        "the id of the refused claim, used again",
        then(refused, (ADMIN, removes("claim"))),
        ALICE,
        claims(id="refused"),
        "claim.fresh",
    ),
    Row(
        "the id of the granted claim, used again",
        then(expired, (ADMIN, removes("claim"))),
        ALICE,
        claims(id="granted"),
        "claim.fresh",
    ),
    Row("a pending claim, edited", claimed, ALICE, claims_again(purpose="something else"), "claim.edited"),
    Row("a claim restored from a backup, edited", restored, ADMIN, claims_again(epoch=0), "claim.edited"),
    Row("a granted claim, edited", held, ALICE, claims_again(purpose="something else"), "claim.edited"),
    # In whose name.
    Row("in another's name (case 26)", available, BOB, claims(holderIdentity="mallory"), POLICY, "must be"),
    Row("as a pod, without its token", available, BOB, claims(instance="pod:p/1"), POLICY, "must not begin with pod"),
    Row("in another's name, by who may delegate", available, ADMIN, claims(holderIdentity="mallory")),
    # Removal.
    Row("a pending claim, removed", claimed, ADMIN, removes("claim"), "claim.kept"),
    Row("the holder's claim, removed", held, ADMIN, removes("claim"), "claim.kept"),
    Row("a pending re-claim, removed by the write that revokes", reclaiming, ADMIN, revokes() & removes("claim")),
    Row("a claim without force, removed", expired, ADMIN, removes("claim")),
    Row("a refused claim, removed", refused, ADMIN, removes("claim")),
    # The schema.
    Row("control characters in an id", available, ALICE, claims(id="a\u0001"), SCHEMA, words="spec.claim.id"),
    Row(
        "control characters in a purpose",
        available,
        ALICE,
        claims(purpose="a\u0001"),
        SCHEMA,
        words="spec.claim.purpose",
    ),
    Row("a space in an instance", available, ALICE, claims(instance="host a"), SCHEMA, words="spec.claim.instance"),
)
