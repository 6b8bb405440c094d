"""The command worklease, also as kubectl-worklease: from the words of the shell to an exit code."""

import argparse
import asyncio
import contextlib
import importlib
import io
import os
import re
import signal
import sys

from worklease.cli.exits import Exit, exit_of
from worklease.cli.grammar import parse
from worklease.errors import ConfigurationError, NoSuchWork, NotFound, NotPermitted, Refused, WorkleaseError

COMPLETE = "__complete"
POLICY = re.compile(
    r"(?P<kind>workleases|handoffs)\.\S+ (\"[^\"]*\" )?is forbidden: "
    r"ValidatingAdmissionPolicy \S+ with binding \S+ denied request: "
)
ADMINISTRATIVE = re.compile(r"the verb (configure|revoke|delegate)\b")

SAID_BY = {
    ("Claim", "instance"): "WORKLEASE_INSTANCE",
    ("Work", "type"): "--work-type",
    ("Work", "id"): "--work-id",
    ("WorkLeaseSpec", "lease_duration_seconds"): "--lease-seconds",
    ("WorkLeaseSpec", "leaseDurationSeconds"): "--lease-seconds",
    ("WorkLeaseSpec", "jeopardy_duration_seconds"): "--jeopardy-seconds",
    ("WorkLeaseSpec", "jeopardyDurationSeconds"): "--jeopardy-seconds",
    ("Target", "holder_identity"): "--to",
    ("Target", "instance"): "--to-instance",
    ("ContextRef", "uri"): "--context-uri",
    ("HandoffSpec", "from_instance"): "WORKLEASE_INSTANCE",
    ("HandoffSpec", "accept_within_seconds"): "--accept-within",
    ("HandoffSpec", "claim_within_seconds"): "--claim-within",
}
"""What gives a field of a statement its value, where that is not the flag of the same name."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code; errors are one line on stderr."""
    given = sys.argv[1:] if arguments is None else arguments
    _open_closed_streams()
    try:
        code = _complete(given[1:]) if given[:1] == [COMPLETE] else _run(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whoever read our output has seen enough
        _say_no_more()
        return 128 + signal.SIGPIPE
    except OSError as error:
        _say_no_more()
        print(f"worklease: {error}", file=sys.stderr)
        return Exit.ERROR
    return code


def _open_closed_streams() -> None:
    """What our caller has closed (`<&-`) leads nowhere, and what its characters lack is replaced."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)  # for the command of `hold`
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - for as long as we run
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _say_no_more() -> None:
    """What is still to be flushed to stdout is dropped."""
    with open(os.devnull, "w") as nowhere, contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def complete_for_kubectl() -> int:
    """What kubectl runs as kubectl_complete-worklease to complete `kubectl worklease ...`."""
    return main([COMPLETE, *sys.argv[1:]])


def _run(given: list[str]) -> int:
    options = parse(given)
    module, _, function = options.run.partition(":")
    try:
        return int(asyncio.run(getattr(importlib.import_module(module), function)(options)))
    except NotFound as error:  # of one object it has been said already which
        said = f"the API server does not know what to look for: is worklease installed? ({error})"
        return _said(ConfigurationError(said))
    except Refused as error:
        return _said(_not_permitted(error, options) or error)
    except NoSuchWork as error:
        return _said(error, _instead(error, options))
    except WorkleaseError as error:
        return _said(error)
    except ValueError as error:
        print(f"worklease: {_wrong_value(error)}", file=sys.stderr)
        return Exit.USAGE


def _instead(error: NoSuchWork, options: argparse.Namespace) -> str:
    """Where there is one, as far as we know."""
    from worklease.client.refusals import NO_SUCH_WORK

    if error.message != NO_SUCH_WORK:
        return ""
    make = "; --create makes one" if getattr(options, "create", None) is False else ""
    return f": `worklease status` shows those that there are (-n, -A){make}"


def _said(error: WorkleaseError, then: str = "") -> int:
    print(f"worklease: {sentence(str(error))}{then}", file=sys.stderr)
    return exit_of(error)


def sentence(message: str) -> str:
    """An error in one line: without the names of policies, and with the role that has the verb which one asks for."""
    said = " ".join(message.split())
    if (refused := POLICY.search(said)) is None:
        return said
    said = said[: refused.start()] + said[refused.end() :]
    verb = ADMINISTRATIVE.search(said)
    if verb is None:
        return said
    from worklease.client.refusals import smallest_role

    role = smallest_role(refused["kind"], verb[1])
    return f"{said}; ClusterRole {role} has it" if role else said


def _not_permitted(error: Refused, options: argparse.Namespace) -> NotPermitted | None:
    """A refused request of which only the API server's sentence is known so far."""
    from worklease.client.refusals import AGENT_ROLE, VIEWER_ROLE, not_permitted

    everywhere = getattr(options, "all_namespaces", False) or not options.namespace
    where = "all namespaces" if everywhere else f"namespace {options.namespace}"
    return not_permitted(where, error, AGENT_ROLE if hasattr(options, "dry_run") else VIEWER_ROLE)


def _complete(words: list[str]) -> int:
    from worklease.cli.completion import answer

    print(answer(words))
    return Exit.DONE


def _wrong_value(error: ValueError) -> str:
    """Which flag or variable has a value that the API does not take, and what is wrong with it."""
    problems = getattr(error, "errors", None)
    if callable(problems):  # pydantic
        found = problems()[0]
        model, field = getattr(error, "title", ""), str(found["loc"][-1]) if found["loc"] else ""
        return f"{SAID_BY.get((model, field)) or '--' + field.replace('_', '-')}: {found['msg']}"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
