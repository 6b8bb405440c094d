"""What hack/demo does: sets the stage, plays the chapters, and says whether everything was as told."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from progress import say

from . import handoffs, leases, payments
from .setting import stage
from .stage import Stage

CHAPTERS = (leases.play, payments.play, handoffs.play)


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0 when all was as told; a SetupError otherwise."""
    parser = argparse.ArgumentParser(prog="hack/demo", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="play on this cluster instead of starting a control plane")
    parser.add_argument("--keep", action="store_true", help="leave everything up afterwards, until Ctrl-C")
    options = parser.parse_args(arguments)
    with stage(options.kubeconfig) as play:
        started = time.monotonic()
        for chapter in CHAPTERS:
            chapter(play)
        say(f"\nEverything was as told, in {time.monotonic() - started:.0f} s.")
        if options.keep:
            _keep(play)
    return 0


def _keep(play: Stage) -> None:
    print(
        f"\nIt stays up until Ctrl-C. In another terminal:\n"
        f"    export KUBECONFIG={play.kubeconfig}\n"
        f"    alias kubectl={play.kubectl}\n"
        f"    kubectl get workleases\n"
        f"    kubectl events --for worklease/{leases.WORK}\n"
        f"    kubectl explain worklease.spec.claim\n"
        f"The contexts are admin (the current one) and agent-a to agent-d: kubectl --context=agent-a ...",
        flush=True,
    )
    sys.stdout.flush()
    signal.pause()
