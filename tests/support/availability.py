"""What a test does when a server that it needs cannot be had."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

import backends


@contextlib.contextmanager
def required() -> Iterator[None]:
    """A server that cannot be had fails the test in CI and skips it, with the reason, anywhere else."""
    try:
        yield
    except backends.UnavailableError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
