"""What kstatus and Argo CD make of every status that occurs: waiting is in order, and nothing is a broken install."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lupa  # type: ignore[import-untyped]
import pytest
import yaml

import kstatus
from support.cluster import Cluster
from support.gitops import EXAMPLES
from support.offering import WITHIN_SECONDS, Offer, Team, teamed, working
from support.speaking import SHORTEST_LEASE_SECONDS, Work
from support.waiting import wait_for
from support.words import fresh
from worklease.api.handoff import HandoffPhase
from worklease.api.worklease import Phase

Object = dict[str, Any]
PHASES = {*HandoffPhase, *Phase}
HEALTH = "resource.customizations.health.worklease.dev_"


@pytest.fixture(scope="module")
def occurring(cluster: Cluster) -> Iterator[dict[str, Object]]:
    """An object in each phase of each kind, and a few others, as the API server has them."""
    with teamed(cluster) as alone:
        unseen = {
            "Handoff unseen": Offer.make(alone.work(), cluster.admin, alone.bob).read(),
            "WorkLease unseen": alone.work().read(),
        }
    with working(cluster) as team:
        yield unseen | _handoffs(team) | _leases(team)


def _handoffs(team: Team) -> dict[str, Object]:
    """One in each phase; and one that is accepted while there is nothing to hand over."""
    made: dict[str, Offer] = {}
    work, epoch = team.held()
    made["Pending"] = Offer.make(work, team.alice, team.bob)
    made["Rejected"] = Offer.make(work, team.alice, team.bob)
    made["Rejected"].respond(team.bob, "Rejected").must()
    made["Withdrawn"] = Offer.make(work, team.alice, team.bob)
    made["Withdrawn"].respond(team.alice, "Withdrawn").must()
    made["Expired"] = Offer.make(work, team.alice, team.bob, acceptWithinSeconds=1)
    made["Stale"] = Offer.make(work, team.alice, team.bob, epoch=epoch - 1)
    for phase, seconds in {"Accepted": 600, "Lapsed": 1, "Completed": 600}.items():
        work, _ = team.held()
        made[phase] = Offer.make(work, team.alice, team.bob, claimWithinSeconds=seconds)
        made[phase].accept(team.bob)
        if phase == "Completed":
            work.hold(team.bob)
    nothing = Work(team.cluster, team.namespace, f"work-{fresh()}")
    made["answered in vain"] = Offer.make(nothing, team.cluster.admin, team.bob)
    made["answered in vain"].respond(team.bob, "Accepted").must()
    for name, offer in made.items():
        if name in PHASES:
            offer.reaches(name)
    made["Pending"].seen()
    wait_for(
        lambda: made["answered in vain"].status.get("observedGeneration") == 2, "the answer to be seen", WITHIN_SECONDS
    )
    return {f"Handoff {name}": offer.read() for name, offer in made.items()}


def _leases(team: Team) -> dict[str, Object]:
    """One in each phase; one that is suspended, one that is renewed, and one that the operator cannot grant."""
    made = {name: team.held()[0] for name in ("Held", "Released", "Revoked", "Completed", "renewed", "suspended")}
    made["Expired"], _ = team.held(lease_seconds=SHORTEST_LEASE_SECONDS)
    made["Jeopardy"], _ = team.held(lease_seconds=SHORTEST_LEASE_SECONDS, jeopardy_seconds=600)
    made["Available"] = team.work()
    for _ in range(3):
        made["renewed"].renew(team.alice, made["renewed"].epoch).must()
    made["Released"].release(team.alice, made["Released"].epoch).must()
    made["Revoked"].revoke(made["Revoked"].epoch).must()
    made["Completed"].complete(team.alice, made["Completed"].epoch).must()
    made["suspended"].say(team.cluster.admin, suspend=True).must()
    for name, work in made.items():
        if name in PHASES:
            work.reaches(name, within_seconds=WITHIN_SECONDS)
    return {f"WorkLease {name}": work.read() for name, work in made.items()} | {"WorkLease stalled": _stalled(team)}


def _stalled(team: Team) -> Object:
    high = 2**50
    work = team.work(release={"epoch": high, "reason": "restored"})
    work.reaches("Released", within_seconds=WITHIN_SECONDS)
    work.claim(team.alice)
    wait_for(lambda: work.condition("Stalled").startswith("True/"), "the stall", WITHIN_SECONDS)
    return work.read()


def test_every_phase_occurs(occurring: dict[str, Object]) -> None:
    """No phase is left out of what follows."""
    assert {f"Handoff {phase}" for phase in HandoffPhase} | {f"WorkLease {phase}" for phase in Phase} <= set(occurring)
    for name, found in occurring.items():
        kind, _, phase = name.partition(" ")
        assert found["kind"] == kind
        assert found["status"]["phase"] == phase or phase not in PHASES


def test_kstatus_takes_every_phase_for_current(occurring: dict[str, Object]) -> None:
    """Case 34: a Pending handoff does not block, a Stale or Expired one has not failed; only Stalled work has."""
    answer = subprocess.run(
        [kstatus.ensure()], input=json.dumps(list(occurring.values())), capture_output=True, text=True, check=True
    )
    said = dict(zip(occurring, map(json.loads, answer.stdout.splitlines()), strict=True))
    verdicts = {name: one["status"] for name, one in said.items()}
    assert verdicts.pop("WorkLease stalled") == "Failed"
    assert verdicts == dict.fromkeys(verdicts, "Current"), said


def test_kstatus_can_tell_otherwise(occurring: dict[str, Object]) -> None:
    """The program is no yes-man: Ready=False, which no handoff ever has, would be InProgress for ever."""
    stored = json.loads(json.dumps(occurring["Handoff Pending"]))
    stored["status"]["conditions"][0]["status"] = "False"
    answer = subprocess.run([kstatus.ensure()], input=json.dumps([stored]), capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["status"] == "InProgress"


@pytest.fixture(scope="module")
def health() -> Callable[[Object], dict[str, str]]:
    """The health that Argo CD computes for an object, by the Lua of the examples, in a sandbox like its own."""
    config = yaml.safe_load((EXAMPLES / "argocd" / "argocd-cm.yaml").read_text())

    def compute(found: Object) -> dict[str, str]:
        lua = lupa.LuaRuntime(unpack_returned_tuples=True, register_eval=False, register_builtins=False)
        for library in ("os", "io", "package", "debug", "require", "load", "dofile"):
            lua.globals()[library] = None
        lua.globals().obj = lua.table_from(found, recursive=True)
        result = lua.execute(config["data"][HEALTH + found["kind"]])
        return {"status": result.status, "message": result.message}

    return compute


def test_argo_cd_takes_every_phase_for_healthy(
    occurring: dict[str, Object], health: Callable[[Object], dict[str, str]]
) -> None:
    """A waiting, rejected, stale or expired handoff is an answer; only work that the operator cannot grant is not."""
    said = {name: health(found) for name, found in occurring.items()}
    stalled = said.pop("WorkLease stalled")
    assert stalled["status"] == "Degraded"
    assert "raise the operator's epoch floor" in stalled["message"]
    assert {one["status"] for one in said.values()} == {"Healthy"}, said


def test_argo_cd_shows_what_a_person_wants_to_know(
    occurring: dict[str, Object], health: Callable[[Object], dict[str, str]]
) -> None:
    """The phase, who holds, and why a handoff came to nothing."""
    assert health(occurring["Handoff Stale"])["message"].startswith("Stale: EpochMoved: ")
    assert health(occurring["Handoff unseen"])["message"] == "Pending"
    held = occurring["WorkLease Held"]
    assert health(held)["message"] == f"Held by {held['status']['holderIdentity']}"
    assert health(occurring["WorkLease suspended"])["message"].endswith(", suspended: no new claims")


def test_argo_cd_is_told_every_statement_that_is_no_difference() -> None:
    """ignoreDifferences names what agents say and the operator decides, and nothing that Git lists."""
    application = yaml.safe_load((EXAMPLES / "argocd" / "application.yaml").read_text())
    ignored = {one["kind"]: set(one["jsonPointers"]) for one in application["spec"]["ignoreDifferences"]}
    statements = {"claim", "renewal", "checkpoint", "effects", "release", "completion"}
    assert ignored["WorkLease"] == {f"/spec/{name}" for name in statements} | {"/status"}
    assert ignored["Handoff"] == {"/spec/response", "/status"}
    for path in Path(EXAMPLES).glob("*.yaml"):
        for manifest in yaml.safe_load_all(path.read_text()):
            pointers = {f"/spec/{name}" for name in manifest.get("spec", {})}
            assert not pointers & ignored.get(manifest["kind"], set())
