"""What the API server makes of the schema: names, explanations, columns, selectors, defaults, refused values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.cluster import Cluster, KubectlAnswer
from support.refusals.states import available, held, then
from support.statements import ADMIN, ALICE, BOB, OPERATOR, Scene, claims, decides, renews
from support.words import fresh, handoff_manifest, work_manifest
from worklease.api.group import API_VERSION, GROUP

Kubectl = Callable[..., KubectlAnswer]


def printed(answer: KubectlAnswer) -> str:
    """What a kubectl command that succeeded printed."""
    assert answer.exit_code == 0, answer.stderr
    return answer.stdout


@pytest.mark.parametrize("name", [f"workleases.{GROUP}", "wl", f"handoffs.{GROUP}", "ho", "worklease", "handoff"])
def test_kind_answers_to_its_names(name: str, scene: Scene, kubectl: Kubectl) -> None:
    """Plural, singular and short names reach each kind."""
    printed(kubectl("get", name, "--namespace", scene.namespace))


def test_category_lists_both_kinds(kubectl: Kubectl) -> None:
    """`kubectl get worklease-all` reads both; no name of a kind is a category, which kubectl would take first."""
    resources = printed(kubectl("api-resources", "--api-group", GROUP, "--categories=worklease-all", "-o", "name"))
    assert sorted(resources.split()) == [f"handoffs.{GROUP}", f"workleases.{GROUP}"]


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("worklease.spec.claim", ["A request to become the holder", "holderIdentity", "the authenticated username"]),
        ("worklease.spec.renewal", ["no decision is made from it"]),
        ("worklease.spec.effects", ["written before it is sent", "a good idempotency key"]),
        ("worklease.status", ["The fencing epoch of the latest grant"]),
        ("worklease.status.history", ["The last 16 tenures", "checkpointDigest", "longestGapSeconds"]),
        ("worklease.status.history.effects", ["nobody knows with what outcome"]),
        ("handoff.spec", ["The offer, immutable", "Who may accept, and then claim", "acceptWithinSeconds"]),
        ("handoff.spec.response", ["Accepted, Rejected or Withdrawn"]),
    ],
)
def test_kubectl_explains_the_field(field: str, says: list[str], kubectl: Kubectl) -> None:
    """`kubectl explain` says what a field means, and every field below it has a description."""
    text = printed(kubectl("explain", f"--api-version={API_VERSION}", field))
    flowing = " ".join(text.split())
    assert not [words for words in says if words not in flowing]
    assert "<no description>" not in text


def test_table_shows_who_holds_and_since_when(scene: Scene, kubectl: Kubectl) -> None:
    """`kubectl get` shows phase, holder, epoch, since when, and with -o wide the process and the work."""
    work = scene.work()
    held(work)
    heads, row = printed(kubectl("get", "wl", work.name, "--namespace", scene.namespace)).splitlines()
    assert heads.split() == ["NAME", "PHASE", "HOLDER", "EPOCH", "SINCE", "SUSPENDED", "AGE"]
    assert row.split()[:4] == [work.name, "Held", work.username(ALICE), str(work.epoch)]
    wide, _ = printed(kubectl("get", "wl", work.name, "--namespace", scene.namespace, "-o", "wide")).splitlines()
    assert wide.split()[-4:] == ["WORK", "INSTANCE", "RENEWED", "REASON"]


def test_work_is_selected_by_its_state_and_identity(scene: Scene, kubectl: Kubectl) -> None:
    """status.phase, status.holderIdentity, spec.work.type and spec.work.id select."""
    mine, free = scene.work(), scene.work()
    held(mine)
    available(free)

    def selected(selector: str) -> set[str]:
        command = ("get", "wl", "--namespace", scene.namespace, "--field-selector", selector, "-o", "name")
        return {line.partition("/")[2] for line in printed(kubectl(*command)).split()}

    assert {mine.name, free.name} & selected("status.phase=Held") == {mine.name}
    assert {mine.name, free.name} & selected("status.phase!=Held") == {free.name}
    assert {mine.name, free.name} & selected(f"status.holderIdentity={mine.username(ALICE)}") == {mine.name}
    assert selected(f"spec.work.id={free.name}") == {free.name}
    assert {mine.name, free.name} <= selected("spec.work.type=task")
    assert selected(f"spec.work.id={mine.name},status.phase=Available") == set()


def test_inbox_is_one_selector(cluster: Cluster, scene: Scene, kubectl: Kubectl) -> None:
    """Who is offered work finds it without the operator: a new handoff is Pending."""
    target = f"to-{fresh()}"
    path = f"/apis/{API_VERSION}/namespaces/{scene.namespace}/handoffs"
    for name, to in (("for-me", target), ("for-another", "another")):
        body = handoff_manifest(f"{name}-{target}", to={"holderIdentity": to})
        created = cluster.api.create(path, body).must()
        assert created["status"] == {"phase": "Pending"}
        assert (created["spec"]["acceptWithinSeconds"], created["spec"]["claimWithinSeconds"]) == (3600, 300)
    selector = f"spec.to.holderIdentity={target},status.phase=Pending"
    found = printed(kubectl("get", "ho", "--namespace", scene.namespace, "--field-selector", selector, "-o", "name"))
    assert found.split() == [f"handoff.{GROUP}/for-me-{target}"]


def test_new_work_begins_with_the_documented_defaults(scene: Scene) -> None:
    """Ten minutes, half a minute of jeopardy, open for claims, no effects; Available at epoch 0."""
    created = scene.work().create(ADMIN, {}).must()
    assert {name: value for name, value in created["spec"].items() if name != "work"} == {
        "leaseDurationSeconds": 600,
        "jeopardyDurationSeconds": 30,
        "suspend": False,
        "effects": [],
    }
    assert created["status"] == {"phase": "Available", "epoch": 0}


def test_new_work_is_born_without_the_status_that_it_brings(scene: Scene) -> None:
    """A status in a create has no effect, be it a restored backup's or an invented one."""
    work = scene.work()
    body = {**work_manifest(work.name), "status": {"phase": "Completed", "epoch": 7}}
    created = scene.voices[ADMIN].api.create(scene.collection, body).must()
    assert created["status"] == {"phase": "Available", "epoch": 0}


def test_spec_write_leaves_status_alone(scene: Scene) -> None:
    """What is written beside a statement under /status is dropped: only the operator decides."""
    work = scene.work()
    held(work)
    whole = work.read()
    whole["status"] = {"phase": "Available", "epoch": 0}
    whole["spec"]["renewal"] = {"epoch": work.epoch, "renewTime": "2026-11-30T17:54:30Z"}
    scene.voices[ALICE].api.replace(work.path, whole).must()
    assert work.read()["status"]["phase"] == "Held"
    assert scene.voices[ALICE].api.patch(f"{work.path}/status", []).status == 403


READABLE = (
    "2026-11-30T17:54:30Z",
    "2026-11-30T17:54:30.1Z",
    "2026-11-30T17:54:30.123456789Z",
    "2999-12-31T23:59:59.999Z",
    "2028-02-29T00:00:00Z",
)
UNREADABLE = (
    "2026-11-30t17:54:30Z",
    "2026-11-30T17:54:30z",
    "2026-11-30T17:54:30+00:00",
    "2026-11-30T17:54:30+99:99",
    "2026-11-30T17:54:30,5Z",
    "2026-11-30T17:54:30.1234567890Z",
    "2026-11-30T24:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2027-02-29T00:00:00Z",
    "1999-12-31T23:59:59Z",
    "20261130T175430Z",
    "2026-11-30T17:54:30Z ",
    "now",
    "",
)


@pytest.mark.parametrize("time", READABLE)
def test_time_of_the_protocol_is_stored_and_converted(time: str, scene: Scene) -> None:
    """Every time that is admitted can be converted by the rules: the refusal of a claim computes with it."""
    work = scene.work()
    then(held, (ALICE, renews(renewTime=time)))(work)
    assert work.read()["spec"]["renewal"]["renewTime"] == time
    refusal = claims()(work, BOB)
    assert refusal.status == 422
    assert re.search(r"work is leased until about [23][0-9]{3}-", refusal.message)


@pytest.mark.parametrize("time", UNREADABLE)
def test_time_that_a_rule_could_not_convert_is_refused(time: str, scene: Scene) -> None:
    """It is refused before it is stored, in statements and in status: stored, it would lock out every later write."""
    work = scene.work()
    held(work)
    for answer in (renews(renewTime=time)(work, ALICE), decides(acquireTime=time)(work, OPERATOR)):
        assert answer.status == 422, answer.message
        assert "Time" in answer.message
    renews()(work, ALICE).must()
    decides(phase="Jeopardy")(work, OPERATOR).must()


REFUSED_VALUES: dict[str, Any] = {
    "an id with a space": ("claim", {"id": "a b"}),
    "an id of 65 characters": ("claim", {"id": "a" * 65}),
    "no id": ("claim", {"id": ""}),
    "an identity with a line break": ("claim", {"holderIdentity": "alice\nbob"}),
    "an identity of 513 characters": ("claim", {"holderIdentity": "a" * 513}),
    "an instance of 321 characters": ("claim", {"instance": "i" * 321}),
    "a purpose of 1025 characters": ("claim", {"purpose": "p" * 1025}),
    "a purpose with an escape (case 26)": ("claim", {"purpose": "\u001b[2J"}),
    "a negative epoch": ("claim", {"epoch": -1}),
    "an epoch with nothing above it": ("claim", {"epoch": 2**52 + 1}),
    "an epoch in words": ("claim", {"epoch": "1"}),
    "a fraction of an epoch": ("claim", {"epoch": 1.5}),
}


@pytest.mark.parametrize("value", REFUSED_VALUES)
def test_value_out_of_bounds_is_refused(value: str, scene: Scene) -> None:
    """A value that does not fit names its field, and nothing is stored (case 26)."""
    work = scene.work()
    available(work)
    statement, changes = REFUSED_VALUES[value]
    (field,) = changes
    answer = (
        claims(**changes)(work, ADMIN) if "epoch" not in changes else claims(lambda _: changes["epoch"])(work, ADMIN)
    )
    assert answer.status == 422
    assert f"spec.{statement}.{field}" in answer.message
    assert statement not in work.read()["spec"]


@pytest.mark.parametrize("field", ["epoch", "id", "holderIdentity", "instance", "purpose"])
def test_statement_has_no_optional_field(field: str, scene: Scene) -> None:
    """A claim that leaves something out is refused: nothing is ever inherited or assumed."""
    work = scene.work()
    available(work)
    (operation,) = claims().operations(work, ALICE)
    del operation["value"][field]
    answer = work.patch(ALICE, [operation])
    assert answer.status == 422
    assert f"spec.claim.{field}: Required value" in answer.message
