"""What administrators say: revocation, takeover, suspension. Each is one write, about the epoch that was looked at."""

import argparse
import signal
import sys

from worklease.api.statements import UNRECONCILED
from worklease.api.worklease import Phase, WorkLease
from worklease.cli.connection import connected
from worklease.cli.exits import Exit
from worklease.cli.report import report
from worklease.cli.say import look, report_grant
from worklease.client import administering
from worklease.client.claims import Claimant, Wanted


async def revoke(options: argparse.Namespace) -> int:
    """Ends the tenure; with --suspend nobody can claim before `resume`, a pending claim included."""
    async with connected(options, shell=True) as client:
        work = await look(client, options)
        said = administering.revocation_of(work, options.reason)
        await administering.revoke(client, work, said, suspend=options.suspend)
        sentence = f"{work.key} revoked at epoch {said.epoch}" + (" and suspended" if options.suspend else "")
        await report(options, client, sentence, lease=work.metadata.name)
    return Exit.DONE


async def takeover(options: argparse.Namespace) -> int:
    """Revokes and claims in one write, after showing what is taken."""
    async with connected(options, shell=True) as client:
        work = await look(client, options)
        said = administering.revocation_of(work, options.reason)
        _show(work)
        dry = options.dry_run == "server"
        if not options.yes and not dry:
            if not sys.stdin.isatty():
                print("worklease: nobody is there to ask: say --yes to take it over", file=sys.stderr)
                return Exit.USAGE
            if not _agreed():
                print("worklease: nothing was done", file=sys.stderr)
                return Exit.ERROR
        sent_at = client.clock()
        claim = administering.claim_of(client, work, options.purpose or options.reason)
        stated = await administering.take_over(client, work, said, claim, suspend=options.suspend)
        if dry:
            await report(options, client, f"{work.key} taken over at epoch {said.epoch}")
            return Exit.DONE
        claimant: Claimant = client.claimant(Wanted(options.namespace, options.name, claim.purpose))
        grant = await claimant.decided(claim, stated, sent_at)
        await report_grant(options, client, grant)
    return Exit.DONE


async def suspend(options: argparse.Namespace) -> int:
    """Closes admission."""
    return await _set_suspend(options, True)


async def resume(options: argparse.Namespace) -> int:
    """Opens admission."""
    return await _set_suspend(options, False)


async def _set_suspend(options: argparse.Namespace, value: bool) -> int:
    async with connected(options, shell=True) as client:
        work = await look(client, options)
        await administering.set_suspend(client, work, value)
        await report(options, client, f"{work.key} {'suspended' if value else 'resumed'}", lease=work.metadata.name)
    return Exit.DONE


def _show(work: WorkLease) -> None:
    """Shows what is being taken."""
    status = work.status
    if status.phase is Phase.COMPLETED:
        print(f"{work.key} is complete, under epoch {status.epoch}: this reopens it", file=sys.stderr)
    else:
        print(
            f"{work.key} is {status.phase} under epoch {status.epoch} by {status.holder_identity} ({status.instance})",
            file=sys.stderr,
        )
    for effect in work.spec.effects:
        if effect.state in UNRECONCILED:
            print(f"  unreconciled: {effect.state} {effect.recipient} {effect.action} ({effect.id})", file=sys.stderr)


def _agreed() -> bool:
    """Asks the person at the terminal."""
    print("take it over? [y/N] ", end="", file=sys.stderr, flush=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio's own waits until the line has been read
    try:
        said = sys.stdin.readline()
    except KeyboardInterrupt:
        print("\nworklease: nothing was done", file=sys.stderr)
        raise
    if not said.endswith("\n"):  # the input has ended (Ctrl-D)
        print(file=sys.stderr)
    return said.strip().lower() in {"y", "yes"}
