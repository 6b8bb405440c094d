"""What hack/bench does: measures on one server in one run, and prints. Compare ratios: machines differ."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

from onecluster import Contexts, cluster, namespace, operator
from worklease.kube.credentials import Source
from worklease.kube.session import Session

from . import ceiling, client, fencing, handoffs, leases, mcp, peers, writes
from .world import World

SECTIONS = (
    "renewals", "ceiling", "grants", "expiries", "handoffs", "cost", "writes", "client", "mcp", "fencing", "peers",
)  # fmt: skip
HELD = {"cost": (1000, 10000), "writes": writes.HELD}
AGENT = "bench"
ROLE = "worklease-gitops"


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0; a figure is never a failure."""
    parser = argparse.ArgumentParser(prog="hack/bench", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="measure on this cluster instead of starting a control plane")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="measure this only; may be repeated")
    parser.add_argument(
        "--held",
        action="append",
        type=int,
        metavar="N",
        help="with how many held leases to measure cost (default 1000 and 10000) and writes (100 and 1000)",
    )
    options = parser.parse_args(arguments)
    sections = options.only or SECTIONS
    if "fencing" in sections:
        fencing.run()
    if "peers" in sections:
        peers.run()
    sections = [section for section in sections if section not in ("fencing", "peers")]
    if not sections:
        return 0
    with tempfile.TemporaryDirectory(prefix="worklease-bench-") as temporary, cluster(options.kubeconfig) as access:
        directory = Path(temporary)
        for section in sections:
            for held in (options.held or HELD[section]) if section in HELD else (0,):
                name = f"bench-{section}-{secrets.token_hex(3)}"
                with namespace(access, directory / f"kubeconfig-{name}", name) as contexts:
                    contexts.add_agent(AGENT, ROLE)
                    contexts.kubectl(
                        "create", "role", AGENT, "--resource=leases.coordination.k8s.io", "--verb=create,update"
                    )
                    account = f"--serviceaccount={name}:{AGENT}"
                    contexts.kubectl("create", "rolebinding", "native", f"--role={AGENT}", account)
                    with operator(contexts, directory / f"{name}.log") as process:
                        asyncio.run(_measure(section, contexts, process.pid, held))
    return 0


async def _measure(section: str, contexts: Contexts, operator_pid: int, held: int) -> None:
    source = Source(str(contexts.path), AGENT)
    async with await Session.open(source, user_agent="worklease-bench") as session:
        world = World(session, contexts.namespace, f"system:serviceaccount:{contexts.namespace}:{AGENT}")
        if section == "renewals":
            await leases.renewals(world)
        elif section == "ceiling":
            await ceiling.measured(world, contexts)
        elif section == "writes":
            await writes.counted(source, world, contexts, operator_pid, held)
        elif section == "grants":
            await leases.grants(world)
        elif section == "expiries":
            await leases.expiries(world)
        elif section == "handoffs":
            await handoffs.handed_over(world)
            await handoffs.resolved(world, operator_pid)
        elif section == "client":
            await client.measured(source, world)
        elif section == "mcp":
            await mcp.called(world, source)
        else:
            await leases.operator_cost(world, operator_pid, held)
