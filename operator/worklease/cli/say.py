"""One statement of the holder for each command: what the shells of one user hold, they hold as one instance."""

import argparse
import os
import sys

from worklease.api.statements import Checkpoint, Completion, Outcome, Release
from worklease.api.worklease import Work, WorkLease, WorkLeaseSpec
from worklease.cli import rehearse
from worklease.cli.adopting import claimed
from worklease.cli.connection import Connection, connected
from worklease.cli.exits import Exit
from worklease.cli.locks import Lock
from worklease.cli.report import report
from worklease.client.claimable import held_by
from worklease.client.claims import Wanted
from worklease.client.client import Client
from worklease.client.deciding import Grant
from worklease.client.reading import parsed
from worklease.client.refusals import missing, statement_refusal
from worklease.client.renewing import Renewals
from worklease.client.saying import say
from worklease.client.speech import STATEMENT_SECONDS, stating
from worklease.errors import MalformedToken, NotFound, Refused, StatementRefused, Unanswered, WorkIsLeased
from worklease.fencing.token import EPOCH_VARIABLE, LEASE_VARIABLE, parse_epoch
from worklease.kube.swap import read

EPOCH_SHOWN_MAX = 40


async def claim(options: argparse.Namespace) -> int:
    """Claims, and prints the epoch. The lease lapses unless it is renewed."""
    async with connected(options, shell=True) as client:
        wanted = wanted_by(options)
        with Lock(client.session.credentials.server, client.identity, wanted.lease) as lock:
            if not lock.taken:
                said = "a `worklease hold` of yours runs a command under it; to stop that and have it, `takeover` it"
                raise WorkIsLeased(wanted.lease, said)
            if options.dry_run == "server":
                await rehearse.claim(client, wanted)
                await report(options, client, f"{wanted.lease} claimed")
                return Exit.DONE
            grant = await claimed(client, wanted, options.wait)
        await report_grant(options, client, grant)
    return Exit.DONE


async def renew(options: argparse.Namespace) -> int:
    """Renews once."""
    async with connected(options, shell=True) as client:
        work, epoch = await held(client, options)
        if options.dry_run == "server":
            await rehearse.renew(client, work, epoch)
        else:
            try:
                stored = await Renewals(client.session, work, epoch).send(STATEMENT_SECONDS)
            except Refused as error:
                raise statement_refusal(work.key, error) from error
            if stored is None:
                raise Unanswered(f"{work.key}: the answer does not show the renewal; try again")
        seconds = work.status.lease_duration_seconds
        await report(options, client, f"{work.key} renewed for {seconds} s under epoch {epoch}")
    return Exit.DONE


async def release(options: argparse.Namespace) -> int:
    """Gives the work back."""
    async with connected(options, shell=True) as client:
        work, epoch = await held(client, options)
        said = Release(epoch=epoch, reason=options.reason)
        await say(client, work, lambda seen: seen.spec.release == said, stating(release=said.manifest()))
        await report(options, client, f"{work.key} released", lease=work.metadata.name)
    return Exit.DONE


async def complete(options: argparse.Namespace) -> int:
    """Declares the work done."""
    async with connected(options, shell=True) as client:
        work, epoch = await held(client, options)
        said = Completion(epoch=epoch, outcome=Outcome(options.outcome), message=options.message)
        await say(client, work, lambda seen: seen.spec.completion == said, stating(completion=said.manifest()))
        await report(options, client, f"{work.key} completed: {said.outcome}", lease=work.metadata.name)
    return Exit.DONE


async def checkpoint(options: argparse.Namespace) -> int:
    """Says where the work stands."""
    async with connected(options, shell=True) as client:
        work, epoch = await held(client, options)
        stored = work.spec.checkpoint
        said = Checkpoint(
            epoch=epoch, uri=options.uri, digest=options.digest, previous_digest=stored.digest if stored else ""
        )
        await say(client, work, lambda seen: seen.spec.checkpoint == said, stating(checkpoint=said.manifest()))
        await report(options, client, f"{work.key} checkpoint {said.digest}", lease=work.metadata.name)
    return Exit.DONE


def wanted_by(options: argparse.Namespace) -> Wanted:
    """What the flags of `claim` and `hold` ask for."""
    work = None
    if options.create:
        work = Work(type=options.work_type or "work", id=options.work_id or options.name)
        given = {"leaseDurationSeconds": options.lease_seconds, "jeopardyDurationSeconds": options.jeopardy_seconds}
        # What the schema does not take is wrong usage, and not a refusal.
        WorkLeaseSpec.model_validate(
            {"work": work, **{name: value for name, value in given.items() if value is not None}}
        )
    return Wanted(
        options.namespace, options.name, options.purpose, work, options.lease_seconds, options.jeopardy_seconds
    )


async def report_grant(options: argparse.Namespace, client: Connection, grant: Grant) -> None:
    """The epoch on stdout, and on stderr what a person has to know."""
    await report(options, client, str(grant.epoch), lease=grant.work.metadata.name, decided=True)
    print(
        f"{grant.work.key} is yours for {grant.terms.lease_seconds:g} s, under epoch {grant.epoch}; it lapses unless "
        "`worklease hold` or `worklease renew` follows",
        file=sys.stderr,
    )


async def look(client: Client, options: argparse.Namespace) -> WorkLease:
    """The work item. Raises NoSuchWork when there is none."""
    try:
        return parsed(WorkLease, await read(client.session, options.namespace, options.name))
    except NotFound as error:
        raise missing(f"{options.namespace}/{options.name}", error) from error


async def held(client: Client, options: argparse.Namespace) -> tuple[WorkLease, int]:
    """The work item and the epoch to speak about. What is not held cannot be spoken about."""
    meant = epoch_meant(options)
    work = await look(client, options)
    if not held_by(work, client.identity):
        who = f"{client.identity.username} ({client.identity.instance})"
        raise StatementRefused(work.key, f"{who} does not hold it; `worklease status {options.name}` shows who may act")
    if meant is not None and meant[1] != work.status.epoch:
        said, epoch = meant
        raise StatementRefused(work.key, f"it is held under epoch {work.status.epoch}, and {said} says epoch {epoch}")
    return work, work.status.epoch


def epoch_meant(options: argparse.Namespace) -> tuple[str, int] | None:
    """The epoch that is asked for, and what says so: --epoch, or the variable if it is about this work item.

    In the environment of a `hold` it is about what that holds. Raises ValueError when it is no epoch.
    """
    if (given := getattr(options, "epoch", None)) is not None:
        return "--epoch", given
    lease, epoch = os.environ.get(LEASE_VARIABLE), os.environ.get(EPOCH_VARIABLE)
    if not epoch or (lease and lease.split("/")[-2:] != [options.namespace, options.name]):
        return None
    try:
        return EPOCH_VARIABLE, parse_epoch(epoch)
    except MalformedToken as error:
        raise ValueError(f"{EPOCH_VARIABLE} is {epoch[:EPOCH_SHOWN_MAX]!r}: {error}") from None
