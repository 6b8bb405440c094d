"""Every kind of write says the same: patches, whole objects, applies and dry runs are held to the same rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support import words
from support.api import JSON_PATCH, MERGE_PATCH
from support.cluster import Cluster, Identity, KubectlAnswer
from support.refusals.states import attempted, checkpointed, expired, granted, held, release_stated, renewed, then
from support.statements import ADMIN, ALICE, BOB, INSTANCES, PURPOSES, Scene, Work, claim, claims, renews
from support.words import adds, effect, now, work_manifest

Kubectl = Callable[..., KubectlAnswer]


def owners(work: Work, statement: str) -> list[str]:
    """The field managers that own a statement."""
    found = []
    for entry in work.read()["metadata"]["managedFields"]:
        owned = entry["fieldsV1"].get("f:spec", {})
        if f"f:{statement}" in owned:
            assert owned[f"f:{statement}"] == {}, "an atomic statement is owned whole"
            found.append(entry["manager"])
    return found


def renewal(work: Work) -> dict[str, Any]:
    """A renewal at the current epoch."""
    return {"epoch": work.epoch, "renewTime": now()}


def test_json_patch_says_a_statement_whole(work: Work) -> None:
    """Nothing of what the previous speaker said is left."""
    release_stated(work)
    claims(id="whole")(work, BOB).must()
    assert work.read()["spec"]["claim"] == claim(work, BOB, work.epoch, id="whole")


def test_json_patch_that_leaves_a_field_out_is_refused(work: Work) -> None:
    """With JSON patches nothing is inherited: what is missing is asked for."""
    release_stated(work)
    value = {"epoch": work.epoch, "id": "partial", "holderIdentity": work.username(BOB)}
    answer = work.say(BOB, claim=value)
    assert answer.status == 422
    assert "spec.claim.instance: Required value" in answer.message


def test_merge_patch_inherits_what_the_last_speaker_left(work: Work) -> None:
    """A merge patch of a claim keeps what it does not name: bob claims as alice's process, for her purpose."""
    release_stated(work)
    work.merge(BOB, claim={"epoch": work.epoch, "id": "inherited", "holderIdentity": work.username(BOB)}).must()
    stored = work.read()["spec"]["claim"]
    assert (stored["instance"], stored["purpose"]) == (INSTANCES[ALICE], PURPOSES[ALICE])


def test_merge_patch_is_held_to_the_same_rules(work: Work) -> None:
    """What is refused in a JSON patch is refused in a merge patch."""
    renewed(work)
    answer = work.merge(BOB, claim={"epoch": work.epoch, "id": "b", "holderIdentity": work.username(BOB)})
    assert (answer.status, "work is leased" in answer.message) == (422, True)
    stale = work.merge(ALICE, renewal={"epoch": work.epoch - 1, "renewTime": now()})
    assert (stale.status, "not its epoch" in stale.message) == (422, True)
    work.merge(ALICE, renewal=renewal(work)).must()


@pytest.mark.parametrize("content_type", [MERGE_PATCH, JSON_PATCH])
def test_null_is_a_removal(content_type: str, work: Work) -> None:
    """A null takes a statement away, and is refused where a removal is."""
    then(renewed, (ALICE, claims()))(work)
    operations = adds(renewal=None)
    body = {"spec": {"renewal": None}} if content_type == MERGE_PATCH else operations
    answer = work.scene.voices[ALICE].api.patch(work.path, body, content_type)
    assert (answer.status, "the renewal still has force" in answer.message) == (422, True)


def test_null_list_is_an_empty_one(work: Work) -> None:
    """A null for the effects gives their default, and drops no effect that must stay."""
    attempted(work)
    answer = work.merge(ALICE, effects=None)
    assert (answer.status, "may be dropped" in answer.message) == (422, True)


def test_null_statement_of_a_new_object_is_an_absent_one(work: Work) -> None:
    """A manifest may write out what it does not say."""
    created = work.create(ADMIN, {"claim": None, "renewal": None, "effects": None}).must()
    assert created["spec"]["effects"] == []
    assert not {"claim", "renewal"} & set(created["spec"])


def test_patch_that_tests_the_epoch_is_refused_when_it_has_passed(work: Work) -> None:
    """A JSON patch may test what its speaker saw, and nothing of it is done when that is no longer so."""
    held(work)
    operations = [{"op": "test", "path": "/status/epoch", "value": work.epoch - 1}, *renews().operations(work, ALICE)]
    assert work.patch(ALICE, operations).status == 422
    assert "renewal" not in work.read()["spec"]


def test_unknown_kind_of_patch_is_refused(work: Work) -> None:
    """A strategic merge patch does not exist for custom resources."""
    held(work)
    answer = work.scene.voices[ALICE].api.patch(work.path, {}, "application/strategic-merge-patch+json")
    assert answer.status == 415


def test_whole_object_that_is_fresh_is_a_swap(work: Work) -> None:
    """A PUT with the resourceVersion that was read says a statement."""
    held(work)
    whole = work.read()
    whole["spec"]["renewal"] = renewal(work)
    work.put(ALICE, whole).must()
    assert work.read()["spec"]["renewal"] == whole["spec"]["renewal"]


def test_whole_object_that_is_stale_is_a_conflict(work: Work) -> None:
    """A PUT with an older resourceVersion changes nothing, whatever it says."""
    held(work)
    whole = work.read()
    renews()(work, ALICE).must()
    stored = work.read()
    whole["spec"]["renewal"] = renewal(work)
    assert work.put(ALICE, whole).status == 409
    assert work.read() == stored


def test_whole_object_without_a_resource_version_is_refused(work: Work) -> None:
    """Nobody replaces what they have not read."""
    held(work)
    whole = work.read()
    del whole["metadata"]["resourceVersion"]
    assert "metadata.resourceVersion" in work.put(ADMIN, whole).message


def test_whole_object_that_leaves_statements_out_is_refused(work: Work) -> None:
    """A PUT of an old manifest would take back what has force, also by an administrator."""
    checkpointed(work)
    whole = work.read()
    whole["spec"] = {"work": whole["spec"]["work"]}
    answer = work.put(ADMIN, whole)
    assert answer.status == 422
    assert all(words in answer.message for words in ("claim still has force", "checkpoint is replaced, never removed"))


def test_kubectl_replace_of_what_was_read_is_admitted_once(work: Work, kubectl: Kubectl) -> None:
    """`kubectl replace` swaps: the second of two that began with the same object is refused, and says why."""
    held(work)
    whole = work.read()
    whole["spec"]["leaseDurationSeconds"] = 1200
    assert kubectl("replace", "-f", "-", given=whole).exit_code == 0
    again = kubectl("replace", "-f", "-", given=whole)
    assert again.exit_code == 1
    assert "the object has been modified" in again.stderr


def test_kubectl_replace_by_force_needs_delete(work: Work, kubectl: Kubectl) -> None:
    """`kubectl replace --force` is a deletion, which an agent may not do; the work stays."""
    renewed(work)
    answer = kubectl("replace", "--force", "-f", "-", identity=work.scene.voices[ALICE], given=work.read())
    assert answer.exit_code == 1
    assert "cannot delete" in answer.stderr
    assert work.read()["status"]["phase"] == "Held"


def test_apply_with_one_manager_for_each_statement(work: Work) -> None:
    """Each statement is owned by the manager of its name, whole; saying one leaves the others as they are."""
    held(work)
    work.apply(ALICE, "renewal", renewal=renewal(work)).must()
    stated = {"epoch": work.epoch, "uri": "s3://work/1", "digest": "sha256:1", "previousDigest": ""}
    work.apply(ALICE, "checkpoint", force=False, checkpoint=stated).must()
    work.apply(ALICE, "effect-e1", force=False, effects=[effect(work.epoch, "e1")]).must()
    work.apply(ALICE, "effect-e2", force=False, effects=[effect(work.epoch, "e2")]).must()
    again = renewal(work)
    work.apply(ALICE, "renewal", force=False, renewal=again).must()
    spec = work.read()["spec"]
    assert spec["renewal"] == again
    assert spec["checkpoint"] == stated
    assert [one["id"] for one in spec["effects"]] == ["e1", "e2"]
    assert (owners(work, "renewal"), owners(work, "checkpoint")) == (["renewal"], ["checkpoint"])


def test_statement_has_one_owner_however_it_is_said(work: Work) -> None:
    """Whoever said a statement last owns it alone: by its time in managedFields the server tells when that was."""
    held(work)
    work.apply(ALICE, "renewal", force=False, renewal=renewal(work)).must()
    work.patch(ALICE, renews().operations(work, ALICE), fieldManager="agent").must()
    assert owners(work, "renewal") == ["agent"]
    work.apply(ALICE, "renewal", renewal=renewal(work)).must()
    assert owners(work, "renewal") == ["renewal"]


def test_apply_meets_a_conflict_before_it_takes_a_statement_over(work: Work) -> None:
    """Without force an apply is refused where another manager owns the statement, and names it."""
    held(work)
    work.patch(ALICE, renews().operations(work, ALICE), fieldManager="agent").must()
    answer = work.apply(ALICE, "renewal", force=False, renewal=renewal(work))
    assert (answer.status, '"agent"' in answer.message) == (409, True)


def test_force_does_not_force_the_rules(work: Work) -> None:
    """--force-conflicts is about ownership: it admits no claim of held work and no renewal of somebody else."""
    renewed(work)
    taken = work.apply(BOB, "claim", claim=claim(work, BOB, work.epoch))
    assert (taken.status, "work is leased" in taken.message) == (422, True)
    spoken = work.apply(BOB, "renewal", renewal=renewal(work))
    assert (spoken.status, "only the holder" in spoken.message) == (403, True)


def test_apply_replaces_the_statement_of_another_speaker_whole(work: Work) -> None:
    """The next claimant applies with the same manager, and inherits nothing."""
    expired(work)
    work.apply(BOB, "claim", claim=claim(work, BOB, work.epoch, id="applied")).must()
    assert work.read()["spec"]["claim"] == claim(work, BOB, work.epoch, id="applied")


def test_apply_that_leaves_out_what_it_said_before_takes_it_back(work: Work) -> None:
    """One manager for two statements removes the first with the second: refused while it has force."""
    held(work)
    work.apply(ADMIN, "git", revocation={"epoch": work.epoch, "reason": "incident"}).must()
    answer = work.apply(ADMIN, "git", suspend=True)
    assert (answer.status, "the revocation still has force" in answer.message) == (422, True)


def test_manifest_of_git_is_applied_again_while_the_work_is_held(
    cluster: Cluster, work: Work, kubectl: Kubectl, service_account: Callable[..., Identity]
) -> None:
    """`kubectl apply`, on either side, of a manifest without statements leaves all that was said (case 31)."""
    git = service_account(work.scene.namespace, "git", "worklease-gitops")
    manifest = work_manifest(work.name, metadata={"namespace": work.namespace}, leaseDurationSeconds=60)
    command = ("apply", "-f", "-")
    assert kubectl(*command, identity=git, given=manifest).exit_code == 0
    claims()(work, ALICE).must()
    granted(work)
    renews()(work, ALICE).must()
    said = work.read()["spec"]
    manifest["spec"]["leaseDurationSeconds"] = 120
    for again in (command, (*command, "--server-side", "--force-conflicts", "--field-manager=git")):
        answer = kubectl(*again, identity=git, given=manifest)
        assert answer.exit_code == 0, answer.stderr
    assert work.read()["spec"] == {**said, "leaseDurationSeconds": 120}


def test_dry_run_answers_and_changes_nothing(work: Work) -> None:
    """A dry run is admitted and refused like the real write, and stores nothing."""
    renewed(work)
    stored = work.read()
    work.patch(ALICE, renews().operations(work, ALICE), dryRun="All").must()
    refusal = work.patch(BOB, claims().operations(work, BOB), dryRun="All")
    assert (refusal.status, "work is leased" in refusal.message) == (422, True)
    assert work.read() == stored


def test_unknown_field_is_refused_when_asked_and_never_stored(work: Work) -> None:
    """Strict validation, kubectl's default, names the field; otherwise it is dropped with a warning."""
    held(work)
    value = {**renewal(work), "ttlSeconds": 5}
    operations = adds(renewal=value)
    strict = work.patch(ALICE, operations, fieldValidation="Strict")
    assert (strict.status, 'unknown field "spec.renewal.ttlSeconds"' in strict.message) == (422, True)
    loose = work.patch(ALICE, operations, fieldValidation="Warn")
    assert "ttlSeconds" in loose.headers["Warning"]
    assert "ttlSeconds" not in loose.must()["spec"]["renewal"]


def test_agent_creates_work_under_a_generated_name_and_claims_it(
    scene: Scene, service_account: Callable[..., Identity]
) -> None:
    """A create with generateName may carry the first claim; the work is free until the operator grants it."""
    creator = service_account(scene.namespace, "creator", "worklease-agent-creator")
    stated = words.claim(creator.username, "host:aspen/2")
    body = work_manifest(metadata={"generateName": "made-"}, claim=stated)
    created = creator.api.create(scene.collection, body).must()
    assert created["metadata"]["name"].startswith("made-")
    assert created["spec"]["claim"] == stated
    assert created["status"] == {"phase": "Available", "epoch": 0}


def test_repeated_write_is_answered_and_changes_nothing(work: Work) -> None:
    """A claim or a renewal that is sent again after a lost answer is a no-op, not a refusal (case 36)."""
    then(held, (ALICE, renews(renewTime="2026-11-30T17:54:30Z")))(work)
    stored = work.read()
    for name in ("claim", "renewal"):
        repeated = work.say(ALICE, **{name: stored["spec"][name]}).must()
        assert repeated["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
