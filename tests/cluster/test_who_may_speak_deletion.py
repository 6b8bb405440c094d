"""What may be deleted, and by whom: held work and effects of unknown outcome do not disappear by the way."""

from collections.abc import Callable
from typing import Any

import pytest

from support.api import Answer
from support.cluster import Identity
from support.stage import Item, Row, Stage, judge
from support.waiting import wait_for
from support.words import effect, fresh

COLLECTED_WITHIN_SECONDS = 90.0  # the garbage collector looks for new kinds every 30 seconds
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"


def free(stage: Stage) -> Item:
    """Work that nobody has claimed."""
    return stage.work()


def held(stage: Stage) -> Item:
    """Work that the agent holds."""
    return stage.held()


def ended(phase: str, *states: str) -> Callable[[Stage], Item]:
    """Work that the agent held until `phase`, with effects that are in these states."""

    def make(stage: Stage) -> Item:
        item, agent = stage.held(), stage.who("agent")
        effects = [effect(item.epoch, f"e{number}") for number, _ in enumerate(states)]
        item.say(agent, effects=effects).must()
        for state in ("Succeeded",):  # what is Compensated has succeeded before
            if "Compensated" in states:
                item.say(agent, effects=[{**one, "state": state} for one in effects]).must()
        item.say(agent, effects=[{**one, "state": state} for one, state in zip(effects, states, strict=True)]).must()
        if phase in ("Held", "Jeopardy"):
            item.decide(phase=phase)
        else:
            item.end(phase)
        return item

    return make


def deletes(item: Item, who: Identity) -> Answer:
    return who.api.delete(item.path)


ROWS = [
    Row("Git deletes free work", "gitops", free, deletes),
    Row("Git deletes completed work", "gitops", ended("Completed", "Succeeded"), deletes),
    Row("Git deletes expired work with reconciled effects", "gitops", ended("Expired", "Failed"), deletes),
    Row("Git deletes what was compensated", "gitops", ended("Released", "Compensated"), deletes),
    Row("Git deletes held work", "gitops", held, deletes, "deletion"),
    Row("Git deletes work in jeopardy", "gitops", ended("Jeopardy"), deletes, "deletion"),
    Row("Git deletes an effect that was attempted", "gitops", ended("Expired", "Attempted"), deletes, "deletion"),
    Row(
        "Git deletes an effect of unknown outcome", "gitops", ended("Revoked", "Failed", "Unknown"), deletes, "deletion"
    ),
    Row("an administrator deletes held work", "chief", held, deletes),
    Row("an administrator deletes an effect of unknown outcome", "chief", ended("Revoked", "Unknown"), deletes),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_deletion(row: Row, stage: Stage) -> None:
    """Who may delete may not thereby end a tenure or lose an effect: that is the verb revoke."""
    judge(row, stage)


@pytest.mark.parametrize("name", ["agent", "creator", "handler", "viewer"])
def test_agents_delete_nothing(name: str, stage: Stage) -> None:
    """No role of an agent has delete, on either kind."""
    who = stage.who(name)
    assert "cannot delete resource" in who.api.delete(stage.work().path).message
    assert "cannot delete resource" in who.api.delete(stage.offer().path).message


def collector(stage: Stage, *revocable: str) -> Identity:
    """Somebody who may delete collections, and revoke these work items alone."""
    who = stage.cluster.service_account(stage.namespace, f"collector-{fresh()}")
    rules: list[dict[str, Any]] = [
        {
            "apiGroups": [stage.group],
            "resources": ["workleases"],
            "verbs": ["get", "list", "delete", "deletecollection"],
        }
    ]
    if revocable:
        only = {"apiGroups": [stage.group], "resources": ["workleases"], "verbs": ["revoke"]}
        rules.append({**only, "resourceNames": list(revocable)})
    name = fresh()
    stage.root.api.create(f"{RBAC}/{stage.namespace}/roles", {"metadata": {"name": name}, "rules": rules}).must()
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": who.username}],
    }
    stage.root.api.create(f"{RBAC}/{stage.namespace}/rolebindings", binding).must()
    path = stage.path("workleases")
    wait_for(lambda: who.api.get(path).ok, f"{who.username} to have its role")
    return who


def test_collection_is_deleted_by_the_names_in_it(own_stage: Stage) -> None:
    """The request to delete many names none of them: the verb is asked for about each object."""
    item = own_stage.held()
    path = own_stage.path("workleases")
    refusal = collector(own_stage).api.delete(path)
    assert refusal.status == 403
    assert "the work is held" in refusal.message
    assert collector(own_stage, "some-other").api.delete(path).status == 403
    assert own_stage.root.api.get(item.path).ok
    assert collector(own_stage, item.name).api.delete(path).ok
    assert own_stage.root.api.get(item.path).status == 404


def orphan(stage: Stage, item: Item) -> None:
    """Gives an object an owner that does not exist."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}
    body = {"metadata": {"ownerReferences": [owner]}}
    stage.root.api.patch(item.path, body, "application/merge-patch+json").must()


def test_garbage_collector_leaves_held_work_alone(own_stage: Stage) -> None:
    """Held work whose owner is gone stays until it is free; the collector takes it then."""
    item, other = own_stage.held(), own_stage.work()
    orphan(own_stage, item)
    orphan(own_stage, other)
    wait_for(
        lambda: own_stage.root.api.get(other.path).status == 404,
        "free work without its owner to be collected",
        COLLECTED_WITHIN_SECONDS,
    )
    assert "deletionTimestamp" not in item.read()["metadata"]
    item.end("Released")
    wait_for(
        lambda: own_stage.root.api.get(item.path).status == 404,
        "released work without its owner to be collected",
        COLLECTED_WITHIN_SECONDS,
    )


def test_foreground_deletion_is_carried_out(own_stage: Stage) -> None:
    """The garbage collector removes its own finalizer: it may delete, so the rules of metadata do not stop it."""
    item = own_stage.work()
    own_stage.who("gitops").api.delete(item.path, propagationPolicy="Foreground").must()
    wait_for(
        lambda: own_stage.root.api.get(item.path).status == 404,
        "work to be deleted in the foreground",
        COLLECTED_WITHIN_SECONDS,
    )


def test_namespace_is_deleted_with_the_work_in_it(own_stage: Stage) -> None:
    """Case 32: a namespace that is being deleted takes held work and open effects along, by whatever controller."""
    ended("Held", "Attempted")(own_stage)
    own_stage.offer()
    namespace = f"/api/v1/namespaces/{own_stage.namespace}"
    own_stage.root.api.delete(namespace).must()
    wait_for(
        lambda: own_stage.root.api.get(namespace).status == 404, "the namespace to be gone", COLLECTED_WITHIN_SECONDS
    )


def test_offer_may_be_deleted_at_any_time(own_stage: Stage) -> None:
    """A handoff has no force of its own once it is answered: Git prunes it."""
    item = own_stage.offer()
    item.decide(phase="Accepted")
    own_stage.who("gitops").api.delete(item.path).must()
