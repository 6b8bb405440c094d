"""Argo CD and Flux apply a team's manifests again and again while agents speak: neither undoes what the other said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.api import HANDOFFS, WORKLEASES
from support.cluster import Cluster, Identity
from support.gitops import POLICY, ArgoCD, Flux, Manifest, Tool, example, taken_over
from support.offering import WITHIN_SECONDS, Offer, Team, target
from support.speaking import Agent, Work
from support.waiting import wait_for
from support.words import adds, fresh, now
from worklease.api.admission import DELEGATE, REVOKE

TOOLS: dict[str, type[Tool]] = {"argocd": ArgoCD, "flux": Flux}
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/{}"


@pytest.fixture(scope="module")
def account(cluster: Cluster, team: Team) -> Identity:
    """The account that applies Git, with the role for that and nothing else."""
    return cluster.service_account(team.namespace, "gitops", "worklease-gitops")


@pytest.fixture(scope="module")
def deciding(cluster: Cluster, team: Team) -> Identity:
    """One that may also offer and revoke, as examples/gitops/rbac.yaml grants it."""
    identity = cluster.service_account(team.namespace, "gitops-decides", "worklease-gitops")
    rules = [
        {"apiGroups": ["worklease.dev"], "resources": ["handoffs"], "verbs": [DELEGATE]},
        {"apiGroups": ["worklease.dev"], "resources": ["workleases"], "verbs": [REVOKE]},
    ]
    name = "gitops-decides"
    cluster.api.create(RBAC.format(team.namespace, "roles"), {"metadata": {"name": name}, "rules": rules}).must()
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": team.namespace}],
    }
    cluster.api.create(RBAC.format(team.namespace, "rolebindings"), binding).must()

    def in_force() -> bool:
        attributes = {"namespace": team.namespace, "group": "worklease.dev", "resource": "handoffs", "verb": DELEGATE}
        review = {"spec": {"resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return bool(identity.api.create(path, review).must()["status"]["allowed"])

    wait_for(in_force, "the role to be in force", WITHIN_SECONDS)
    return identity


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest, account: Identity, team: Team) -> Tool:
    """Each of them."""
    return TOOLS[request.param](account, team.namespace)


@pytest.fixture(params=TOOLS)
def decider(request: pytest.FixtureRequest, deciding: Identity, team: Team) -> Tool:
    """Each of them, allowed to offer and to revoke."""
    return TOOLS[request.param](deciding, team.namespace)


def named(manifest: Manifest, team: Team, work: str = "") -> tuple[Manifest, Work]:
    """A manifest of the examples under a name of its own, and its work item."""
    name = work or f"invoice-{fresh()}"
    renamed = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
    return renamed, Work(team.cluster, team.namespace, name)


def offered(work: Work, to: Agent, **spec: Any) -> tuple[Manifest, Offer]:
    """The handoff of the examples, for this work and this target."""
    manifest = example("invoice-42-to-bob.yaml")
    offer = Offer(work, f"{work.name}-to-bob")
    manifest["metadata"] = {**manifest["metadata"], "name": offer.name}
    manifest["spec"] = {**manifest["spec"], "workLeaseName": work.name, "to": target(to), **spec}
    return manifest, offer


def unmoved(tool: Tool, *paths: str) -> None:
    """Apply again, and again: nothing is refused, and not even the resourceVersion changes."""
    before = [tool.identity.api.get(path).must() for path in paths]
    for _ in range(2):
        tool.must_sync()
    assert [tool.identity.api.get(path).must() for path in paths] == before


def test_git_undoes_no_statement_of_an_agent(tool: Tool, team: Team) -> None:
    """Case 33: re-applied after each statement of a whole tenure, Git changes nothing, however the agent speaks."""
    manifest, work = named(example("invoice-42.yaml"), team)
    tool.commit(manifest)
    tool.must_sync()
    wait_for(lambda: work.condition("Claimable"), "the work to be seen", WITHIN_SECONDS)
    unmoved(tool, work.path)
    epoch = work.hold(team.alice)
    unmoved(tool, work.path)
    work.renew(team.alice, epoch).must()
    checkpoint = {"epoch": epoch, "uri": "s3://1", "digest": "sha256:1", "previousDigest": ""}
    effect = {"id": "e1", "epoch": epoch, "recipient": "mail", "action": "send", "state": "Attempted"}
    for field, value in {"checkpoint": checkpoint, "effects/-": effect, "effects/0/state": "Succeeded"}.items():
        work.say(team.alice, **{field: value}).must()
        unmoved(tool, work.path)
    said = adds(renewal={"epoch": epoch, "renewTime": now()})
    work.patch(team.alice, said, fieldManager="kubectl-patch").must()
    unmoved(tool, work.path)
    work.complete(team.alice, epoch).must()
    work.reaches("Completed", within_seconds=WITHIN_SECONDS)
    unmoved(tool, work.path)


def test_what_kubectl_said_under_flux_without_the_policy(account: Identity, team: Team) -> None:
    """Without `ssa: Merge` Flux would take the statement away: the API server refuses that, and Flux is stuck."""
    manifest, work = named(example("invoice-42.yaml"), team)
    del manifest["metadata"]["annotations"][POLICY]
    flux = Flux(account, team.namespace)
    flux.commit(manifest)
    flux.must_sync()
    claim = team.alice.claim(work.epoch)
    work.patch(team.alice, adds(claim=claim), fieldManager="kubectl-patch").must()
    work.granted(claim["id"])
    (answer,) = flux.sync().values()
    assert (answer.status, "the claim still has force" in answer.message) == (422, True)
    assert work.read()["spec"]["claim"] == claim


def test_taking_over_is_by_prefix_and_merges_fields() -> None:
    """The rehearsal of Flux's step does what the original does with the managers of kubectl, and only those."""
    own = {"manager": "kustomize-controller", "operation": "Apply", "fieldsV1": {"f:spec": {"f:work": {}}}}
    said = {"manager": "kubectl-patch", "operation": "Update", "fieldsV1": {"f:spec": {"f:claim": {}}}}
    agent = {"manager": "agent", "operation": "Update", "fieldsV1": {"f:spec": {"f:renewal": {}}}}
    assert taken_over([own, agent], "kustomize-controller") is None
    assert taken_over([own, said, agent], "kustomize-controller") == [
        agent,
        {**own, "fieldsV1": {"f:spec": {"f:work": {}, "f:claim": {}}}},
    ]


def test_agents_undo_no_policy(tool: Tool, team: Team) -> None:
    """Neither suspend nor a duration, nor by taking the name of the tool that applies them."""
    manifest, work = named(example("invoice-42.yaml"), team)
    tool.commit(manifest)
    tool.must_sync()
    epoch = work.hold(team.alice)
    for field, value in {"suspend": True, "leaseDurationSeconds": 86400, "jeopardyDurationSeconds": 0}.items():
        refused = work.say(team.alice, **{field: value})
        assert (refused.status, "verb configure" in refused.message) == (403, True)
    body = {"apiVersion": manifest["apiVersion"], "kind": "WorkLease", "metadata": {"name": work.name}, "spec": {}}
    forged = team.alice.identity.api.patch(
        work.path, body, "application/apply-patch+yaml", fieldManager=tool.manager, force="true"
    )
    assert forged.status in (403, 422)
    assert work.epoch == epoch
    unmoved(tool, work.path)


def test_self_heal_restores_what_git_lists(tool: Tool, team: Team) -> None:
    """A change by hand of a field that Git lists is put back, while the tenure goes on."""
    manifest, work = named(example("invoice-42.yaml"), team)
    tool.commit(manifest)
    tool.must_sync()
    epoch = work.hold(team.alice)
    work.say(team.cluster.admin, suspend=True, leaseDurationSeconds=60).must()
    tool.must_sync()
    spec = work.read()["spec"]
    assert (spec["suspend"], spec["leaseDurationSeconds"]) == (False, 600)
    assert spec["claim"]["epoch"] == 0
    work.renew(team.alice, epoch).must()


def test_suspend_in_git_closes_admission_and_opens_it(tool: Tool, team: Team) -> None:
    """Work that is kept suspended in Git takes no claims until a commit says otherwise; a holder goes on."""
    manifest, work = named(example("invoice-43.yaml"), team)
    tool.commit(manifest)
    tool.must_sync()
    refused = work.say(team.alice, claim=team.alice.claim(0))
    assert (refused.status, "work is suspended" in refused.message) == (422, True)
    manifest["spec"] = {**manifest["spec"], "suspend": False}
    tool.commit(manifest)
    tool.must_sync()
    epoch = work.hold(team.alice)
    manifest["spec"] = {**manifest["spec"], "suspend": True}
    tool.commit(manifest)
    tool.must_sync()
    work.renew(team.alice, epoch).must()


def test_a_revocation_in_git_ends_one_tenure_and_no_later_one(decider: Tool, team: Team) -> None:
    """The incident's manifest names its epoch; applied for ever after it revokes nothing else, and can be removed."""
    plain, work = named(example("invoice-42.yaml"), team)
    decider.commit(plain)
    decider.must_sync()
    epoch = work.hold(team.alice)
    incident, _ = named(example("incident/invoice-42.yaml"), team, work.name)
    incident["spec"] = {**incident["spec"], "revocation": {**incident["spec"]["revocation"], "epoch": epoch}}
    decider.commit(incident)
    decider.must_sync()
    assert work.reaches("Revoked", within_seconds=WITHIN_SECONDS)["history"][-1]["endMessage"] == "INC-7: wrong amount"
    unmoved(decider, work.path)
    incident["spec"] = {**incident["spec"], "suspend": False}
    decider.commit(incident)
    decider.must_sync()
    higher = work.hold(team.bob)
    unmoved(decider, work.path)
    assert (work.epoch, work.status["phase"]) == (higher, "Held")
    decider.commit(plain)
    decider.must_sync()
    assert "revocation" not in work.read()["spec"]
    assert (work.epoch, work.status["phase"]) == (higher, "Held")


def test_git_revokes_only_with_the_verb(tool: Tool, team: Team) -> None:
    """The role for Git does not end tenures."""
    manifest, work = named(example("invoice-42.yaml"), team)
    tool.commit(manifest)
    tool.must_sync()
    epoch = work.hold(team.alice)
    tool.commit({**manifest, "spec": {**manifest["spec"], "revocation": {"epoch": epoch, "reason": "INC"}}})
    (answer,) = tool.sync().values()
    assert (answer.status, "verb revoke" in answer.message) == (403, True)
    assert work.status["phase"] == "Held"


def test_a_team_hands_work_over_by_a_pull_request(decider: Tool, team: Team) -> None:
    """Git names neither epoch nor sender; Bob accepts and claims; re-applied all along and pruned in the end."""
    manifest, work = named(example("invoice-42.yaml"), team)
    decider.commit(manifest)
    decider.must_sync()
    epoch = work.hold(team.alice)
    handoff, offer = offered(work, team.bob)
    decider.commit(handoff)
    decider.must_sync()
    assert offer.seen()["epoch"] == epoch
    unmoved(decider, work.path, offer.path)
    offer.accept(team.bob)
    unmoved(decider, work.path, offer.path)
    higher = work.hold(team.bob)
    offer.reaches("Completed")
    unmoved(decider, work.path, offer.path)
    decider.remove(handoff)
    decider.must_sync()
    assert not team.cluster.api.get(offer.path).ok
    assert (work.epoch, work.status["holderIdentity"]) == (higher, team.bob.identity.username)
    decider.commit(handoff)
    decider.must_sync()
    offer.reaches("Stale")
    assert (work.epoch, work.status["phase"]) == (higher, "Held")


def test_git_offers_only_with_the_verb_and_never_accepts(tool: Tool, decider: Tool, team: Team) -> None:
    """A handoff that names no sender needs delegate, and its answer is the target's alone."""
    work, _ = team.held()
    handoff, offer = offered(work, team.bob)
    tool.commit(handoff)
    (answer,) = tool.sync().values()
    assert (answer.status, "verb delegate" in answer.message) == (403, True)
    decider.commit(handoff)
    decider.must_sync()
    offer.seen()
    for decision in ("Accepted", "Rejected"):
        answered = {**handoff, "spec": {**handoff["spec"], "response": {"decision": decision, "reason": ""}}}
        decider.commit(answered)
        (refused,) = decider.sync().values()
        assert (refused.status, "only the target" in refused.message) == (403, True)
    assert offer.status["phase"] == "Pending"
    assert "successor" not in work.status


@pytest.mark.parametrize("answered", [False, True], ids=["pending", "accepted"])
def test_pruning_a_handoff_takes_nothing_back(answered: bool, decider: Tool, team: Team) -> None:
    """A pending one is gone and nothing has moved; one in effect keeps the work reserved, and its target claims."""
    work, epoch = team.held()
    handoff, offer = offered(work, team.bob)
    decider.commit(handoff)
    decider.must_sync()
    offer.seen()
    if answered:
        offer.accept(team.bob)
    decider.remove(handoff)
    decider.must_sync()
    if answered:
        assert work.status["successor"]["holderIdentity"] == team.bob.identity.username
        assert work.hold(team.bob) > epoch
        assert work.status["grantMessage"] == f"handoff {offer.name}"
    else:
        work.renew(team.alice, epoch).must()
        assert "successor" not in work.status


def test_pruning_ends_no_tenure(tool: Tool, team: Team) -> None:
    """Case 32: held work stays, and the tool says so; free work is pruned at once, without finalizers."""
    manifest, work = named(example("invoice-42.yaml"), team)
    tool.commit(manifest)
    tool.must_sync()
    epoch = work.hold(team.alice)
    tool.remove(manifest)
    (answer,) = tool.sync().values()
    assert (answer.status, "verb revoke" in answer.message) == (403, True)
    work.renew(team.alice, epoch).must()
    work.release(team.alice, epoch).must()
    work.reaches("Released", within_seconds=WITHIN_SECONDS)
    tool.must_sync()
    assert not team.cluster.api.get(work.path).ok


def test_the_examples_are_applied_as_they_are(
    cluster: Cluster, namespace: str, kubectl: Callable[..., Any], decider: Tool
) -> None:
    """Every manifest for the cluster is valid, in any order, and applying it twice is a no-op."""
    flags = ("apply", "--server-side", f"--namespace={namespace}")
    directory = "examples/gitops"
    for _ in range(2):
        for name in ("invoice-42-to-bob.yaml", "invoice-42.yaml", "invoice-43.yaml", "rbac.yaml"):
            answer = kubectl(*flags, f"--filename={directory}/{name}")
            assert answer.exit_code == 0, answer.stderr
    assert cluster.api.get(f"{HANDOFFS.format(namespace)}/invoice-42-to-bob").must()["spec"]["workLeaseName"]
    assert len(cluster.api.get(WORKLEASES.format(namespace)).must()["items"]) == 2
    assert decider.manager
