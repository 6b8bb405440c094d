"""What somebody without the right reads, in a pod and at a terminal."""

from __future__ import annotations

from support.cluster import Cluster
from support.pods import Pods
from worklease.cli.exits import Exit

WORK = {
    "apiVersion": "worklease.dev/v1alpha1",
    "kind": "WorkLease",
    "metadata": {"name": "invoice-42"},
    "spec": {"work": {"type": "invoice", "id": "42"}},
}


def test_who_may_not_speak_is_told_so_in_one_line(cluster: Cluster, namespace: str, pods: Pods) -> None:
    """Without a role a pod's hold ends at once; an agent revokes nothing and deletes nothing (cases 13 and 14)."""
    cluster.service_account(namespace, "stranger")
    agent = cluster.service_account(namespace, "agent", "worklease-agent")
    cluster.kubectl("-n", namespace, "create", "-f", "-", given=WORK)
    hold = ("worklease", "hold", "invoice-42", "--purpose=try", "--", "worklease", "--version")
    stranger = pods.run("stranger", "stranger", *hold)
    assert stranger.exit_code == Exit.REFUSED, stranger.log
    (line,) = stranger.log.splitlines()
    assert "the verb get on workleases is missing" in line
    assert f"system:serviceaccount:{namespace}:stranger" in line
    revoked = pods.run("agent", "agent", "worklease", "revoke", "invoice-42", "--reason=mine")
    assert revoked.exit_code == Exit.REFUSED, revoked.log
    assert len(revoked.log.splitlines()) == 1
    deleted = cluster.kubectl("-n", namespace, "delete", "worklease", "invoice-42", identity=agent)
    assert deleted.exit_code
    assert "Error from server (Forbidden)" in deleted.stderr
