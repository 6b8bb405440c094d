"""Runs the blocks of the documentation, word for word, as somebody who types them (see markdown.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.cluster import Cluster, Identity

WITHIN_SECONDS = 120.0


def run(
    text: str,
    cluster: Cluster,
    identity: Identity,
    namespace: str,
    directory: Path,
    *,
    by: Sequence[str] = ("bash", "-euo", "pipefail", "-c"),
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Runs the text in `namespace` as `identity`, with bash unless told otherwise; the first failure ends it."""
    kubectl = directory / "bin" / "kubectl"
    kubectl.parent.mkdir(exist_ok=True)
    if not kubectl.exists():
        kubectl.symlink_to(cluster.kubectl_path)
    kubeconfig = directory / f"kubeconfig-{identity.username.replace(':', '-')}"
    kubeconfig.write_bytes(identity.kubeconfig.read_bytes())
    context = [str(cluster.kubectl_path), f"--kubeconfig={kubeconfig}", "config", "set-context", "--current"]
    subprocess.run([*context, f"--namespace={namespace}"], check=True, capture_output=True)
    path = os.pathsep.join([str(kubectl.parent), str(Path(sys.prefix) / "bin"), os.environ["PATH"]])
    return subprocess.run(
        [*by, text],
        capture_output=True,
        text=True,
        timeout=WITHIN_SECONDS,
        check=False,
        env={"PATH": path, "HOME": str(directory), "KUBECONFIG": str(kubeconfig), **variables},
    )
