"""Labelled objects of any kind refuse writers without standing, the deletion and re-creation included."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.api import APPLY, Answer
from support.cluster import Cluster, KubectlAnswer
from support.fenced_objects import World
from support.stage import Item
from support.staging import staged
from support.waiting import wait_for
from support.words import now
from worklease.api.fence_policy import DELETE_EPOCH, EPOCH, LABEL, LEASE
from worklease.fencing import MAX_EPOCH


@pytest.fixture
def world(cluster: Cluster) -> Iterator[World]:
    """A fresh world."""
    with staged(cluster) as stage:
        yield World(stage)


def refused(answer: Answer, *words: str) -> None:
    """Asserts that a policy refused it, in these words."""
    assert answer.status == 403, f"{answer.status} {answer.message}"
    for word in words:
        assert word in answer.message


def test_a_tenure_writes_and_its_successor_shuts_it_out(world: World) -> None:
    """Case 1: the stale writer is refused before the new holder's first write already, and after it."""
    name, old = world.fenced(), world.epoch
    assert world.replace(name, world.body(name), world.manager()).ok
    new = world.take_over()
    refused(world.replace(name, world.body(name, old), world.manager(old)), f"epoch {old} is not the epoch of")
    assert world.replace(name, world.body(name), world.manager(new)).ok
    refused(world.replace(name, world.body(name, old), world.manager(old)), f"{old}")
    refused(world.replace(name, world.body(name, new), world.manager(old)), "the field manager must restate the epoch")


def test_a_stale_write_that_keeps_the_annotation_is_refused(world: World) -> None:
    """The annotation stays with the object, so the field manager has to say whose epoch this is."""
    name, old = world.fenced(), world.epoch
    world.take_over()
    world.replace(name, world.body(name), world.manager()).must()
    patch = [{"op": "replace", "path": "/data/amount", "value": "666"}]
    path = f"{world.maps}/{name}"
    for manager in (world.manager(old), "payer", ""):
        parameters = {"fieldManager": manager} if manager else {}
        refused(world.writer.api.patch(path, patch, **parameters), "the field manager must restate the epoch")
    assert world.writer.api.patch(path, patch, fieldManager=world.manager()).ok


def test_server_side_apply_is_fenced_alike(world: World) -> None:
    """Apply, which creates and updates, goes by the same field manager."""
    path = f"{world.maps}/applied"
    assert world.writer.api.patch(path, world.body("applied"), APPLY, fieldManager=world.manager()).ok
    old = world.epoch
    world.take_over()
    refused(
        world.writer.api.patch(path, world.body("applied", old), APPLY, fieldManager=world.manager(old), force="true")
    )
    assert world.writer.api.patch(path, world.body("applied"), APPLY, fieldManager=world.manager(), force="true").ok


def test_an_invented_epoch_does_not_ratchet(world: World) -> None:
    """A liar cannot write ahead of the lease's real epoch and so lock out those who hold it."""
    name = world.fenced()
    for invented in (world.epoch + 1, MAX_EPOCH):
        answer = world.replace(name, world.body(name, invented), world.manager(invented))
        refused(answer, f"epoch {invented} is not the epoch of {world.lease}", str(world.epoch))
    assert world.replace(name, world.body(name), world.manager()).ok


def test_an_annotation_that_is_no_epoch_is_refused(world: World) -> None:
    """Whatever is not a canonical epoch gets a message, not an error of the expression."""
    for epoch in ("0", "-7", "+7", "007", "7.0", "1e3", "seven", "7 ", str(MAX_EPOCH + 1), "9" * 300, "٧"):
        refused(world.create(world.body("odd", epoch), fieldManager="x@7"), "must be your epoch")


def test_a_lease_that_cannot_be_looked_up_is_refused(world: World) -> None:
    """A fenced object names a WorkLease of its own namespace."""
    body = world.body("odd")
    for lease in ("", "invoice", "A/b", "a/b/c", "n/" + "x" * 400):
        body["metadata"]["annotations"][LEASE] = lease
        refused(world.create(body), "names its lease")
    body["metadata"]["annotations"][LEASE] = "elsewhere/invoice"
    refused(world.create(body), "own namespace")


def test_an_object_does_not_change_its_lease_or_drop_its_fence(world: World) -> None:
    """A writer cannot move an object under another lease that it holds, nor take the label off first."""
    name = world.fenced()
    other = world.stage.held()
    body = world.body(name, other.epoch)
    body["metadata"]["annotations"][LEASE] = f"{world.stage.namespace}/{other.name}"
    refused(world.replace(name, body, f"payer@{other.epoch}"), "is changed with the verb revoke")
    bare = world.body(name)
    del bare["metadata"]["labels"]
    refused(world.replace(name, bare, world.manager()), "is removed with the verb revoke")
    for missing in (LEASE, EPOCH):
        body = world.body(name)
        del body["metadata"]["annotations"][missing]
        refused(world.replace(name, body, world.manager()))


def test_a_stale_writer_cannot_delete(world: World) -> None:
    """A deletion cannot carry an epoch, so the holder announces it on the object; an older announcement is void."""
    name, old = world.fenced(), world.epoch
    path = f"{world.maps}/{name}"
    refused(world.writer.api.delete(path), f"{DELETE_EPOCH}={old}")
    world.replace(name, world.body(name, **{DELETE_EPOCH: str(old)}), world.manager()).must()
    world.take_over()
    refused(world.writer.api.delete(path), f"epoch {old} is not the epoch of")
    world.replace(name, world.body(name, **{DELETE_EPOCH: str(old)}), world.manager()).must()
    refused(world.writer.api.delete(path), f"{DELETE_EPOCH}={world.epoch}")
    refused(world.writer.api.delete(world.maps), f"{DELETE_EPOCH}={world.epoch}")
    world.replace(name, world.body(name, **{DELETE_EPOCH: str(world.epoch)}), world.manager()).must()
    assert world.writer.api.delete(path).ok


def test_a_deleted_object_does_not_come_back_at_an_older_epoch(world: World) -> None:
    """The WorkLease remembers what the deleted object knew."""
    name, old = world.fenced(), world.epoch
    world.take_over()
    world.stage.root.api.delete(f"{world.maps}/{name}").must()
    refused(world.create(world.body(name, old), fieldManager=world.manager(old)), f"epoch {old} is not the epoch of")
    assert world.create(world.body(name)).ok


@pytest.mark.parametrize("ending", ["Jeopardy", "Expired", "release", "revocation", "successor"])
def test_a_tenure_that_has_ended_has_no_standing(world: World, ending: str) -> None:
    """In jeopardy, after the end, from the instant it is stated, and once a handoff has taken effect: no write."""
    name = world.fenced()
    holder, statement = world.stage.who("agent"), {"epoch": world.epoch, "reason": "done"}
    if ending == "release":
        world.item.say(holder, release=statement).must()
    elif ending == "revocation":
        world.item.say(world.stage.root, revocation=statement).must()
    elif ending == "successor":
        target = {
            "holderIdentity": "x",
            "handoff": "h",
            "handoffUID": "00000000-0000-0000-0000-000000000000",
            "until": now(),
        }
        world.item.decide(successor=target)
    elif ending == "Expired":
        world.item.end("Expired")
    else:
        world.item.decide(phase=ending)
    # The API server's own view, which the policy reads, lags behind by its watch.
    wait_for(lambda: not world.replace(name, world.body(name), world.manager()).ok, "the end to be seen")
    refused(world.replace(name, world.body(name), world.manager()), "has no standing", "its end has been stated")


def test_without_its_worklease_an_object_is_fenced_by_its_own_annotation(world: World) -> None:
    """Where the WorkLease cannot be looked up the ratchet and the field manager remain."""
    name, old = world.fenced(), world.epoch
    world.stage.root.api.delete(world.item.path).must()
    later = old + 1
    wait_for(lambda: world.replace(name, world.body(name, later), world.manager(later)).ok, "the deletion to be seen")
    refused(world.replace(name, world.body(name, old), world.manager(old)), f"stale epoch {old}")
    refused(world.replace(name, world.body(name, later), world.manager(old)), "the field manager must restate")


def test_those_who_may_revoke_repair_by_hand(world: World) -> None:
    """An administrator acts without a tenure: edits, takes the fence off, deletes. With @EPOCH they are fenced."""
    name = world.fenced()
    root = world.stage.root
    refused(world.replace(name, world.body(name, 7), "payer@7", root), "stale epoch 7")
    edited = world.body(name)
    edited["data"]["amount"] = "repaired"
    assert world.replace(name, edited, "kubectl-edit", root).ok
    handler = world.stage.who("handler")
    world.stage.cluster.grant(world.stage.namespace, "test-object-fence-writer", handler)
    del edited["metadata"]["labels"]
    assert world.replace(name, edited, "", handler).ok
    assert world.writer.api.delete(f"{world.maps}/{name}").ok, "it is an object like any other again"


def test_any_kind_is_fenced(world: World) -> None:
    """A Deployment is fenced like a ConfigMap."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    body = {"metadata": world.body("web")["metadata"], "spec": spec}
    path = f"/apis/apps/v1/namespaces/{world.stage.namespace}/deployments"
    refused(world.writer.api.create(path, body, fieldManager="payer"), "the field manager must restate the epoch")
    assert world.writer.api.create(path, body, fieldManager=world.manager()).ok


def test_the_clusters_own_parts_go_on(world: World) -> None:
    """Controllers carry out what was written: they write and collect fenced objects, and empty a namespace."""
    cluster, namespace = world.stage.cluster, world.stage.namespace
    controller = cluster.service_account("kube-system", f"controller-{namespace}")
    cluster.grant(namespace, "test-object-fence-writer", controller)
    assert world.create(world.body("by-a-controller", 7), controller, fieldManager="controller").ok
    cluster.api.delete(f"/api/v1/namespaces/kube-system/serviceaccounts/controller-{namespace}")
    body = world.body("orphan")
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}
    body["metadata"]["ownerReferences"] = [gone]
    world.create(body).must()
    wait_for(lambda: cluster.api.get(f"{world.maps}/orphan").status == 404, "the garbage collector to delete it")
    name = world.fenced()
    cluster.api.delete(f"/api/v1/namespaces/{namespace}").must()
    wait_for(lambda: cluster.api.get(f"{world.maps}/{name}").status == 404, "the namespace to be emptied")


def test_the_documented_kubectl_lines_satisfy_it(world: World, kubectl: Callable[..., KubectlAnswer]) -> None:
    """kubectl create, apply, annotate, patch and delete, each with what a fenced object needs."""
    identity, manager, epoch = world.writer, world.manager(), str(world.epoch)
    place = ["--namespace", world.stage.namespace]
    answers = [
        kubectl("create", "-f", "-", "--field-manager", manager, *place, identity=identity, given=world.body("k")),
        kubectl("apply", "--server-side", "-f", "-", "--field-manager", manager, "--force-conflicts", *place,
                identity=identity, given=world.body("k")),
        kubectl("patch", "configmap", "k", "--patch", '{"data":{"amount":"5"}}', "--field-manager", manager, *place,
                identity=identity),
        kubectl("annotate", "configmap", "k", f"{DELETE_EPOCH}={epoch}", "--field-manager", manager, *place,
                identity=identity),
        kubectl("delete", "configmap", "k", *place, identity=identity),
    ]  # fmt: skip
    assert [(answer.exit_code, answer.stderr) for answer in answers] == [(0, "")] * 5
    answer = kubectl("create", "configmap", "plain", *place, identity=identity)
    assert answer.exit_code == 0, "objects without the label are left alone"


def test_our_own_kinds_are_not_fenced_by_their_label(world: World) -> None:
    """A label on a WorkLease does not stop its holder, the operator or anybody else."""
    item, answer = world.stage.create(
        world.stage.root, "workleases", {"work": {"type": "t", "id": "1"}}, labels={LABEL: "true"}
    )
    answer.must()
    held: Item = world.stage.hold(item)
    assert held.renew(world.stage.who("agent")).ok
