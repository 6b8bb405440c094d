"""What a write may do to metadata: an agent's statement carries nothing that outlives it or stops anybody else."""

from collections.abc import Callable
from typing import Any

import pytest

from support.api import Answer
from support.cluster import Identity
from support.stage import WORK, Item, Row, Stage, judge
from support.words import adds, effect, fresh, now, removes, work_manifest
from worklease.api.fields import EFFECTS_MAX
from worklease.api.metadata import LABELS_MAX, LAST_APPLIED, LAST_APPLIED_MAX, MANAGED_FIELDS_MAX

NO_OWNER = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}]


def held(stage: Stage) -> Item:
    """Work that the agent holds."""
    return stage.held()


def offer(stage: Stage) -> Item:
    """A handoff that the agent offers."""
    return stage.offer()


def nothing(stage: Stage) -> Item:
    """No object yet."""
    return Item(stage, "workleases", "")


def labelled(stage: Stage) -> Item:
    """Held work with a label and an annotation."""
    item = stage.held()
    body = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}
    stage.root.api.patch(item.path, body, "application/merge-patch+json").must()
    return item


def applied(stage: Stage) -> Item:
    """Held work whose settings Git applies on the server side."""
    item = stage.held()
    item.apply(stage.who("gitops"), "git", work=WORK, leaseDurationSeconds=600).must()
    return item


def named_by_the_server(stage: Stage) -> Item:
    """Held work whose name the server made up."""
    body = work_manifest(api_version=stage.api_version, metadata={"generateName": "made-up-"})
    made = stage.root.api.create(stage.path("workleases"), body).must()
    return stage.hold(Item(stage, "workleases", made["metadata"]["name"]))


Says = Callable[[Item, Identity], Answer]


def renewal(item: Item) -> dict[str, Any]:
    return {"epoch": item.epoch, "renewTime": now()}


def writes(**metadata: Any) -> Says:
    """Changes metadata and says nothing."""
    return lambda item, who: item.patch(who, in_metadata(metadata))


def renews_with(**metadata: Any) -> Says:
    """Changes metadata beside a renewal."""
    return lambda item, who: item.patch(who, [*adds(renewal=renewal(item)), *in_metadata(metadata)])


def in_metadata(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"op": "add", "path": f"/metadata/{name}", "value": value} for name, value in metadata.items()]


def strips(*paths: str) -> Says:
    return lambda item, who: item.patch(who, [*adds(renewal=renewal(item)), *removes(*paths)])


def replaces_from_scratch(item: Item, who: Identity) -> Answer:
    """A whole object that carries no more metadata than it must."""

    def change(whole: dict[str, Any]) -> None:
        whole["spec"]["renewal"] = renewal(item)
        whole["metadata"] = {name: whole["metadata"][name] for name in ("name", "resourceVersion")}

    return item.replace(who, change)


def applies(manager: str, **spec: Any) -> Says:
    return lambda item, who: item.apply(who, manager, renewal=renewal(item), **spec)


def applies_effect(manager: str) -> Says:
    return lambda item, who: item.apply(who, manager, effects=[effect(item.epoch, "e1")])


def repeats_what_is_there(item: Item, who: Identity) -> Answer:
    return item.replace(who, lambda whole: None)


def applies_what_is_there(item: Item, who: Identity) -> Answer:
    """Says the holder's renewal once more, under its name: that would share its owner and move its time."""
    return item.apply(who, "renewal", renewal=item.read()["spec"]["renewal"])


def writes_managed(item: Item, who: Identity) -> Answer:
    """Brings an entry of managedFields and says nothing."""
    return item.replace(who, lambda whole: whole["metadata"]["managedFields"].append(entry("m", {"f:work": {}})))


def renews_with_managed(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Says:
    """Brings managedFields of its own beside a renewal."""

    def say(item: Item, who: Identity) -> Answer:
        def both(whole: dict[str, Any]) -> None:
            whole["spec"]["renewal"] = renewal(item)
            whole["metadata"]["managedFields"] = change(whole["metadata"]["managedFields"])

        return item.replace(who, both)

    return say


def entry(manager: str, fields: dict[str, Any], operation: str = "Update") -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "worklease.dev/v1alpha1",
        "time": "2001-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": fields},
    }


def fat() -> list[dict[str, Any]]:
    return [entry("fat", {f"f:{number:0>500}": {} for number in range(MANAGED_FIELDS_MAX // 500 + 1)})]


def lean(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Takes a setting away from what somebody applies."""
    for one in entries:
        if one["operation"] == "Apply":
            one["fieldsV1"]["f:spec"].pop("f:leaseDurationSeconds", None)
    return entries


def creates(**metadata: Any) -> Says:
    def say(item: Item, who: Identity) -> Answer:
        return item.stage.create(who, "workleases", {}, **metadata)[1]

    return say


def answers_with(**metadata: Any) -> Says:
    def say(item: Item, who: Identity) -> Answer:
        response = {"decision": "Accepted", "reason": ""}
        return item.patch(who, [*adds(response=response), *in_metadata(metadata)])

    return say


ROWS = [
    # writes that say nothing
    Row("an agent writes back what it read", "rival", held, repeats_what_is_there),
    Row(
        "an agent changes last-applied alone",
        "rival",
        held,
        writes(annotations={LAST_APPLIED: "{}"}),
        "metadata.silence",
    ),
    Row("an agent changes generateName alone", "rival", held, writes(generateName="x"), "metadata.silence"),
    Row("an agent changes selfLink alone", "rival", held, writes(selfLink="/x"), "metadata.silence"),
    Row("an agent resets managedFields alone", "rival", held, writes(managedFields=[{}]), "metadata.silence"),
    Row("an agent adds to managedFields alone", "rival", held, writes_managed, "metadata.silence"),
    Row("an agent applies what the holder has said", "rival", held, applies_what_is_there, "metadata.silence"),
    Row("the holder resets managedFields alone", "agent", held, writes(managedFields=[{}]), "metadata.silence"),
    Row("Git resets managedFields alone", "gitops", held, writes(managedFields=[{}]), "renewal.time"),
    Row("an administrator resets managedFields alone", "chief", held, writes(managedFields=[{}])),
    Row("Git resets a handoff's managedFields", "gitops", offer, writes(managedFields=[{}])),
    Row(
        "an agent changes a handoff's managedFields alone",
        "rival",
        offer,
        writes(managedFields=[{}]),
        "metadata.silence",
    ),
    # labels, owners, finalizers
    Row("the holder labels", "agent", held, renews_with(labels={"a": "b"}), "metadata.labels"),
    Row("the holder removes labels", "agent", labelled, strips("/metadata/labels"), "metadata.labels"),
    Row("the holder replaces labels by nothing", "agent", labelled, replaces_from_scratch, "metadata.labels"),
    Row("the holder sets an owner", "agent", held, renews_with(ownerReferences=NO_OWNER), "metadata.labels"),
    Row("the holder sets a finalizer", "agent", held, renews_with(finalizers=["example.org/x"]), "metadata.labels"),
    Row("the target labels its handoff", "rival", offer, answers_with(labels={"a": "b"}), "metadata.labels"),
    Row("Git labels", "gitops", held, writes(labels={"a": "b"})),
    Row("an administrator sets an owner and a finalizer", "chief", held, writes(finalizers=["example.org/x"])),
    # annotations
    Row("the holder annotates", "agent", held, renews_with(annotations={"a": "b"}), "metadata.annotations"),
    Row("the holder removes an annotation", "agent", labelled, strips("/metadata/annotations"), "metadata.annotations"),
    Row(
        "the holder rewrites what an apply concludes from",
        "agent",
        held,
        renews_with(annotations={LAST_APPLIED: '{"spec":{"suspend":true}}'}),
        "metadata.annotations",
    ),
    Row("Git annotates", "gitops", held, writes(annotations={"a": "b"})),
    # names
    Row("the holder brings a generateName", "agent", held, renews_with(generateName="x"), "metadata.names"),
    Row(
        "the holder lengthens generateName",
        "agent",
        named_by_the_server,
        renews_with(generateName="y"),
        "metadata.names",
    ),
    Row("the holder brings a selfLink", "agent", held, renews_with(selfLink="/x"), "metadata.names"),
    Row("an administrator brings a selfLink", "chief", held, writes(selfLink="/x"), "metadata.names"),
    Row("the holder replaces from scratch", "agent", held, replaces_from_scratch),
    Row("the holder replaces a made-up name from scratch", "agent", named_by_the_server, replaces_from_scratch),
    # field managers
    Row("the holder applies under the statement's name", "agent", held, applies("renewal")),
    Row("the holder applies an effect under its name", "agent", held, applies_effect("effect-e1")),
    Row("the holder applies beside what Git applies", "agent", applied, applies("renewal")),
    Row("the holder applies under any name", "agent", held, applies("kubectl"), "managers.statements"),
    Row(
        "the holder applies under another effect's name",
        "agent",
        held,
        applies_effect("effect-e2"),
        "managers.statements",
    ),
    Row(
        "the holder applies an effect under a statement's name",
        "agent",
        held,
        applies_effect("renewal"),
        "managers.statements",
    ),
    Row(
        "the holder applies a setting with it", "agent", held, applies("renewal", suspend=False), "managers.statements"
    ),
    Row(
        "the holder applies as Git",
        "agent",
        applied,
        applies("git", work=WORK, leaseDurationSeconds=600),
        "managers.statements",
    ),
    Row(
        "the holder brings an entry of what Git applies",
        "agent",
        held,
        renews_with_managed(lambda entries: [*entries, entry("git", {"f:suspend": {}}, "Apply")]),
        "managers.statements",
    ),
    Row(
        "the holder brings an entry of what kubectl has applied on the client's side",
        "agent",
        held,
        renews_with_managed(lambda entries: [*entries, entry("kubectl-client-side-apply", {"f:claim": {}})]),
        "managers.statements",
    ),
    Row(
        "the holder adds to the entry of a statement",
        "agent",
        held,
        renews_with_managed(lambda entries: [*entries, entry("claim", {"f:claim": {}, "f:suspend": {}}, "Apply")]),
        "managers.statements",
    ),
    Row("Git applies under its own name", "gitops", held, lambda item, who: item.apply(who, "git", suspend=True)),
    Row("the holder resets managedFields", "agent", held, renews_with(managedFields=[{}]), "managers.kept"),
    Row(
        "the holder drops what Git applies",
        "agent",
        applied,
        renews_with_managed(lambda entries: entries[1:]),
        "managers.kept",
    ),
    Row("the holder thins what Git applies", "agent", applied, renews_with_managed(lean), "managers.statements"),
    Row("the holder leaves managedFields out", "agent", applied, renews_with_managed(lambda entries: [])),
    Row(
        "the holder brings a great many",
        "agent",
        held,
        renews_with_managed(lambda entries: entries + fat()),
        "managers.size",
    ),
    # creation
    Row("a creator creates", "creator", nothing, creates(labels={"a": "b"}, annotations={LAST_APPLIED: "{}"})),
    Row("a creator sets an owner", "creator", nothing, creates(ownerReferences=NO_OWNER), "creation.owned"),
    Row("a creator sets a finalizer", "creator", nothing, creates(finalizers=["example.org/x"]), "creation.owned"),
    Row("a creator annotates", "creator", nothing, creates(annotations={"a": "b"}), "creation.size"),
    Row(
        "a creator brings many labels",
        "creator",
        nothing,
        creates(labels={f"l{number}": "" for number in range(LABELS_MAX + 1)}),
        "creation.size",
    ),
    Row(
        "a creator brings a large last-applied of control characters",
        "creator",
        nothing,
        creates(annotations={LAST_APPLIED: "\u0001" * (LAST_APPLIED_MAX + 1)}),
        "creation.size",
    ),
    Row(
        "a creator brings managedFields of somebody else",
        "creator",
        nothing,
        creates(managedFields=[entry("git", {"f:claim": {}}, "Apply")]),
        "creation.size",
    ),
    Row(
        "Git creates with an owner and annotations",
        "gitops",
        nothing,
        creates(annotations={"a": "b"}, ownerReferences=[]),
    ),
    Row(
        "an administrator restores with managedFields",
        "chief",
        nothing,
        creates(managedFields=[entry("git", {"f:work": {}}, "Apply")], finalizers=["example.org/x"]),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_metadata(row: Row, stage: Stage) -> None:
    """Metadata is changed by those who may delete, and by nobody in a way that stops another."""
    judge(row, stage)


def test_suspension_outlives_whatever_an_agent_applies(stage: Stage) -> None:
    """Git's next apply lifts no suspension that Git did not set: an agent cannot put it under Git's name before."""
    item, agent, gitops = stage.held(), stage.who("agent"), stage.who("gitops")
    settings: dict[str, Any] = {"work": WORK}
    item.apply(gitops, "git", **settings).must()
    item.say(stage.who("chief"), suspend=True).must()
    assert not item.apply(agent, "git", suspend=True, renewal=renewal(item), **settings).ok
    item.apply(gitops, "git", **settings).must()
    assert item.read()["spec"]["suspend"] is True


def test_statement_moves_between_managers(stage: Stage) -> None:
    """What an agent applied, another way of speaking takes over, and back: no manager is refused for what it loses."""
    item, agent = stage.held(), stage.who("agent")
    for _ in range(2):
        item.apply(agent, "renewal", renewal=renewal(item)).must()
        item.renew(agent).must()
    item.apply(agent, "effect-e1", effects=[effect(item.epoch, "e1")]).must()
    item.say(agent, effects=[effect(item.epoch, "e1", "Failed")]).must()
    item.apply(stage.who("chief"), "fixer", effects=[effect(item.epoch, "e1", "Failed")])
    item.renew(agent).must()


def test_server_keeps_the_time_of_a_renewal(stage: Stage) -> None:
    """Whatever managedFields a renewal brings along, its owner's time is the server's."""
    item, agent = stage.held(), stage.who("agent")

    def age(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**one, "time": "2001-01-01T00:00:00Z"} for one in entries]

    renews_with_managed(age)(item, agent).must()
    owners = [
        one["time"]
        for one in item.read()["metadata"]["managedFields"]
        if "f:renewal" in one["fieldsV1"].get("f:spec", {})
    ]
    assert len(owners) == 1
    assert owners[0] > "2001-01-01T00:00:00Z"


def test_agents_writes_leave_room_for_the_operator(stage: Stage) -> None:
    """An agent that fills an object as far as it may does not keep the operator from writing its status."""
    item, agent = stage.held(), stage.who("agent")
    wide = "\u20ac" * 1024
    many = [
        {**effect(item.epoch, f"{number:0>64}"), "recipient": "r" * 253, "action": "a" * 253, "detail": wide}
        for number in range(64)
    ]
    item.say(agent, effects=many).must()
    size = MANAGED_FIELDS_MAX // 2
    renews_with_managed(lambda entries: [*entries, entry("fat", {"f:" + "x" * size: {}})])(item, agent).must()
    item.decide(phase="Jeopardy")
    item.say(stage.who("chief"), revocation={"epoch": item.epoch, "reason": "it fills up"}).must()


def test_each_of_many_effects_has_its_own_manager(stage: Stage) -> None:
    """A full list of effects, each applied under its own name, keeps neither holder nor administrator from writing."""
    item, agent = stage.held(), stage.who("agent")
    names = [str(number) for number in range(EFFECTS_MAX)]
    item.say(agent, effects=[effect(item.epoch, name) for name in names]).must()
    owners = [entry(f"effect-{name}", {"f:effects": {f'k:{{"id":"{name}"}}': {".": {}}}}, "Apply") for name in names]

    def own(whole: dict[str, Any]) -> None:
        whole["metadata"]["managedFields"] += owners

    item.replace(stage.who("chief"), own).must()
    item.apply(agent, "effect-0", effects=[effect(item.epoch, "0", "Failed")]).must()
    item.apply(agent, "renewal", renewal=renewal(item)).must()
    item.renew(agent).must()
    item.say(stage.who("gitops"), suspend=True).must()


def test_comparing_managers_stops_nobody_who_may_put_them_in_order(stage: Stage) -> None:
    """More managers than a policy may compare: an administrator writes all the same, and resets them."""
    item, chief = stage.held(), stage.who("chief")
    many = [entry(f"effect-{number}", {f"f:{number}": {}}, "Apply") for number in range(800)]
    item.patch(chief, in_metadata({"managedFields": many})).must()
    assert not item.apply(stage.who("agent"), "renewal", renewal=renewal(item)).ok
    item.patch(chief, adds(suspend=True), fieldManager=fresh()).must()
    item.patch(chief, in_metadata({"managedFields": [{}]})).must()
    item.apply(stage.who("agent"), "renewal", renewal=renewal(item)).must()


def test_agents_cannot_write_without_saying_something(stage: Stage) -> None:
    """An agent that may not change the spec cannot move the resourceVersion, and so starves no swap."""
    item, rival = stage.held(), stage.who("rival")
    before = item.read()["metadata"]["resourceVersion"]
    attempts: tuple[dict[str, Any], ...] = (
        {"labels": {"a": fresh()}},
        {"annotations": {"a": fresh()}},
        {"annotations": {LAST_APPLIED: fresh()}},
        {"finalizers": ["example.org/x"]},
        {"ownerReferences": NO_OWNER},
        {"generateName": "x"},
        {"selfLink": "/x"},
        {"managedFields": [{}]},
        {"managedFields": [entry("m", {"f:work": {}})]},
        {"creationTimestamp": "2001-01-01T00:00:00Z"},
        {"deletionTimestamp": "2001-01-01T00:00:00Z"},
        {"deletionGracePeriodSeconds": 0},
        {"generation": 1},
    )
    for metadata in attempts:
        writes(**metadata)(item, rival)
        item.apply(rival, fresh(), work=WORK)
        assert item.read()["metadata"]["resourceVersion"] == before, metadata
