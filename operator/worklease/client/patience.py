"""A denial may be that of an API server that has just begun to serve and knows neither roles nor bindings yet: the same
request is sent again a few times before it is believed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from worklease.errors import Forbidden

PAUSES_SECONDS = (0.2, 0.4, 0.8)
BY_POLICY = "denied request"
"""What a denial of a ValidatingAdmissionPolicy says; it knows what it needs to."""

T = TypeVar("T")


async def patiently(
    ask: Callable[[], Awaitable[T]], has_time: Callable[[float], bool] = lambda pause_seconds: True
) -> T:
    """What it answers. Raises Forbidden when it does so to the end, or there is no time for another pause."""
    for pause_seconds in PAUSES_SECONDS:
        try:
            return await ask()
        except Forbidden as error:
            if BY_POLICY in str(error) or not has_time(pause_seconds):
                raise
        await asyncio.sleep(pause_seconds)
    return await ask()
