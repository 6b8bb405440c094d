"""The command line of worklease, also as kubectl-worklease. What a subcommand needs is imported when it is run."""

import argparse
import asyncio
import importlib
import os
import sys
from pathlib import Path
from typing import Any

from worklease import __version__
from worklease.cli.exits import MEANINGS, Exit, exit_of
from worklease.errors import WorkleaseError

CLI = "worklease.cli"
OUTPUTS = ("json", "yaml", "name", "wide")


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code; errors are one line on stderr."""
    given = sys.argv[1:] if arguments is None else arguments
    given, child = split(given)
    whole = parser()
    options = whole.parse_args(given)
    options.child = child
    if bool(child) != (options.command == "hold"):
        whole.error("hold NAME -- COMMAND..." if not child else "only hold takes a command after --")
    module, _, function = options.run.partition(":")
    try:
        return int(asyncio.run(getattr(importlib.import_module(module), function)(options)))
    except WorkleaseError as error:
        print(f"worklease: {error}", file=sys.stderr)
        return exit_of(error)
    except ValueError as error:
        print(f"worklease: {_first_line(error)}", file=sys.stderr)
        return Exit.USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the command after the first --."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _first_line(error: ValueError) -> str:
    problems = getattr(error, "errors", None)
    if callable(problems):  # pydantic: which field, and what is wrong with it
        found = problems()[0]
        return f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def parser() -> argparse.ArgumentParser:
    """Every command and flag."""
    kubectl = Path(sys.argv[0]).name.startswith("kubectl")
    codes = "\n".join(f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items())
    whole = argparse.ArgumentParser(
        prog="kubectl worklease" if kubectl else "worklease",
        description="Leases on work items: hold them, look at them, end them.",
        epilog=f"exit codes:\n{codes}\n  `hold` exits as its command did, if it ran to its end.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"worklease {__version__}")
    _common(whole, outermost=True)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: str, what: str, *, named: bool = True, printed: bool = False) -> Any:
        command = commands.add_parser(name, help=what, description=what)
        command.set_defaults(run=f"{CLI}.{run}")
        _common(command)
        if printed:
            command.add_argument("-o", "--output", choices=OUTPUTS, help="print it in this form")
        if named:
            command.add_argument("name", metavar="NAME", help="the WorkLease")
        return command

    _hold(add("hold", "hold:run", "run a command while the work is held: hold NAME -- COMMAND..."))
    claim = add("claim", "say:claim", "claim the work; it lapses unless renewed")
    _work(claim)
    _wait(claim)
    for name, what in {
        "renew": "renew what the shells of this user hold",
        "release": "give the work back",
        "complete": "declare the work done",
        "checkpoint": "say where the work stands",
    }.items():
        command = add(name, f"say:{name}", what)
        command.add_argument(
            "--epoch", type=int, help="the tenure; default: WORKLEASE_EPOCH, else the one that is held"
        )
        if name == "release":
            command.add_argument("--reason", default="released by hand", help="for people who read the history")
        elif name == "complete":
            command.add_argument("--message", default="", help="the result in a sentence")
            command.add_argument("--outcome", choices=("Succeeded", "Failed"), default="Succeeded")
        elif name == "checkpoint":
            command.add_argument("--uri", required=True, help="where it is stored")
            command.add_argument("--digest", required=True, help="what identifies its content")
    revoke = add("revoke", "administer:revoke", "end the tenure at once (verb revoke)")
    revoke.add_argument("--reason", required=True, help="why; it stays in the history")
    revoke.add_argument("--suspend", action="store_true", help="also close admission (verb configure)")
    takeover = add("takeover", "administer:takeover", "end the tenure and claim the work, in one write (verb revoke)")
    takeover.add_argument("--reason", required=True, help="why; it stays in the history")
    takeover.add_argument("--purpose", help="what you are going to do; default: the reason")
    takeover.add_argument("--suspend", action="store_true", help="also close admission (verb configure)")
    takeover.add_argument("--yes", action="store_true", help="do not ask")
    add("suspend", "administer:suspend", "take no new claims (verb configure); a holder goes on")
    add("resume", "administer:resume", "take claims again (verb configure)")
    status = add("status", "show:status", "who holds, until when, who may act next and why", named=False, printed=True)
    status.add_argument("name", metavar="NAME", nargs="?", help="one WorkLease; default: all of the namespace")
    status.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    add("history", "show:history", "the tenures of the work", printed=True)
    add("effects", "show:effects", "the effects that were logged, and what became of them", printed=True)
    _handoff(commands)
    inbox = add("inbox", "show:inbox", "the handoffs that wait for your answer", named=False, printed=True)
    inbox.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    return whole


def _handoff(commands: Any) -> None:
    what = "offer work to somebody, and answer what is offered"
    answers = commands.add_parser("handoff", help=what, description=what).add_subparsers(
        dest="answer", required=True, metavar="create|accept|reject|withdraw"
    )

    def add(name: str, what: str, named: str) -> Any:
        command = answers.add_parser(name, help=what, description=what)
        command.set_defaults(run=f"{CLI}.handoff:{name}")
        _common(command)
        command.add_argument("name", metavar="NAME", help=named)
        return command

    create = add("create", "offer the tenure that you hold, with its checkpoint", "the WorkLease")
    create.add_argument("--to", required=True, metavar="USER", help="who may accept: the username")
    create.add_argument("--to-instance", metavar="INSTANCE", help="only this process of that user")
    create.add_argument("--subject", help="what it is about, in a line")
    create.add_argument("--message", help="what the target needs to know")
    create.add_argument("--context-uri", metavar="URI", help="where there is more to know")
    create.add_argument("--accept-within", type=int, metavar="SECONDS", help="default: 3600")
    create.add_argument("--claim-within", type=int, metavar="SECONDS", help="default: 300")
    create.add_argument("--delegated", action="store_true", help="offer what others hold (verb delegate)")
    accept = add("accept", "accept, and claim; it lapses unless renewed", "the Handoff")
    accept.add_argument("--purpose", help="what you are going to do; default: the subject")
    accept.add_argument("--reason", default="", help="for the sender")
    for name, what in {"reject": "decline, for good", "withdraw": "take back your own offer"}.items():
        add(name, what, "the Handoff").add_argument("--reason", required=True, help="for the other side")


def _common(command: argparse.ArgumentParser, *, outermost: bool = False) -> None:
    """Flags that may stand before or after the name of the command."""
    default = None if outermost else argparse.SUPPRESS
    for flags, what in (
        (("-n", "--namespace"), "default: that of the context, or of the pod"),
        (("--context",), "the context of the kubeconfig"),
        (("--kubeconfig",), "default: KUBECONFIG, else the pod's ServiceAccount, else ~/.kube/config"),
    ):
        command.add_argument(*flags, default=default, help=what)


def _work(command: argparse.ArgumentParser) -> None:
    command.add_argument("--purpose", default="by hand", help="what is going to be done")
    command.add_argument("--create", action="store_true", help="create the work item when there is none (verb create)")
    command.add_argument("--work-type", help="of a created item; default: work")
    command.add_argument("--work-id", help="of a created item; default: NAME")
    command.add_argument("--lease-seconds", type=int, help="of a created item")
    command.add_argument("--jeopardy-seconds", type=int, help="of a created item")


def _wait(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--wait",
        nargs="?",
        const=True,
        type=_seconds,
        metavar="SECONDS",
        help="wait until the work is free; without SECONDS for ever",
    )


def _hold(command: argparse.ArgumentParser) -> None:
    from signal import Signals

    _work(command)
    _wait(command)
    signals = [number.name for number in Signals if number.name in _JEOPARDY_SIGNALS]
    command.add_argument(
        "--on-jeopardy",
        choices=("stop", *signals),
        default="SIGTERM",
        help="what the command is sent when the lease is not certain: a signal, or `stop` to stop it and let it go on "
        "when it is certain again. Default: SIGTERM. It is killed in any case before the work can be another's",
    )
    command.add_argument("--status-file", type=Path, metavar="FILE", help="say the standing in this file, as JSON")
    command.add_argument(
        "--complete",
        nargs="?",
        const="done",
        metavar="MESSAGE",
        help="declare the work done when the command ends with 0; otherwise the work is released",
    )


_JEOPARDY_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGKILL")


def _seconds(value: str) -> float:
    seconds = float(value)
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError("a number of seconds")
    return seconds
