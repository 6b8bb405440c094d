"""What a command that writes says afterwards: a sentence, or the object as the server answered it."""

import argparse

from worklease.cli.connection import Connection
from worklease.cli.printing import dump, name_of, shown
from worklease.kube.swap import read

DRY = " (server dry run)"


async def report(
    options: argparse.Namespace, client: Connection, sentence: str, *, lease: str | None = None, decided: bool = False
) -> None:
    """Says what was done. `lease` reads the work item of that name where no answer shows it, or to show what was
    `decided` upon it.
    """
    dry = client.session.dry_run
    if options.output is None:
        print(sentence + (DRY if dry else ""))
        return
    raw = client.session.written
    if lease is not None and (raw is None or (decided and not dry)):
        raw = await read(client.session, options.namespace, lease)
    if raw is None:
        print(sentence)
    elif options.output == "name":
        print(name_of(raw))
    else:
        dump(shown(raw), options.output)
