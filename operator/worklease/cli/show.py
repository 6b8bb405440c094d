"""What people look at: where the work stands, who may act next and why, its tenures, its effects, one's inbox."""

import argparse
import sys
from datetime import datetime
from typing import Any

from worklease.api.group import API_VERSION
from worklease.api.statements import UNRECONCILED
from worklease.api.worklease import LEASED, Phase, WorkLease
from worklease.cli.connection import connected
from worklease.cli.exits import Exit
from worklease.cli.printing import coloured, dump, dump_list, name_of, plain, second, shown, table
from worklease.cli.say import look
from worklease.client.client import Client
from worklease.client.reading import parsed
from worklease.client.refusals import missing
from worklease.errors import NotFound, Unreadable
from worklease.kube.swap import read, read_all
from worklease.protocol.moments import parse_rfc3339

HEAD = ("NAMESPACE", "NAME", "PHASE", "HOLDER", "EPOCH", "EXPIRES IN")
WIDE = ("INSTANCE", "NEXT")
READ_BARE = ("phase", "holderIdentity", "epoch")
UNKNOWN = "unknown"


async def status(options: argparse.Namespace) -> int:
    """One work item in sentences, or all of them in a table."""
    async with connected(options) as client:
        if options.name is None:
            raws = await read_all(client.session, "" if options.all_namespaces else options.namespace)
            raws = [{"apiVersion": API_VERSION, "kind": "WorkLease", **raw} for raw in raws]
        else:
            raws = [await _raw(client, options)]
        now = client.session.server_clock.now()
    if options.output == "name":
        print("".join(f"{name_of(raw)}\n" for raw in raws), end="")
    elif options.output in ("json", "yaml") and options.name is None:
        dump_list(raws, options.output)
    elif options.output in ("json", "yaml"):
        dump(shown(raws[0]), options.output)
    elif options.name is not None:
        print("\n".join(sentences(parsed(WorkLease, raws[0]), now)))
    elif not raws:
        nothing(options)
    else:
        wide = options.output == "wide"
        table((*HEAD, *(WIDE if wide else ())), [row(raw, now, wide=wide) for raw in raws])
    return Exit.DONE


def row(raw: dict[str, Any], now: datetime, *, wide: bool) -> tuple[str, ...]:
    """One work item in a table; of one that cannot be read its name, and what its status says."""
    try:
        work = parsed(WorkLease, raw)
    except Unreadable as error:
        status = {name: str(value) for name, value in (raw.get("status") or {}).items()}
        metadata = raw["metadata"]
        cells = (metadata["namespace"], metadata["name"], *(status.get(name, "") for name in READ_BARE), UNKNOWN)
        return (*cells, status.get("instance", ""), f"unknown: {error}") if wide else cells
    state = work.status
    cells = (
        work.metadata.namespace,
        work.metadata.name,
        str(state.phase),
        state.holder_identity or "",
        str(state.epoch),
        expires_in(work, now),
    )
    return (*cells, state.instance or "", next_actor(work)) if wide else cells


def nothing(options: argparse.Namespace, what: str = "work items") -> None:
    """Says, as kubectl does, that an empty table is not a mistake."""
    where = "any namespace" if options.all_namespaces else f"namespace {options.namespace}"
    print(f"no {what} in {where}", file=sys.stderr)


async def history(options: argparse.Namespace) -> int:
    """The tenures, the oldest first."""
    async with connected(options) as client:
        work = await look(client, options)
        tenures = work.status.history
        if options.output in ("json", "yaml"):
            dump([tenure.manifest() for tenure in tenures], options.output)
            return Exit.DONE
        if not tenures:
            print(f"nobody has held {work.key}", file=sys.stderr)
            return Exit.DONE
        head = ("EPOCH", "HOLDER", "WHY GRANTED", "SINCE", "UNTIL", "WHY ENDED", "PURPOSE")
        rows = [
            (
                str(tenure.epoch),
                tenure.holder_identity or "",
                tenure.grant_reason or "",
                second(tenure.acquire_time),
                second(tenure.end_time),
                ": ".join(part for part in (tenure.end_reason, tenure.end_message) if part),
                tenure.purpose or "",
            )
            for tenure in tenures
        ]
        table(head, rows)
    return Exit.DONE


async def effects(options: argparse.Namespace) -> int:
    """What was logged, and what became of it."""
    async with connected(options) as client:
        work = await look(client, options)
        if options.output in ("json", "yaml"):
            dump([effect.manifest() for effect in work.spec.effects], options.output)
            return Exit.DONE
        if not work.spec.effects:
            print(f"no effects of {work.key} are logged", file=sys.stderr)
            return Exit.DONE
        rows = [
            (e.id, str(e.epoch), e.recipient, e.action, e.state, second(e.time), e.detail or "")
            for e in work.spec.effects
        ]
        table(("ID", "EPOCH", "RECIPIENT", "ACTION", "STATE", "TIME", "DETAIL"), rows)
    return Exit.DONE


async def inbox(options: argparse.Namespace) -> int:
    """The handoffs that wait for our answer."""
    async with connected(options) as client:
        offers = await client.inbox("" if options.all_namespaces else options.namespace)
        if options.output in ("json", "yaml"):
            kind = {"apiVersion": API_VERSION, "kind": "Handoff"}
            raws = [{**kind, **offer.handoff.model_dump(by_alias=True, exclude_none=True)} for offer in offers]
            dump_list(raws, options.output)
            return Exit.DONE
        if options.output == "name":
            print("".join(f"handoff/{offer.name}\n" for offer in offers), end="")
            return Exit.DONE
        if not offers:
            nothing(options, f"handoffs that wait for an answer of {client.identity.username}")
            return Exit.DONE
        rows = [
            (
                offer.handoff.metadata.namespace,
                offer.name,
                offer.handoff.spec.work_lease_name,
                offer.sender or "",
                offer.subject or "",
                second(offer.handoff.status.answer_by),
            )
            for offer in offers
        ]
        table(("NAMESPACE", "NAME", "LEASE", "FROM", "SUBJECT", "ANSWER BY"), rows)
    return Exit.DONE


def sentences(work: WorkLease, now: datetime) -> list[str]:
    """Where one work item stands."""
    spec, state = work.spec, work.status
    lines = [
        f"{work.key}: {spec.work.type} {spec.work.id}, {coloured(state.phase)}"
        + (", suspended" if spec.suspend else "")
    ]
    if state.phase in LEASED:
        lines.append(f"held by {state.holder_identity} ({state.instance}) under epoch {state.epoch}")
        lines.append(f"expires in {expires_in(work, now)}, going by the holder's last renewal")
    lines.append(f"next: {next_actor(work)}")
    if open_effects := [effect for effect in spec.effects if effect.state in UNRECONCILED]:
        lines.append("unreconciled: " + ", ".join(f"{e.recipient} {e.action} {e.state} ({e.id})" for e in open_effects))
    if spec.checkpoint is not None:
        lines.append(f"checkpoint: {spec.checkpoint.uri} {spec.checkpoint.digest}")
    return [plain(line) for line in lines]


def expires_in(work: WorkLease, now: datetime) -> str:
    """How long until the work is free if nothing is heard; empty when nobody holds it."""
    state, renewal = work.status, work.spec.renewal
    if state.phase not in LEASED:
        return ""
    heard = renewal.renew_time if renewal is not None and renewal.epoch == state.epoch else state.acquire_time
    at = parse_rfc3339(heard)
    if at is None:
        return UNKNOWN
    total = (state.lease_duration_seconds or 0) + (state.jeopardy_duration_seconds or 0)
    return f"{max(0, round(total - (now - at).total_seconds()))}s"


def next_actor(work: WorkLease) -> str:
    """Who may act next, and why."""
    spec, state = work.spec, work.status
    if work.metadata.deletion_timestamp:
        return "nobody: the work item is being deleted"
    if work.claim_pending and spec.claim is not None:
        return f"the operator: it decides the claim of {spec.claim.holder_identity}"
    if ending := _ending(work):
        return f"the operator: it ends the tenure by the {ending} that is stated"
    if state.phase is Phase.COMPLETED:
        return "nobody: the work is complete; revoking the completion reopens it"
    if state.successor is not None:
        reserved = f"it has accepted handoff {state.successor.handoff}, and may claim until {state.successor.until}"
        return f"{state.successor.holder_identity}: {reserved}"
    if state.phase is Phase.HELD:
        return f"{state.holder_identity}: it holds the lease"
    if state.phase is Phase.JEOPARDY:
        return f"{state.holder_identity}, by a renewal; nobody else before the jeopardy is over"
    return "nobody: it is suspended" if spec.suspend else "whoever claims it: it is free"


def _ending(work: WorkLease) -> str | None:
    """The statement that ends this tenure, while the operator has not decided so yet."""
    spec, state = work.spec, work.status
    said = {"revocation": spec.revocation, "completion": spec.completion, "release": spec.release}
    ends = {"revocation"} if state.phase is Phase.COMPLETED else set(said) if state.phase in LEASED else set()
    return next((name for name, one in said.items() if name in ends and one and one.epoch == state.epoch), None)


async def _raw(client: Client, options: argparse.Namespace) -> dict[str, Any]:
    try:
        return await read(client.session, options.namespace, options.name)
    except NotFound as error:
        raise missing(f"{options.namespace}/{options.name}", error) from error
