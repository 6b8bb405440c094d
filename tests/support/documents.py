"""Runs the blocks of the documentation, word for word: those after a comment `<!-- run: NAME -->`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.cluster import Cluster, Identity

REPOSITORY = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- run: (?P<name>[a-z-]+) -->\n```(?:sh|python)\n(?P<text>.*?)```", re.DOTALL)
WITHIN_SECONDS = 120.0


def block(document: str, name: str) -> str:
    """The one block of that name in the document."""
    found = [match["text"] for match in BLOCK.finditer((REPOSITORY / document).read_text()) if match["name"] == name]
    assert len(found) == 1, f"{document} has {len(found)} blocks named {name}"
    return found[0]


def names(document: str) -> set[str]:
    """The names of all blocks that are to be run."""
    return {match["name"] for match in BLOCK.finditer((REPOSITORY / document).read_text())}


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
