"""Every check of every policy is needed: without it, something that it refuses is admitted."""

import contextlib
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from cluster import (
    test_who_may_speak_deletion,
    test_who_may_speak_handoffs,
    test_who_may_speak_metadata,
    test_who_may_speak_statements,
)
from support.cluster import Cluster
from support.stage import CHECKS, WORK, Row, Stage
from support.staging import strike
from support.waiting import wait_for
from worklease.api import crd, group, handoff, policies, roles, worklease

TABLES = (
    test_who_may_speak_statements.ROWS,
    test_who_may_speak_metadata.ROWS,
    test_who_may_speak_handoffs.ROWS,
    test_who_may_speak_deletion.ROWS,
)
GROUP = "z-mutants.worklease.dev"
"""It sorts behind the real one, which kubectl then takes for what other tests call by its short name."""
MUTANT = "worklease.dev/without"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CUSTOM = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def rows_by_check() -> dict[str, list[Row]]:
    """The rows of all tables that each check refuses."""
    found: dict[str, list[Row]] = {name: [] for name in CHECKS}
    for table in TABLES:
        for row in table:
            if row.refused:
                found[row.refused].append(row)
    return found


def test_every_check_refuses_something() -> None:
    """A row of the tables meets each check, and says its message."""
    assert [name for name, rows in rows_by_check().items() if not rows] == []


def test_names_and_messages_tell_checks_apart() -> None:
    """A message is one check's alone, so that a row knows which of them refused."""
    assert len({check.message for check in CHECKS.values()}) == len(CHECKS)
    assert len([check for policy in policies.POLICIES[:2] for check in policy.checks]) == len(
        {check.name for policy in policies.POLICIES[:2] for check in policy.checks}
    )


def test_every_field_of_spec_has_a_speaker() -> None:
    """A field that is added to a spec must be given to somebody: none is anybody's by accident."""
    spoken = {*policies.STATEMENTS, *policies.SETTINGS, "work"}
    assert set(crd_properties(crd.worklease_crd())) == spoken
    immutable = {field.alias or name for name, field in handoff.HandoffSpec.model_fields.items()} - {"response"}
    assert set(crd_properties(crd.handoff_crd())) == immutable | {"response"}
    assert {phase.value for phase in worklease.LEASED} == {"Held", "Jeopardy"}


def crd_properties(definition: dict[str, Any]) -> dict[str, Any]:
    """The fields of spec."""
    (version,) = definition["spec"]["versions"]
    assert set(version["subresources"]) == {"status"}, "a subresource that no policy sees"
    fields: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return fields


def test_api_server_finds_no_fault_with_the_policies(cluster: Cluster) -> None:
    """The API server checks each expression against the CRDs' schemas and warns of none."""
    for policy in policies.POLICIES:
        path = f"{ADMISSION}/validatingadmissionpolicies/{policy.name}.{group.GROUP}"

        def checked(path: str = path) -> bool:
            found = cluster.api.get(path).must()
            return bool(found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"])

        wait_for(checked, f"{policy.name} to be checked")
        assert cluster.api.get(path).must()["status"]["typeChecking"] == {}


@pytest.fixture
def mutants(cluster: Cluster) -> Iterator[dict[str, Stage]]:
    """Our kinds once more in another group, and a namespace for each check, where that check alone is missing."""
    run = secrets.token_hex(3)
    made: list[str] = []
    stages: dict[str, Stage] = {}
    namespaces = contextlib.ExitStack()

    def create(path: str, body: dict[str, Any]) -> None:
        cluster.api.create(path, body).must()
        made.append(f"{path}/{body['metadata']['name']}")

    try:
        for definition in crd.manifests():
            create(CUSTOM, json.loads(json.dumps(definition).replace(group.GROUP, GROUP)))
        for manifest in roles.manifests(GROUP):
            if manifest["apiVersion"].startswith("rbac"):
                body = json.loads(json.dumps(manifest).replace('"worklease-', f'"{run}-worklease-'))
                for subject in body.get("subjects", []):
                    subject.update(manifest["subjects"][0])
                create(f"{RBAC}/{manifest['kind'].lower()}s", body)
        for check in [*CHECKS, ""]:  # the last one lacks none: when it is in force, so are all before it
            labels = {MUTANT: check or "none"}
            namespace = cluster.namespace(f"mutant-{check.replace('.', '-') or 'none'}", labels)
            stages[check] = Stage(cluster, namespaces.enter_context(namespace), GROUP, f"{run}-")
            for manifest in policies.manifests(GROUP, without=[check]):
                create(
                    f"{ADMISSION}/{PLURAL[manifest['kind']]}", confined(manifest, f"{run}-{check or 'none'}", labels)
                )
        wait_for(lambda: cluster.api.get(stages[""].path("workleases")).ok, "the kinds to be served")
        wait_for(lambda: owned_is_refused(stages[""]), "the policies to be in force")
        yield stages
    finally:
        for stage in stages.values():
            strike(stage)
        namespaces.close()
        for path in reversed(made):
            cluster.api.delete(path)


PLURAL = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def confined(manifest: dict[str, Any], prefix: str, labels: dict[str, str]) -> dict[str, Any]:
    """The policy or binding under another name, for the namespaces with these labels."""
    body: dict[str, Any] = json.loads(json.dumps(manifest))
    body["metadata"]["name"] = f"{prefix}.{body['metadata']['name']}"
    if body["kind"].endswith("Binding"):
        body["spec"]["policyName"] = f"{prefix}.{body['spec']['policyName']}"
        body["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": labels}}
    return body


def owned_is_refused(stage: Stage) -> bool:
    """Whether the policies of a namespace are in force."""
    spec = {"work": WORK}
    _, answer = stage.create(stage.who("creator"), "workleases", spec, finalizers=["example.org/x"])
    return answer.status == 403


def test_every_check_is_needed(mutants: dict[str, Stage]) -> None:
    """Where one check alone is missing, something that it refuses elsewhere is admitted."""
    needless = {}
    for name, rows in rows_by_check().items():
        answers = [row.answer(mutants[name]) for row in rows]
        if not any(answer.ok for answer in answers):
            needless[name] = [answer.message for answer in answers]
    assert needless == {}
