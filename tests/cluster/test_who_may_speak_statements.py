"""Who may say which statement about a work item, one line each; the state is such that the CRD's rules admit it."""

from collections.abc import Callable
from typing import Any

import pytest

from support.api import Answer
from support.cluster import Cluster, Identity
from support.stage import WORK, Item, Row, Stage, claim, judge
from support.words import PURPOSE, adds, effect, fresh, now, removes, work_manifest


def free(stage: Stage) -> Item:
    """Work that nobody has claimed."""
    return stage.work()


def held(stage: Stage) -> Item:
    """Work that the agent holds."""
    return stage.held()


def held_unbound(stage: Stage) -> Item:
    """Work that a process without a pod holds, by the agent's ServiceAccount."""
    return stage.held("unbound")


def jeopardy(stage: Stage) -> Item:
    """Work whose lease has lapsed."""
    item = stage.held()
    item.decide(phase="Jeopardy")
    return item


def expired(stage: Stage) -> Item:
    """Work whose lease has expired with an effect whose outcome nobody knows."""
    item = stage.held()
    item.say(stage.who("agent"), effects=[effect(item.epoch)]).must()
    item.end("Expired")
    return item


def revoked(stage: Stage) -> Item:
    """Work that was taken from its holder."""
    item = stage.held()
    item.say(stage.root, revocation={"epoch": item.epoch, "reason": "it hung"}).must()
    item.end("Revoked")
    return item


def refused(stage: Stage) -> Item:
    """Free work with a claim that the operator has refused."""
    item, rival = stage.work(), stage.who("rival")
    stated = claim(rival)
    item.say(rival, claim=stated).must()
    item.decide(observedClaimID=stated["id"])
    return item


def reclaimed(stage: Stage) -> Item:
    """Held work that its holder has claimed again."""
    item, agent = stage.held(), stage.who("agent")
    item.say(agent, claim=claim(agent, item.epoch)).must()
    return item


def going(stage: Stage) -> Item:
    """Free work that is being deleted."""
    item, answer = stage.create(stage.root, "workleases", {}, finalizers=["example.org/later"])
    answer.must()
    stage.root.api.delete(item.path).must()
    return item


def nothing(stage: Stage) -> Item:
    """No work item yet."""
    return Item(stage, "workleases", "")


Says = Callable[[Item, Identity], Answer]


def renews(item: Item, who: Identity) -> Answer:
    return item.renew(who)


def logs(item: Item, who: Identity) -> Answer:
    return item.say(who, effects=[effect(item.epoch)])


def reconciles(item: Item, who: Identity) -> Answer:
    return item.say(who, effects=[effect(item.epoch, state="Failed")])


def checkpoints(item: Item, who: Identity) -> Answer:
    stated = {"epoch": item.epoch, "uri": "s3://work/1", "digest": "sha256:1", "previousDigest": ""}
    return item.say(who, checkpoint=stated)


def releases(item: Item, who: Identity) -> Answer:
    return item.say(who, release={"epoch": item.epoch, "reason": "no time"})


def completes(item: Item, who: Identity) -> Answer:
    return item.say(who, completion={"epoch": item.epoch, "outcome": "Succeeded", "message": ""})


def revokes(item: Item, who: Identity) -> Answer:
    return item.say(who, revocation={"epoch": item.epoch, "reason": "it hung"})


def takes_over(item: Item, who: Identity) -> Answer:
    revocation = {"epoch": item.epoch, "reason": "it hung"}
    return item.say(who, revocation=revocation, claim=claim(who, item.epoch))


def revokes_and_withdraws_the_claim(item: Item, who: Identity) -> Answer:
    return item.patch(who, [*adds(revocation={"epoch": item.epoch, "reason": "it hung"}), *removes("/spec/claim")])


def takes_back(name: str) -> Says:
    return lambda item, who: item.patch(who, removes(f"/spec/{name}"))


def claims(**changes: Any) -> Says:
    return lambda item, who: item.say(who, claim=claim(who, item.epoch, **changes))


def claims_as(other: str, **changes: Any) -> Says:
    def say(item: Item, who: Identity) -> Answer:
        return item.say(who, claim=claim(item.stage.who(other), item.epoch, **changes))

    return say


def claims_as_pod_of(other: str) -> Says:
    def say(item: Item, who: Identity) -> Answer:
        return item.say(who, claim=claim(who, item.epoch, instance=item.stage.who(other).instance))

    return say


def sets(**settings: Any) -> Says:
    return lambda item, who: item.say(who, **settings)


def renews_and_sets(**settings: Any) -> Says:
    return lambda item, who: item.say(who, renewal={"epoch": item.epoch, "renewTime": now()}, **settings)


def creates(**spec: Any) -> Says:
    def say(item: Item, who: Identity) -> Answer:
        return item.stage.create(who, "workleases", {"work": WORK, **spec})[1]

    return say


def creates_claimed(epoch: int, by: str = "") -> Says:
    def say(item: Item, who: Identity) -> Answer:
        return creates(claim=claim(item.stage.who(by) if by else who, epoch))(item, who)

    return say


def sets_and_moves_the_renewal(time: str) -> Says:
    """Forges the time of whoever owns the renewal, under a manager of its own; an empty time drops the owner."""

    def change(whole: dict[str, Any]) -> None:
        whole["spec"]["leaseDurationSeconds"] += 1
        entries = whole["metadata"]["managedFields"]
        owners = [entry for entry in entries if "f:renewal" in entry["fieldsV1"].get("f:spec", {})]
        assert owners
        for entry in owners:
            entry["time"] = time
            if not time:
                entries.remove(entry)

    return lambda item, who: item.replace(who, change, fieldManager=fresh())


def logs_and_moves_the_renewal(item: Item, who: Identity) -> Answer:
    def change(whole: dict[str, Any]) -> None:
        whole["spec"]["effects"] = [effect(item.epoch)]
        for entry in whole["metadata"]["managedFields"]:
            entry["time"] = LONG_AGO

    return item.replace(who, change, fieldManager=fresh())


LONG_AGO = "2001-01-01T00:00:00Z"
RENEWAL = {"epoch": 7, "renewTime": "2026-01-01T00:00:00Z"}
CHECKPOINT = {"epoch": 7, "uri": "s3://work/1", "digest": "sha256:1", "previousDigest": ""}
RELEASE = {"epoch": 7, "reason": ""}
COMPLETION = {"epoch": 7, "outcome": "Succeeded", "message": ""}
REVOCATION = {"epoch": 7, "reason": "it hung"}
MUST_BE_RIVAL = ("claim.holderIdentity must be system:serviceaccount:", ":rival: ", "verb delegate")
NOT_BOUND = ("must not begin with pod:", "not bound to a pod")

ROWS = [
    # the holder's statements
    Row("the holder renews", "agent", held, renews),
    Row("the holder renews in jeopardy", "agent", jeopardy, renews),
    Row("the holder logs an effect", "agent", held, logs),
    Row("the holder checkpoints", "agent", held, checkpoints),
    Row("the holder releases", "agent", held, releases),
    Row("the holder completes", "agent", held, completes),
    Row("a process without a pod that holds renews", "unbound", held_unbound, renews),
    Row("a sibling pod renews", "sibling", held, renews, "holder"),
    Row("a sibling pod renews in jeopardy", "sibling", jeopardy, renews, "holder"),
    Row("a token of the ServiceAccount without a pod renews for a pod", "unbound", held, renews, "holder"),
    Row("a pod of the ServiceAccount renews for a process without a pod", "agent", held_unbound, renews, "holder"),
    Row("another agent renews", "rival", held, renews, "holder"),
    Row("a sibling pod logs an effect", "sibling", held, logs, "holder"),
    Row("another agent logs an effect", "rival", held, logs, "holder"),
    Row("another agent checkpoints", "rival", held, checkpoints, "holder"),
    Row("another agent releases", "rival", held, releases, "holder"),
    Row("another agent completes", "rival", held, completes, "holder"),
    Row("Git renews", "gitops", held, renews, "holder"),
    Row("a handler renews", "handler", held, renews, "holder"),
    Row("an administrator renews", "chief", held, renews, "holder"),
    Row("the cluster's administrator completes", "root", held, completes, "holder"),
    Row("an administrator logs an effect", "chief", held, logs, "holder"),
    Row("the former holder reconciles an effect on free work", "agent", expired, reconciles, "holder"),
    Row("a handler reconciles an effect on free work", "handler", expired, reconciles, "holder"),
    Row("Git reconciles an effect on free work", "gitops", expired, reconciles),
    Row("the former holder prunes its renewal", "agent", expired, takes_back("renewal"), "holder"),
    Row("Git prunes a renewal on free work", "gitops", expired, takes_back("renewal")),
    # claims
    Row("an agent claims for itself", "rival", free, claims()),
    Row("a process without a pod claims for itself", "desk", free, claims()),
    Row("an agent claims after a revocation", "rival", revoked, claims()),
    Row("an agent claims for another", "rival", free, claims_as("agent"), "claim.identity", MUST_BE_RIVAL),
    Row("Git claims for an agent", "gitops", free, claims_as("agent"), "claim.identity", (":gitops: ", "delegate")),
    Row("a handler claims for an agent", "handler", free, claims_as("agent")),
    Row("a pod claims as its sibling", "agent", free, claims_as_pod_of("sibling"), "claim.instance", ("pod:agent-0/",)),
    Row(
        "a pod claims as no pod",
        "agent",
        free,
        claims(instance="host:desk/1"),
        "claim.instance",
        ("claim.instance must be pod:agent-0/",),
    ),
    Row(
        "a pod claims by its name alone",
        "agent",
        free,
        claims(instance="pod:agent-0"),
        "claim.instance",
        ("claim.instance must be pod:agent-0/",),
    ),
    Row(
        "a token without a pod claims as a pod of its ServiceAccount",
        "unbound",
        free,
        claims_as_pod_of("agent"),
        "claim.instance",
        NOT_BOUND,
    ),
    Row(
        "a handler claims for itself as somebody's pod",
        "handler",
        free,
        claims_as_pod_of("agent"),
        "claim.instance",
        NOT_BOUND,
    ),
    Row("an agent claims work that is being deleted", "rival", going, claims(), "claim.going"),
    Row("an agent removes a claim that was refused", "rival", refused, takes_back("claim"), "claim.removal"),
    Row("a handler removes a claim that was refused", "handler", refused, takes_back("claim"), "claim.removal"),
    Row("Git prunes a claim that was refused", "gitops", refused, takes_back("claim")),
    Row("a handler withdraws a pending claim by revoking", "handler", reclaimed, revokes_and_withdraws_the_claim),
    # revocation and takeover
    Row("an agent revokes", "rival", held, revokes, "revocation"),
    Row("the holder revokes itself", "agent", held, revokes, "revocation"),
    Row("Git revokes", "gitops", held, revokes, "revocation"),
    Row("a handler revokes", "handler", held, revokes),
    Row("an administrator revokes", "chief", held, revokes),
    Row("an agent takes over", "rival", held, takes_over, "revocation"),
    Row("a handler takes over for itself", "handler", held, takes_over),
    Row("an administrator takes over for itself", "chief", held, takes_over),
    Row("the former holder erases its revocation", "agent", revoked, takes_back("revocation"), "revocation"),
    Row("Git prunes a revocation", "gitops", revoked, takes_back("revocation"), "revocation"),
    Row("a handler prunes a revocation", "handler", revoked, takes_back("revocation")),
    # settings
    Row("an agent suspends", "rival", free, sets(suspend=True), "settings"),
    Row("a handler suspends", "handler", free, sets(suspend=True), "settings"),
    Row("an agent changes leaseDurationSeconds", "rival", free, sets(leaseDurationSeconds=86400), "settings"),
    Row("an agent changes jeopardyDurationSeconds", "rival", free, sets(jeopardyDurationSeconds=0), "settings"),
    Row("the holder lengthens beside a renewal", "agent", held, renews_and_sets(leaseDurationSeconds=900), "settings"),
    Row("Git suspends", "gitops", held, sets(suspend=True)),
    Row("Git changes the durations", "gitops", free, sets(leaseDurationSeconds=900, jeopardyDurationSeconds=60)),
    # creation
    Row("a creator creates and claims", "creator", nothing, creates_claimed(epoch=0)),
    Row("a creator chooses the settings", "creator", nothing, creates(suspend=True, leaseDurationSeconds=60)),
    Row("a creator names a later epoch", "creator", nothing, creates_claimed(epoch=7), "history"),
    Row("a creator brings a renewal", "creator", nothing, creates(renewal=RENEWAL), "history"),
    Row("a creator brings an effect", "creator", nothing, creates(effects=[effect(7)]), "history"),
    Row("a creator brings a checkpoint", "creator", nothing, creates(checkpoint=CHECKPOINT), "history"),
    Row("a creator brings a release", "creator", nothing, creates(release=RELEASE), "history"),
    Row("a creator brings a completion", "creator", nothing, creates(completion=COMPLETION), "history"),
    Row("a creator brings a revocation", "creator", nothing, creates(revocation=REVOCATION), "revocation"),
    Row(
        "a creator claims for another",
        "creator",
        nothing,
        creates_claimed(0, by="agent"),
        "claim.identity",
        (":creator",),
    ),
    Row(
        "Git restores what a holder had said",
        "gitops",
        nothing,
        creates(renewal=RENEWAL, effects=[effect(7)], checkpoint=CHECKPOINT, release=RELEASE, completion=COMPLETION),
    ),
    Row("Git restores a revocation", "gitops", nothing, creates(revocation=REVOCATION), "revocation"),
    Row("Git restores a claim", "gitops", nothing, creates_claimed(7, by="agent"), "claim.identity", (":gitops",)),
    Row("an administrator restores a claim", "chief", nothing, creates_claimed(7, by="agent")),
    Row("an administrator restores a revocation", "chief", nothing, creates(revocation=REVOCATION)),
    # the server's time of the last renewal
    Row("Git moves the renewal's time back", "gitops", held, sets_and_moves_the_renewal(LONG_AGO), "renewal.time"),
    Row("Git drops the renewal's owner", "gitops", held, sets_and_moves_the_renewal(""), "renewal.time"),
    Row("an administrator drops the renewal's owner", "chief", held, sets_and_moves_the_renewal("")),
    Row("Git drops it on free work", "gitops", expired, sets_and_moves_the_renewal("")),
    Row("the holder moves its own back", "agent", held, logs_and_moves_the_renewal),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_statement(row: Row, stage: Stage) -> None:
    """Cases 13, 14, 15, 26: each statement is admitted from those who may say it, and refused with what is missing."""
    judge(row, stage)


def test_reborn_pod_does_not_speak_for_the_one_before(cluster: Cluster, stage: Stage) -> None:
    """A pod of the same name has another uid: it neither renews nor claims as the pod whose name it has."""
    before = cluster.pod_identity(stage.namespace, "reborn", "reborn-0", "worklease-agent")
    item = stage.work()
    item.say(before, claim=claim(before)).must()
    item.grant()
    item.renew(before).must()
    pods = f"/api/v1/namespaces/{stage.namespace}/pods"
    cluster.api.delete(f"{pods}/reborn-0", gracePeriodSeconds="0").must()
    after = cluster.pod_identity(stage.namespace, "reborn", "reborn-0")
    assert before.username == after.username
    assert before.instance != after.instance
    assert "only the holder" in item.renew(after).message
    other = stage.work()
    answer = other.say(after, claim=claim(after, instance=before.instance))
    assert f"claim.instance must be {after.instance}" in answer.message


def test_refusals_name_neither_holder_nor_purpose(stage: Stage) -> None:
    """Case 13: nobody learns from a refusal who holds the work, what for, or how to take it."""
    item, agent = stage.held(), stage.who("agent")
    for answer in (renews(item, stage.who("rival")), completes(item, stage.who("chief"))):
        assert answer.status == 403
        for secret in (agent.username, agent.instance, PURPOSE, "revo", "take"):
            assert secret not in answer.message


def test_dry_run_is_refused_like_the_write(stage: Stage) -> None:
    """A dry run is no way around a policy."""
    item = stage.held()
    patch = adds(renewal={"epoch": item.epoch, "renewTime": now()})
    assert item.patch(stage.who("rival"), patch, dryRun="All").status == 403
    assert item.patch(stage.who("agent"), patch, dryRun="All").ok


def test_statement_is_judged_alike_in_every_kind_of_write(stage: Stage) -> None:
    """A JSON patch, a merge patch, a server-side apply and a replacement are the same statement."""
    item = stage.held()

    def renewal() -> dict[str, Any]:
        return {"epoch": item.epoch, "renewTime": now()}

    def ways(who: Identity) -> list[Answer]:
        return [
            item.renew(who),
            item.merge(who, renewal=renewal()),
            item.apply(who, "renewal", renewal=renewal()),
            item.replace(who, lambda whole: whole["spec"].update(renewal=renewal())),
        ]

    assert [answer.status for answer in ways(stage.who("agent"))] == [200, 200, 200, 200]
    assert [answer.status for answer in ways(stage.who("sibling"))] == [403, 403, 403, 403]


def test_claim_is_judged_when_the_server_makes_the_name_up(stage: Stage) -> None:
    """With generateName the request names no object, and the verb is asked for about the object all the same."""
    creator, chief = stage.who("creator"), stage.who("chief")
    for who, status in ((creator, 403), (chief, 201)):
        body = work_manifest(
            api_version=stage.api_version, metadata={"generateName": "made-up-"}, claim=claim(stage.who("agent"))
        )
        assert who.api.create(stage.path("workleases"), body).status == status


def test_person_claims_by_their_own_name(stage: Stage, as_user: Callable[[str], Identity]) -> None:
    """A person is no pod: alice claims as alice, from whichever process, and as no pod."""
    alice = as_user("alice")
    stage.cluster.grant(stage.namespace, "worklease-agent", alice)
    item = stage.work()
    assert "must not begin with pod:" in item.say(alice, claim=claim(alice, instance="pod:a/1")).message
    assert "must be alice" in item.say(alice, claim=claim(stage.who("agent"))).message
    item.say(alice, claim=claim(alice)).must()
    item.grant()
    item.renew(alice).must()


def test_refused_claim_repeated_is_still_a_claim(stage: Stage) -> None:
    """Case 36: the claim said again, after its answer was lost, changes nothing and is not refused."""
    item, rival = stage.work(), stage.who("rival")
    stated = claim(rival)
    first = item.say(rival, claim=stated).must()
    again = item.say(rival, claim=stated).must()
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
