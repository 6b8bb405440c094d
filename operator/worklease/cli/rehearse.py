"""Statements upon which something else follows, asked for by a dry run: nothing is stored, so nothing follows."""

import uuid

from worklease.api.handoff import Response, ResponseDecision
from worklease.api.statements import Claim, Renewal
from worklease.api.worklease import WorkLease
from worklease.cli.connection import Connection
from worklease.client.claims import Wanted
from worklease.client.handoffs import PLURAL, Offer
from worklease.client.reading import parsed
from worklease.client.refusals import claim_refusal, missing, statement_refusal
from worklease.client.speech import Patch, stating
from worklease.errors import NotFound, Refused
from worklease.kube.session import JSON_PATCH
from worklease.kube.swap import path_of, read
from worklease.protocol.moments import rfc3339


async def claim(client: Connection, wanted: Wanted) -> None:
    """A claim of the work as it is, or of what would be created. Raises ClaimRefused, NoSuchWork."""
    try:
        epoch = parsed(WorkLease, await read(client.session, wanted.namespace, wanted.name)).status.epoch
        exists = True
    except NotFound as error:
        if wanted.work is None:
            raise missing(wanted.lease, error) from error
        epoch, exists = 0, False
    said = Claim(
        epoch=epoch,
        id=str(uuid.uuid4()),
        holder_identity=client.identity.username,
        instance=client.identity.instance,
        purpose=wanted.purpose,
    )
    try:
        if exists:
            path = path_of(wanted.namespace, wanted.name)
            await client.session.request("PATCH", path, stating(claim=said.manifest()), content_type=JSON_PATCH)
        else:
            await client.session.request("POST", path_of(wanted.namespace), wanted.manifest(said))
    except NotFound as error:
        raise missing(wanted.lease, error) from error
    except Refused as error:
        raise claim_refusal(wanted.lease, error) from error


async def renew(client: Connection, work: WorkLease, epoch: int) -> None:
    """A renewal. Raises StatementRefused."""
    said = Renewal(epoch=epoch, renew_time=rfc3339(client.session.server_clock.now()))
    path = path_of(work.metadata.namespace, work.metadata.name)
    try:
        await client.session.request("PATCH", path, stating(renewal=said.manifest()), content_type=JSON_PATCH)
    except Refused as error:
        raise statement_refusal(work.key, error) from error


async def accept(client: Connection, offer: Offer, reason: str) -> None:
    """An acceptance. Raises StatementRefused."""
    said = Response(decision=ResponseDecision.ACCEPTED, reason=reason)
    patch: Patch = [{"op": "add", "path": "/spec/response", "value": said.manifest()}]
    path = path_of(offer.handoff.metadata.namespace, offer.name, plural=PLURAL)
    try:
        await client.session.request("PATCH", path, patch, content_type=JSON_PATCH)
    except Refused as error:
        raise statement_refusal(offer.lease_key, error) from error
