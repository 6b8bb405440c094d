"""worklease handoff: offer one's work by hand, and answer what is offered."""

import argparse
import sys

from worklease.api.handoff import ContextRef, HandoffSpec, OfferedCheckpoint, Target
from worklease.cli import rehearse
from worklease.cli.connection import Connection, connected
from worklease.cli.exits import Exit
from worklease.cli.report import report
from worklease.cli.say import held, look, report_grant
from worklease.client.handoffs import Offer
from worklease.errors import LeaseError, NotFound


async def create(options: argparse.Namespace) -> int:
    """Offers the tenure that is held; with --delegated whatever tenure there is, in nobody's name (verb delegate)."""
    async with connected(options, shell=True) as client:
        if options.delegated:
            work, epoch = await look(client, options), None
        else:
            work, epoch = await held(client, options)
        stored = work.spec.checkpoint
        given = {"accept_within_seconds": options.accept_within, "claim_within_seconds": options.claim_within}
        spec = HandoffSpec(
            work_lease_name=options.name,
            epoch=epoch,
            from_=None if options.delegated else client.identity.username,
            from_instance=None if options.delegated else client.identity.instance,
            to=Target(holder_identity=options.to, instance=options.to_instance),
            subject=options.subject,
            message=options.message,
            context_ref=ContextRef(uri=options.context_uri) if options.context_uri else None,
            checkpoint=OfferedCheckpoint(uri=stored.uri, digest=stored.digest) if stored else None,
            **{name: seconds for name, seconds in given.items() if seconds is not None},
        )
        offer = await client.desk.offer(options.namespace, spec)
        await report(options, client, f"handoff/{offer.name}")
        if not options.delegated and options.dry_run != "server":
            print("keep renewing: the work is yours until the target's claim is granted", file=sys.stderr)
    return Exit.DONE


async def accept(options: argparse.Namespace) -> int:
    """Accepts, claims, and prints the epoch. The lease lapses unless it is renewed."""
    async with connected(options, shell=True) as client:
        offer = await _find(client, options)
        if options.dry_run == "server":
            await rehearse.accept(client, offer, options.reason)
            await report(options, client, f"handoff/{offer.name} accepted")
            return Exit.DONE
        grant = await offer.claimed(purpose=options.purpose, reason=options.reason)
        await report_grant(options, client, grant)
    return Exit.DONE


async def reject(options: argparse.Namespace) -> int:
    """Declines, for good."""
    async with connected(options, shell=True) as client:
        offer = await _find(client, options)
        await offer.reject(options.reason)
        await report(options, client, f"handoff/{offer.name} rejected")
    return Exit.DONE


async def withdraw(options: argparse.Namespace) -> int:
    """Takes back one's own offer."""
    async with connected(options, shell=True) as client:
        offer = await _find(client, options)
        await offer.withdraw(options.reason)
        await report(options, client, f"handoff/{offer.name} withdrawn")
    return Exit.DONE


async def _find(client: Connection, options: argparse.Namespace) -> Offer:
    try:
        return await client.desk.find(options.namespace, options.name)
    except NotFound as error:
        key = f"{options.namespace}/{options.name}"
        raise LeaseError(
            key, "there is no such handoff: `worklease inbox` shows those that wait for you (-n, -A)"
        ) from error
