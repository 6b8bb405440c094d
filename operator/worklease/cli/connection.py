"""The way to the API server that the common flags describe, and who speaks: a person or a process."""

import argparse
import contextlib
import getpass
import os
import re
import socket
from collections.abc import AsyncIterator

from worklease.client.client import Client
from worklease.kube.credentials import Source

INSTANCE_VARIABLE = "WORKLEASE_INSTANCE"


def shell_instance() -> str:
    """What one-shot commands of one user on one machine have in common: a claim, its renewals and its release."""
    if given := os.environ.get(INSTANCE_VARIABLE):
        return given
    user = f"{os.getuid()}"
    with contextlib.suppress(KeyError, OSError):
        user = getpass.getuser()
    return re.sub(r"[^!-~]", "-", f"cli:{socket.gethostname()}/{user}")[:320]


@contextlib.asynccontextmanager
async def connected(options: argparse.Namespace, *, shell: bool = False) -> AsyncIterator[Client]:
    """A client; with `shell` it speaks as what this user's shells have in common. Sets options.namespace."""
    source = Source(options.kubeconfig, options.context)
    async with await Client.open(source, instance=shell_instance() if shell else None) as client:
        if options.namespace is None:
            options.namespace = client.namespace
        yield client
