"""The command worklease, also as kubectl-worklease: from the words of the shell to an exit code."""

import argparse
import asyncio
import importlib
import os
import re
import signal
import sys

from worklease.cli.exits import Exit, exit_of
from worklease.cli.grammar import parse
from worklease.errors import NotPermitted, Refused, WorkleaseError

COMPLETE = "__complete"
POLICY = re.compile(
    r"(?P<kind>workleases|handoffs)\.\S+ (\"[^\"]*\" )?is forbidden: "
    r"ValidatingAdmissionPolicy \S+ with binding \S+ denied request: "
)
ADMINISTRATIVE = re.compile(r"the verb (configure|revoke|delegate)\b")
ROLES = {
    ("workleases", "configure"): "worklease-admin",
    ("workleases", "revoke"): "worklease-handler",
    ("workleases", "delegate"): "worklease-handler",
    ("handoffs", "delegate"): "worklease-admin",
}
"""The smallest of the shipped roles that has the verb on that kind."""
VIEWER_ROLE = "worklease-viewer"


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code; errors are one line on stderr."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = _complete(given[1:]) if given[:1] == [COMPLETE] else _run(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whoever read our output has seen enough
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return code


def complete_for_kubectl() -> int:
    """What kubectl runs as kubectl_complete-worklease to complete `kubectl worklease ...`."""
    return main([COMPLETE, *sys.argv[1:]])


def _run(given: list[str]) -> int:
    options = parse(given)
    module, _, function = options.run.partition(":")
    try:
        return int(asyncio.run(getattr(importlib.import_module(module), function)(options)))
    except Refused as error:
        return _said(_not_permitted(error, options) or error)
    except WorkleaseError as error:
        return _said(error)
    except ValueError as error:
        print(f"worklease: {_first_line(error)}", file=sys.stderr)
        return Exit.USAGE


def _said(error: WorkleaseError) -> int:
    print(f"worklease: {sentence(str(error))}", file=sys.stderr)
    return exit_of(error)


def sentence(message: str) -> str:
    """An error in one line: without the names of policies, and with the role that has the verb which one asks for."""
    said = " ".join(message.split())
    if (refused := POLICY.search(said)) is None:
        return said
    said = said[: refused.start()] + said[refused.end() :]
    verb = ADMINISTRATIVE.search(said)
    role = ROLES.get((refused["kind"], verb[1])) if verb else None
    return f"{said}; ClusterRole {role} has it" if role else said


def _not_permitted(error: Refused, options: argparse.Namespace) -> NotPermitted | None:
    """A refused request of which only the API server's sentence is known so far."""
    from worklease.client.refusals import AGENT_ROLE, not_permitted

    everywhere = getattr(options, "all_namespaces", False) or not options.namespace
    where = "all namespaces" if everywhere else f"namespace {options.namespace}"
    return not_permitted(where, error, AGENT_ROLE if hasattr(options, "dry_run") else VIEWER_ROLE)


def _complete(words: list[str]) -> int:
    from worklease.cli.completion import answer

    print(answer(words))
    return Exit.DONE


def _first_line(error: ValueError) -> str:
    problems = getattr(error, "errors", None)
    if callable(problems):  # pydantic: which field, and what is wrong with it
        found = problems()[0]
        return f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
