"""The live check against a real API server: what it needs, and that it follows the lease."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity
from support.staging import staged
from worklease.errors import MarkUnavailable, NoStanding
from worklease.fencing import live, standing, verify
from worklease.fencing.live import ApiServer


def reader(cluster: Cluster, identity: Identity, directory: Path) -> ApiServer:
    """What a pod of this identity would use."""
    file = directory / "token"
    file.write_text(identity.token)
    return ApiServer(cluster.server, cluster.ca_file, file)


def test_the_check_follows_the_lease(cluster: Cluster, tmp_path: Path) -> None:
    """A held epoch verifies; from the instant its release is stated, and after the next grant, it does not."""
    with staged(cluster) as stage:
        item = stage.held()
        lease, epoch = f"{stage.namespace}/{item.name}", item.epoch
        recipient = reader(cluster, stage.who("viewer"), tmp_path)
        verify(lease, epoch, recipient.read)
        asyncio.run(asyncio.to_thread(verify, lease, epoch, recipient.read))
        standing(item.read(), lease, epoch)
        with pytest.raises(NoStanding, match=f"the epoch of the lease is {epoch}"):
            verify(lease, epoch + 1, recipient.read)
        item.say(stage.who("agent"), release={"epoch": epoch, "reason": "done"}).must()
        with pytest.raises(NoStanding, match="it is released"):
            verify(lease, epoch, recipient.read)
        item.end("Released")
        with pytest.raises(NoStanding, match="the lease is Released"):
            verify(lease, epoch, recipient.read)
        with pytest.raises(NoStanding, match="the epoch of the lease is 0"):
            verify(f"{stage.namespace}/no-such-work", 7, recipient.read)


def test_in_a_pod_nothing_has_to_be_given(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment and the files of a pod's ServiceAccount are enough."""
    with staged(cluster) as stage:
        item = stage.held()
        (tmp_path / "token").write_text(stage.who("viewer").token)
        (tmp_path / "ca.crt").write_text(cluster.ca_file.read_text())
        host, _, port = cluster.server.removeprefix("https://").rpartition(":")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
        monkeypatch.setattr(live, "ACCOUNT", tmp_path)
        verify(f"{stage.namespace}/{item.name}", item.epoch)


def test_without_the_right_to_look_nothing_is_known(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """403 and 401 are refusals that say what is missing, not standing."""
    stranger = cluster.service_account(namespace, "stranger")
    recipient = reader(cluster, stranger, tmp_path)
    with pytest.raises(MarkUnavailable, match="bind the role worklease-viewer"):
        verify(f"{namespace}/invoice-42", 7, recipient.read)
    recipient.token_file.write_text("nonsense")
    with pytest.raises(MarkUnavailable, match="does not accept this token"):
        verify(f"{namespace}/invoice-42", 7, recipient.read)
