"""A release in a cluster of its own: installed, upgraded from older CRDs, and uninstalled with the data left there."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import PEOPLE, ControlPlane, operator_token
from support import documents
from support.api import WORKLEASES
from support.cluster import Cluster
from support.helm import CHART, NAMESPACE, RELEASE, Helm
from support.markdown import blocks
from support.operators import OPERATOR, operating
from support.speaking import Agent, Work
from support.waiting import wait_for
from support.words import adds

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEAM = "billing"
INSTALLING = "docs/installing.md"
INSTALL = ("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--create-namespace")
UPGRADE = ("upgrade", RELEASE, str(CHART), f"--namespace={NAMESPACE}")
UNINSTALL = ("uninstall", RELEASE, f"--namespace={NAMESPACE}")


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster in which nothing of worklease has been installed. It has no kubelet."""
    with ControlPlane(users=PEOPLE, controller_manager=True) as plane:
        yield Cluster(plane.kubeconfig, plane.kubectl, tmp_path_factory.mktemp("kubeconfigs"))


@pytest.fixture
def here(helm: Helm, empty: Cluster) -> Iterator[Helm]:
    """helm for that cluster; no release is left in it."""
    if not empty.api.get(f"/api/v1/namespaces/{TEAM}").ok:
        empty.api.create("/api/v1/namespaces", {"metadata": {"name": TEAM}}).must()
    here = replace(helm, kubeconfig=empty.kubeconfig)
    yield here
    here.run(*UNINSTALL, "--ignore-not-found")


def _served(cluster: Cluster) -> None:
    wait_for(lambda: cluster.api.get(WORKLEASES.format(TEAM)).ok, "WorkLeases to be served")


@contextlib.contextmanager
def _operating(cluster: Cluster, namespace: str = TEAM) -> Iterator[None]:
    """The operator by the account of the release that is there now: an earlier one's token is worth nothing."""
    token = operator_token(cluster.kubeconfig, cluster.kubectl_path)
    with operating(cluster, namespace, kubeconfig=cluster.as_token(OPERATOR, token).kubeconfig):
        yield


def _agent(cluster: Cluster, name: str) -> Agent:
    return Agent.of(cluster.service_account(TEAM, name, "worklease-agent"))


def _enforced(cluster: Cluster) -> None:
    """Waits until a claim in somebody else's name is refused."""
    work, liar = Work.create(cluster, TEAM), _agent(cluster, "liar")

    def refused() -> bool:
        lie = adds(claim=liar.claim(work.epoch, holderIdentity="somebody-else"))
        answer = liar.identity.api.patch(work.path, lie, dryRun="All")
        return answer.status == 403 and "needs the verb delegate" in answer.message

    wait_for(refused, "the policies to be in force")


def _crd(cluster: Cluster, name: str = "workleases.worklease.dev") -> dict[str, Any]:
    return cluster.api.get(f"{CRDS}/{name}").must()


def test_after_an_install_leases_are_granted(here: Helm, empty: Cluster) -> None:
    """With the chart's own account and role, agents by a role of the chart; and the notes say what to type."""
    notes = here.must(*INSTALL)
    assert "helm test worklease -n worklease-system" in notes
    _served(empty)
    with _operating(empty):
        work, agent = Work.create(empty, TEAM), _agent(empty, "a")
        epoch = work.hold(agent)
        assert work.renew(agent, epoch).ok
        assert work.complete(agent, epoch).ok
        work.reaches("Completed")
    _enforced(empty)


def test_a_second_release_is_refused_and_told_of_the_first(here: Helm, empty: Cluster) -> None:
    """Two operators with two floors would be one too many; the first goes on unharmed."""
    here.must(*INSTALL)
    before = _crd(empty)["metadata"]["resourceVersion"]
    refusal = here.refused("install", "another", str(CHART), "--namespace=default")
    assert (
        "worklease is installed in this cluster already, as release worklease in namespace worklease-system" in refusal
    )
    assert "helm upgrade worklease -n worklease-system" in refusal
    assert _crd(empty)["metadata"]["resourceVersion"] == before
    assert here.must("list", "--all-namespaces", "--short").split() == [RELEASE]


def test_a_second_copy_by_other_means_harms_no_lease(here: Helm, empty: Cluster) -> None:
    """GitOps renders without asking the cluster, so nothing refuses it: the operator whose role went to the other one
    says so and waits, the other decides, and no tenure ends or moves.
    """
    here.must(*INSTALL)
    _served(empty)
    agent = _agent(empty, "c")
    token = operator_token(empty.kubeconfig, empty.kubectl_path)
    with operating(empty, TEAM, kubeconfig=empty.as_token(OPERATOR, token).kubeconfig) as first:
        work = Work.create(empty, TEAM)
        epoch = work.hold(agent)
        empty.api.create("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}}).must()
        copy = here.must("template", "another", str(CHART), "--namespace=elsewhere")
        answer = empty.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=copy)
        assert answer.exit_code == 0, answer.stderr
        wait_for(lambda: "may not" in first.get("/readyz")[1], "the first operator to say what it lacks", 90)
        other = empty.kubectl("create", "token", "worklease-operator", "--namespace=elsewhere")
        theirs = empty.as_token("system:serviceaccount:elsewhere:worklease-operator", other.stdout.strip())
        with operating(empty, TEAM, kubeconfig=theirs.kubeconfig):
            assert work.renew(agent, epoch).ok
            assert (work.status["phase"], work.epoch) == ("Held", epoch)
            later = Work.create(empty, TEAM)
            assert later.hold(agent) > epoch
            assert len(later.history) == 1
    empty.kubectl("delete", "--ignore-not-found", "-f", "-", given=copy)
    empty.kubectl("delete", "namespace", "elsewhere", "--wait=false")


def test_an_upgrade_renews_the_crds_while_a_lease_is_held(here: Helm, empty: Cluster) -> None:
    """Helm leaves the folder crds/ of a chart alone, so ours are templates: an older one gets today's schema."""
    here.must(*INSTALL)
    _served(empty)
    with _operating(empty):
        work, agent = Work.create(empty, TEAM, lease_seconds=60), _agent(empty, "b")
        epoch = work.hold(agent)
        today = _crd(empty)["spec"]
        older = _older(_crd(empty))
        empty.api.replace(f"{CRDS}/workleases.worklease.dev", older).must()
        takes_back = [] if here.must("version", "--short").startswith("v3") else ["--force-conflicts"]
        here.must(*UPGRADE, *takes_back, "--set=replicas=3")
        assert _crd(empty)["spec"] == today
        wait_for(lambda: work.renew(agent, epoch).ok, "a renewal with today's schema")
        assert work.status["phase"] == "Held"
        assert work.epoch == epoch


def _older(crd: dict[str, Any]) -> dict[str, Any]:
    """The CRD as a version might have had it that knew neither checkpoints nor a printed column."""
    (version,) = crd["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["checkpoint"]
    version["schema"]["openAPIV3Schema"].pop("x-kubernetes-validations", None)
    version["schema"]["openAPIV3Schema"]["properties"]["spec"].pop("x-kubernetes-validations", None)
    version["additionalPrinterColumns"] = version["additionalPrinterColumns"][:1]
    return crd


def test_crds_that_kubectl_installed_are_taken_over(here: Helm, empty: Cluster) -> None:
    """With the flag that helm has for it; without, helm refuses and changes nothing."""
    here.must(*INSTALL)
    here.must(*UNINSTALL)
    for name in ("workleases.worklease.dev", "handoffs.worklease.dev"):
        bare = {"metadata": {"annotations": None, "labels": None}}
        empty.api.patch(f"{CRDS}/{name}", bare, "application/merge-patch+json").must()
    assert "invalid ownership metadata" in here.refused(*INSTALL)
    here.run(*UNINSTALL, "--ignore-not-found")
    here.must(*INSTALL, "--take-ownership")
    assert _crd(empty)["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_an_uninstall_leaves_crds_and_data(here: Helm, empty: Cluster) -> None:
    """Case 32: it does not hang, held or not, with the operator gone first or last; a later install finds all of it."""
    here.must(*INSTALL)
    _served(empty)
    with _operating(empty):
        work, agent = Work.create(empty, TEAM, lease_seconds=600), _agent(empty, "c")
        epoch = work.hold(agent)
        kept = here.must(*UNINSTALL)
        assert "[CustomResourceDefinition] workleases.worklease.dev" in kept
    assert empty.api.get("/apis/apps/v1/namespaces/worklease-system/statefulsets").must()["items"] == []
    assert work.epoch == epoch
    assert "finalizers" not in work.read()["metadata"]
    here.must(*INSTALL)
    again = _agent(empty, "c")
    with _operating(empty):
        assert work.say(replace(again, instance=agent.instance), release={"epoch": epoch, "reason": "done"}).ok
        work.reaches("Released")


def test_the_crds_can_be_deleted_before_the_release(here: Helm, empty: Cluster) -> None:
    """Case 32: in this order too nothing hangs; the data goes with the CRDs, as whoever deletes them wants."""
    here.must(*INSTALL)
    _served(empty)
    Work.create(empty, TEAM)
    answer = empty.kubectl("delete", "crd", "workleases.worklease.dev", "handoffs.worklease.dev", "--timeout=60s")
    assert answer.exit_code == 0, answer.stderr
    here.must(*UNINSTALL)
    assert not empty.api.get(f"{CRDS}/workleases.worklease.dev").ok


def test_the_page_on_installing_is_true(here: Helm, empty: Cluster, tmp_path: Path) -> None:
    """Its commands, word for word and in their order, from nothing to a granted lease and back to nothing."""
    assert set(blocks(INSTALLING)) == {"install", "first", "upgrade", "uninstall", "remove"}
    empty.kubectl("delete", "crd", "workleases.worklease.dev", "handoffs.worklease.dev", "--ignore-not-found")
    empty.kubectl("delete", "namespace", TEAM, "--ignore-not-found")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "helm").symlink_to(here.program)

    def typed(name: str) -> None:
        answer = documents.run(blocks(INSTALLING)[name], empty, empty.admin, "default", tmp_path)
        assert answer.returncode == 0, answer.stderr

    typed("install")
    _served(empty)
    typed("first")
    work = Work(empty, TEAM, "invoice-42")
    agent = Agent.of(empty.service_account(TEAM, "d"))
    with _operating(empty):
        wait_for(lambda: agent.identity.api.get(work.path).ok, "the role binding to be in force")
        work.hold(agent)
        typed("upgrade")
        assert work.status["phase"] == "Held"
    typed("uninstall")
    assert work.status["phase"] == "Held"
    typed("remove")
    assert not empty.api.get(f"{CRDS}/workleases.worklease.dev").ok


def test_the_test_of_the_release_can_be_run(here: Helm, empty: Cluster) -> None:
    """Its hooks are taken by the API server, and its command by worklease; there is no kubelet here to run the pod."""
    here.must(*INSTALL)
    _served(empty)
    hooks = [
        hook for hook in yaml.safe_load_all(here.must("get", "hooks", RELEASE, f"--namespace={NAMESPACE}")) if hook
    ]
    for hook in hooks:
        created = empty.kubectl("create", f"--namespace={NAMESPACE}", "-f", "-", given=hook)
        assert created.exit_code == 0, created.stderr
    (pod,) = [hook for hook in hooks if hook["kind"] == "Pod"]
    name, *arguments = pod["spec"]["containers"][0]["command"]
    kubeconfig = f"--kubeconfig={empty.service_account(NAMESPACE, 'worklease-test').kubeconfig}"
    empty.kubectl(kubeconfig, "config", "set-context", "--current", f"--namespace={NAMESPACE}")
    with _operating(empty, NAMESPACE):
        answer = subprocess.run(
            [str(Path(sys.prefix) / "bin" / name), *arguments],
            env={"KUBECONFIG": kubeconfig.partition("=")[2], "PATH": f"{sys.prefix}/bin"},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert answer.returncode == 0, answer.stderr
