"""What people look at: where the work stands, who may act next and why, its tenures, its effects, one's inbox."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from worklease.api.statements import UNRECONCILED
from worklease.api.worklease import STANDING, Phase, WorkLease
from worklease.cli.connection import connected
from worklease.cli.exits import Exit
from worklease.cli.say import look
from worklease.client.client import Client
from worklease.client.refusals import missing
from worklease.errors import NotFound
from worklease.kube.swap import read, read_all
from worklease.protocol.moments import parse_rfc3339


async def status(options: argparse.Namespace) -> int:
    """One work item in sentences, or all of them in a table."""
    async with connected(options) as client:
        if options.name is None:
            raws = await read_all(client.session, "" if options.all_namespaces else options.namespace)
        else:
            raws = [await _raw(client, options)]
        if options.output in ("json", "yaml", "name"):
            _dump(raws, options.output, "worklease", single=options.name is not None)
            return Exit.DONE
        now = client.session.server_clock.now()
        works = [WorkLease.model_validate(raw) for raw in raws]
        if options.name is not None:
            print("\n".join(sentences(works[0], now)))
            return Exit.DONE
        wide = options.output == "wide"
        head = ("NAMESPACE", "NAME", "PHASE", "HOLDER", "EPOCH", "EXPIRES IN", *(("INSTANCE", "NEXT") if wide else ()))
        rows = [
            (
                work.metadata.namespace,
                work.metadata.name,
                work.status.phase,
                work.status.holder_identity or "",
                str(work.status.epoch),
                expires_in(work, now),
                *((work.status.instance or "", next_actor(work)) if wide else ()),
            )
            for work in works
        ]
        _table(head, rows)
    return Exit.DONE


async def history(options: argparse.Namespace) -> int:
    """The tenures, the oldest first."""
    async with connected(options) as client:
        work = await look(client, options)
        tenures = work.status.history
        if options.output in ("json", "yaml"):
            _dump([tenure.manifest() for tenure in tenures], options.output, "", single=False)
            return Exit.DONE
        head = ("EPOCH", "HOLDER", "WHY GRANTED", "SINCE", "UNTIL", "WHY ENDED", "PURPOSE")
        rows = [
            (
                str(tenure.epoch),
                tenure.holder_identity or "",
                tenure.grant_reason or "",
                tenure.acquire_time or "",
                tenure.end_time or "",
                ": ".join(part for part in (tenure.end_reason, tenure.end_message) if part),
                tenure.purpose or "",
            )
            for tenure in tenures
        ]
        _table(head, rows)
    return Exit.DONE


async def effects(options: argparse.Namespace) -> int:
    """What was logged, and what became of it."""
    async with connected(options) as client:
        work = await look(client, options)
        if options.output in ("json", "yaml"):
            _dump([effect.manifest() for effect in work.spec.effects], options.output, "", single=False)
            return Exit.DONE
        rows = [
            (e.id, str(e.epoch), e.recipient, e.action, e.state, e.time or "", e.detail or "")
            for e in work.spec.effects
        ]
        _table(("ID", "EPOCH", "RECIPIENT", "ACTION", "STATE", "TIME", "DETAIL"), rows)
    return Exit.DONE


async def inbox(options: argparse.Namespace) -> int:
    """The handoffs that wait for our answer."""
    async with connected(options) as client:
        offers = await client.inbox("" if options.all_namespaces else options.namespace)
        if options.output in ("json", "yaml"):
            raws = [offer.handoff.model_dump(by_alias=True, exclude_none=True) for offer in offers]
            _dump(raws, options.output, "handoff", single=False)
            return Exit.DONE
        if options.output == "name":
            print("\n".join(f"handoff/{offer.name}" for offer in offers))
            return Exit.DONE
        rows = [
            (
                offer.handoff.key,
                offer.lease_key,
                offer.sender or "",
                offer.subject or "",
                offer.handoff.status.answer_by or "",
            )
            for offer in offers
        ]
        _table(("NAME", "LEASE", "FROM", "SUBJECT", "ANSWER BY"), rows)
    return Exit.DONE


def sentences(work: WorkLease, now: datetime) -> list[str]:
    """Where one work item stands."""
    spec, state = work.spec, work.status
    lines = [f"{work.key}: {spec.work.type} {spec.work.id}, {state.phase}" + (", suspended" if spec.suspend else "")]
    if state.phase in STANDING:
        lines.append(f"held by {state.holder_identity} ({state.instance}) under epoch {state.epoch}")
        lines.append(f"expires in {expires_in(work, now)}, going by the holder's last renewal")
    lines.append(f"next: {next_actor(work)}")
    if open_effects := [effect for effect in spec.effects if effect.state in UNRECONCILED]:
        lines.append("unreconciled: " + ", ".join(f"{e.recipient} {e.action} {e.state} ({e.id})" for e in open_effects))
    if spec.checkpoint is not None:
        lines.append(f"checkpoint: {spec.checkpoint.uri} {spec.checkpoint.digest}")
    return lines


def expires_in(work: WorkLease, now: datetime) -> str:
    """How long until the work is free if nothing is heard; empty when nobody holds it."""
    state, renewal = work.status, work.spec.renewal
    if state.phase not in STANDING:
        return ""
    heard = renewal.renew_time if renewal is not None and renewal.epoch == state.epoch else state.acquire_time
    at = parse_rfc3339(heard)
    if at is None:
        return "unknown"
    total = (state.lease_duration_seconds or 0) + (state.jeopardy_duration_seconds or 0)
    return f"{max(0, round(total - (now - at).total_seconds()))}s"


def next_actor(work: WorkLease) -> str:
    """Who may act next, and why."""
    spec, state = work.spec, work.status
    if work.metadata.deletion_timestamp:
        return "nobody: the work item is being deleted"
    if state.phase is Phase.COMPLETED:
        return "nobody: the work is complete; revoking the completion reopens it"
    if state.successor is not None:
        return f"{state.successor.holder_identity}: it has accepted handoff {state.successor.handoff}"
    if work.claim_pending and spec.claim is not None:
        return f"the operator: it decides the claim of {spec.claim.holder_identity}"
    if state.phase is Phase.HELD:
        return f"{state.holder_identity}: it holds the lease"
    if state.phase is Phase.JEOPARDY:
        return f"{state.holder_identity}, by a renewal; nobody else before the jeopardy is over"
    return "nobody: it is suspended" if spec.suspend else "whoever claims it: it is free"


async def _raw(client: Client, options: argparse.Namespace) -> dict[str, Any]:
    try:
        return await read(client.session, options.namespace, options.name)
    except NotFound as error:
        raise missing(f"{options.namespace}/{options.name}", error) from error


def _dump(values: list[Any], output: str, kind: str, *, single: bool) -> None:
    if output == "name":
        print("\n".join(f"{kind}/{value['metadata']['name']}" for value in values))
        return
    value = values[0] if single else {"kind": "List", "apiVersion": "v1", "items": values}
    if output == "json":
        print(json.dumps(value, indent=2))
    else:
        import yaml

        yaml.safe_dump(value, sys.stdout, sort_keys=False, allow_unicode=True)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as kubectl prints them."""
    lines = [tuple(head), *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
