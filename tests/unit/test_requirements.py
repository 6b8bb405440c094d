"""What the operator lacks, when the API server cannot be asked: neither missing nor there again."""

from __future__ import annotations

import asyncio

import pytest
from kubernetes.aio.client import Configuration

from worklease.controller.requirements import NOT_ASKED, Requirements
from worklease.errors import Unanswered
from worklease.kube.credentials import Credentials, Source

LACKING = "the API server does not serve workleases.worklease.dev: install the CRDs"


def unanswered() -> str | None:
    """The API server is away."""
    raise Unanswered("GET /version: no answer")


@pytest.mark.parametrize("before", [NOT_ASKED, LACKING, None])
def test_what_cannot_be_asked_is_neither_missing_nor_there_again(before: str | None) -> None:
    """Something that was missing stays so; nothing is made up at the start."""

    async def story() -> str | None:
        asked = Requirements(Credentials(Configuration(), "team", Source()), (), user_agent="test")
        asked.trouble = before

        async def check() -> str | None:
            return unanswered()

        for name in ("_version", "_kinds", "_permissions"):
            setattr(asked, name, check)
        async with asked._session:
            return await asked._missing()

    assert asyncio.run(story()) == (LACKING if before == LACKING else None)
