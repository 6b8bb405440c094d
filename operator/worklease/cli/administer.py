"""What administrators say: revocation, takeover, suspension. Each is one write, about the epoch that was looked at."""

import argparse
import signal
import sys
import uuid
from typing import Any

from worklease.api.statements import UNRECONCILED, Claim, Revocation
from worklease.api.worklease import FREE, Phase, WorkLease
from worklease.cli.connection import connected
from worklease.cli.exits import Exit
from worklease.cli.report import report
from worklease.cli.say import KNOWN_WITHIN_SECONDS, REQUEST_SECONDS, look, report_grant, speak
from worklease.client.claims import Claimant, Wanted
from worklease.client.client import Client
from worklease.client.refusals import statement_refusal
from worklease.client.speech import Patch, Speech, stating
from worklease.errors import Refused, StatementRefused


async def revoke(options: argparse.Namespace) -> int:
    """Ends the tenure; with --suspend nobody can claim before `resume`, a pending claim included."""
    async with connected(options, shell=True) as client:
        work = await look(client, options)
        said = _revocation(work, options.reason)

        def patch() -> Patch:
            ops = stating(revocation=said.manifest(), **({"suspend": True} if options.suspend else {}))
            if options.suspend and work.claim_pending and work.spec.claim is not None:
                ops = [
                    {"op": "test", "path": "/spec/claim/id", "value": work.spec.claim.id},
                    {"op": "remove", "path": "/spec/claim"},
                    *ops,
                ]
            return ops

        await _patch(client, work, said, patch())
        sentence = f"{work.key} revoked at epoch {said.epoch}" + (" and suspended" if options.suspend else "")
        await report(options, client, sentence, lease=work.metadata.name)
    return Exit.DONE


async def takeover(options: argparse.Namespace) -> int:
    """Revokes and claims in one write, after showing what is taken."""
    async with connected(options, shell=True) as client:
        work = await look(client, options)
        said = _revocation(work, options.reason)
        _show(work)
        dry = options.dry_run == "server"
        if not options.yes and not dry and not _agreed():
            return Exit.USAGE
        claim = Claim(
            epoch=work.status.epoch,
            id=str(uuid.uuid4()),
            holder_identity=client.identity.username,
            instance=client.identity.instance,
            purpose=options.purpose or options.reason,
        )
        statements: dict[str, Any] = {"revocation": said.manifest(), "claim": claim.manifest()}
        if options.suspend:
            statements["suspend"] = True
        sent_at = client.clock()
        stated = await _patch(client, work, said, stating(**statements))
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
        await speak(client, work, lambda seen: seen.spec.suspend is value, suspend=value)
        await report(options, client, f"{work.key} {'suspended' if value else 'resumed'}", lease=work.metadata.name)
    return Exit.DONE


def _revocation(work: WorkLease, reason: str) -> Revocation:
    status = work.status
    if status.phase in FREE and status.successor is None:
        raise StatementRefused(work.key, f"there is no tenure to end: it is {status.phase}; claim it instead")
    return Revocation(epoch=status.epoch, reason=reason)


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
    if not sys.stdin.isatty():
        print("worklease: nobody is there to ask: say --yes to take it over", file=sys.stderr)
        return False
    print("take it over? [y/N] ", end="", file=sys.stderr, flush=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio's own waits until the line has been read
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    print("worklease: nothing was done", file=sys.stderr)
    return False


async def _patch(client: Client, work: WorkLease, said: Revocation, patch: Patch) -> WorkLease:
    ends = client.clock() + KNOWN_WITHIN_SECONDS
    speech = Speech(
        client.session,
        WorkLease,
        work.metadata.namespace,
        work.metadata.name,
        said=lambda seen: seen.spec.revocation == said,
        clock=client.clock,
        ends=lambda: ends,
        request_seconds=REQUEST_SECONDS,
    )
    try:
        return await speech.patch(lambda: patch)
    except Refused as error:
        raise statement_refusal(work.key, error) from error
