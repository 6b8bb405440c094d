"""What is there before the story begins: a namespace, agents with their own accounts, and a running operator."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from onecluster import cluster, namespace, operator

from .stage import Stage

AGENTS = ("agent-a", "agent-b", "agent-c", "agent-d")
ROLE = "worklease-agent-creator"


@contextlib.contextmanager
def stage(given: Path | None) -> Iterator[Stage]:
    """A stage with an operator behind it; everything that it needed is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="worklease-demo-") as temporary, cluster(given) as access:
        directory = Path(temporary)
        name = f"demo-{secrets.token_hex(3)}" if given else "demo"
        with namespace(access, directory / "kubeconfig", name) as contexts:
            for agent in AGENTS:
                contexts.add_agent(agent, ROLE)
            with operator(contexts, directory / "operator.log"):
                yield Stage(access.kubectl, contexts.path, name)
