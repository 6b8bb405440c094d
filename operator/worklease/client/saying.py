"""One statement of somebody who holds nothing in this process: said until it is known what became of it."""

from collections.abc import Callable

from worklease.api.worklease import WorkLease
from worklease.client.client import Client
from worklease.client.refusals import statement_refusal
from worklease.client.speech import STATEMENT_SECONDS, Patch, Speech
from worklease.errors import Refused

KNOWN_WITHIN_SECONDS = 20.0
"""How long to find out whether it was said."""


async def say(client: Client, work: WorkLease, said: Callable[[WorkLease], bool], patch: Patch) -> WorkLease:
    """Says it until it is known to be said. Raises StatementRefused, or what was unknown at the end."""
    ends = client.clock() + KNOWN_WITHIN_SECONDS
    speech = Speech(
        client.session,
        WorkLease,
        work.metadata.namespace,
        work.metadata.name,
        said=said,
        clock=client.clock,
        ends=lambda: ends,
        request_seconds=STATEMENT_SECONDS,
    )
    try:
        return await speech.patch(lambda: patch)
    except Refused as error:
        raise statement_refusal(work.key, error) from error
