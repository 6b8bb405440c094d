"""Every command and flag of the command line. What a command needs is imported when it is run."""

import argparse
import difflib
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from worklease import __version__
from worklease.cli import values
from worklease.cli.exits import MEANINGS

CLI = "worklease.cli"
OBJECTS = ("json", "yaml", "name")
VALUES = ("json", "yaml")
SHELLS = ("bash", "zsh", "fish")
WORKLEASES, HANDOFFS = "workleases", "handoffs"
KINDS = {WORKLEASES: "WorkLease", HANDOFFS: "Handoff"}
HELP_COLUMNS = 80
_OF_CREATED = ("work_type", "work_id", "lease_seconds", "jeopardy_seconds")
_JEOPARDY_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGKILL")


class Parser(argparse.ArgumentParser):
    """Errors are one line, and name what was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Says it, and ends the command with 2."""
        self.exit(2, f"{self.prog}: {_shorter(message)}; see {self.prog} --help\n")


def parse(given: list[str]) -> argparse.Namespace:
    """The options, with the command after the first -- as `child`. Exits with 2 when they are wrong."""
    given, child = split(given)
    whole = parser()
    options, left = whole.parse_known_args(given)
    options.child = child
    wrong: Callable[[str], NoReturn] = options.parser.error
    if left and options.command == "hold" and not child and not left[0].startswith("-"):
        wrong(f"what is to be run stands after --: hold {options.name} -- {' '.join(left)}")
    if left:
        wrong(f"{'there is no flag' if left[0].startswith('-') else 'there is a word too many:'} {left[0]}")
    if bool(child) != (options.command == "hold"):
        wrong("hold NAME -- COMMAND..." if not child else "only hold takes a command after --")
    if getattr(options, "all_namespaces", False) and getattr(options, "name", None) is not None:
        wrong("one work item is in one namespace: NAME and -A do not go together")
    if getattr(options, "create", None) is False:
        for name in _OF_CREATED:
            if getattr(options, name) is not None:
                wrong(f"--{name.replace('_', '-')} is for a work item that is created: add --create")
    return options


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the command after the first --."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def parser() -> argparse.ArgumentParser:
    """Every command and flag."""
    kubectl = Path(sys.argv[0]).name.startswith("kubectl")
    codes = "\n".join(
        textwrap.fill(f"  {code.value:>3}  {meaning}", HELP_COLUMNS, subsequent_indent=" " * 7)
        for code, meaning in MEANINGS.items()
    )
    whole = Parser(
        prog="kubectl worklease" if kubectl else "worklease",
        description="Leases on work items: hold them, look at them, end them.",
        epilog=f"exit codes:\n{codes}\n  `hold` exits as its command did, if it ran to its end.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"worklease {__version__}")
    _common(whole, outermost=True)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _holding(commands)
    _administering(commands)
    _looking(commands)
    _handoff(commands)
    what = "the script that lets a shell complete commands, flags and names"
    completion = commands.add_parser("completion", help=what, description=what)
    completion.set_defaults(run=f"{CLI}.completion:script", namespace=None, parser=completion)
    completion.add_argument("shell", choices=SHELLS, help="load it by: source <(worklease completion bash)")
    return whole


def _add(commands: Any, name: str, run: str, what: str, *, named: str = "the WorkLease", kind: str = WORKLEASES) -> Any:
    command = commands.add_parser(name, help=what, description=what)
    command.set_defaults(run=f"{CLI}.{run}", completes=kind, parser=command)
    _common(command)
    if named:
        command.add_argument("name", metavar="NAME", type=values.name_of(KINDS[kind]), help=named)
    return command


def _writing(command: Any) -> Any:
    command.add_argument("-o", "--output", choices=OBJECTS, help="print the object as the server answered it")
    return _rehearsed(command)


def _rehearsed(command: Any) -> Any:
    command.set_defaults(output=None)
    command.add_argument(
        "--dry-run",
        choices=("none", "server"),
        default="none",
        help="server: ask the API server whether it would be admitted, and store nothing",
    )
    return command


def _printed(command: Any, *forms: str) -> Any:
    command.add_argument("-o", "--output", choices=forms, help="print it in this form")
    return command


def _everywhere(command: Any) -> None:
    command.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")


def _holding(commands: Any) -> None:
    what = "run a command while the work is held: hold NAME -- COMMAND..."
    _hold(_rehearsed(_add(commands, "hold", "hold:run", what)))
    claim = _writing(_add(commands, "claim", "say:claim", "claim the work; it lapses unless held or renewed"))
    _work(claim)
    _wait(claim)
    for name, what in {
        "renew": "renew what the shells of this user hold",
        "release": "give the work back",
        "complete": "declare the work done",
        "checkpoint": "say where the work stands",
    }.items():
        command = _writing(_add(commands, name, f"say:{name}", what))
        command.add_argument(
            "--epoch", type=values.epoch, help="the tenure; default: WORKLEASE_EPOCH, else the one that is held"
        )
        if name == "release":
            command.add_argument("--reason", default="released by hand", help="for people who read the history")
        elif name == "complete":
            command.add_argument("--message", default="", help="the result in a sentence")
            command.add_argument("--outcome", choices=("Succeeded", "Failed"), default="Succeeded")
        elif name == "checkpoint":
            command.add_argument("--uri", required=True, help="where it is stored")
            command.add_argument("--digest", required=True, help="what identifies its content")


def _administering(commands: Any) -> None:
    revoke = _writing(_add(commands, "revoke", "administer:revoke", "end the tenure at once (verb revoke)"))
    takeover = _writing(
        _add(
            commands, "takeover", "administer:takeover", "end the tenure and claim the work, in one write (verb revoke)"
        )
    )
    for command in (revoke, takeover):
        command.add_argument("--reason", required=True, help="why; it stays in the history")
        command.add_argument("--suspend", action="store_true", help="also close admission (verb configure)")
    takeover.add_argument("--purpose", help="what you are going to do; default: the reason")
    takeover.add_argument("--yes", action="store_true", help="do not ask")
    what = "take no new claims (verb configure); a holder goes on"
    _writing(_add(commands, "suspend", "administer:suspend", what))
    _writing(_add(commands, "resume", "administer:resume", "take claims again (verb configure)"))


def _looking(commands: Any) -> None:
    for name, run, what in (
        ("status", "show:status", "who holds, until when, who may act next and why"),
        ("watch", "watch:watch", "the same, as it changes, until it is interrupted"),
    ):
        command = _printed(_add(commands, name, run, what, named=""), *OBJECTS, "wide")
        one = "one WorkLease; default: all of the namespace"
        command.add_argument("name", metavar="NAME", nargs="?", type=values.name_of(KINDS[WORKLEASES]), help=one)
        _everywhere(command)
    _printed(_add(commands, "history", "show:history", "the tenures of the work"), *VALUES)
    what = "the effects that were logged, and what became of them"
    _printed(_add(commands, "effects", "show:effects", what), *VALUES)
    what = "the tenures of the work with their effects, and the handoffs around them"
    _printed(_add(commands, "tree", "tree:tree", what), *VALUES)
    _everywhere(
        _printed(_add(commands, "inbox", "show:inbox", "the handoffs that wait for your answer", named=""), *OBJECTS)
    )


def _handoff(commands: Any) -> None:
    what = "offer work to somebody, and answer what is offered"
    answers = commands.add_parser("handoff", help=what, description=what).add_subparsers(
        dest="answer", required=True, metavar="create|accept|reject|withdraw"
    )

    def add(name: str, what: str, named: str = "the Handoff", kind: str = HANDOFFS) -> Any:
        return _writing(_add(answers, name, f"handoff:{name}", what, named=named, kind=kind))

    create = add("create", "offer the tenure that you hold, with its checkpoint", "the WorkLease", WORKLEASES)
    create.add_argument("--to", required=True, metavar="USER", help="who may accept: the username")
    create.add_argument("--to-instance", metavar="INSTANCE", help="only this process of that user")
    create.add_argument("--subject", help="what it is about, in a line")
    create.add_argument("--message", help="what the target needs to know")
    create.add_argument("--context-uri", metavar="URI", help="where there is more to know")
    create.add_argument("--accept-within", type=values.whole_seconds, metavar="SECONDS", help="default: 3600")
    create.add_argument("--claim-within", type=values.whole_seconds, metavar="SECONDS", help="default: 300")
    create.add_argument("--delegated", action="store_true", help="offer what others hold (verb delegate)")
    accept = add("accept", "accept, and claim; it lapses unless held or renewed")
    accept.add_argument("--purpose", help="what you are going to do; default: the subject")
    accept.add_argument("--reason", default="", help="for the sender")
    for name, what in {"reject": "decline, for good", "withdraw": "take back your own offer"}.items():
        add(name, what).add_argument("--reason", required=True, help="for the other side")


def _common(command: argparse.ArgumentParser, *, outermost: bool = False) -> None:
    """Flags that may stand before or after the name of the command."""
    default = None if outermost else argparse.SUPPRESS
    for flags, what in (
        (("-n", "--namespace"), "default: that of the context, or of the pod"),
        (("--context",), "the context of the kubeconfig"),
        (("--kubeconfig",), "default: KUBECONFIG, else the pod's ServiceAccount, else ~/.kube/config"),
    ):
        kind = values.namespace if "-n" in flags else str
        command.add_argument(*flags, default=default, type=kind, help=what)


def _work(command: argparse.ArgumentParser) -> None:
    command.add_argument("--purpose", default="by hand", help="what is going to be done")
    command.add_argument("--create", action="store_true", help="create the work item when there is none (verb create)")
    command.add_argument("--work-type", help="of a created item; default: work")
    command.add_argument("--work-id", help="of a created item; default: NAME")
    command.add_argument("--lease-seconds", type=values.whole_seconds, metavar="SECONDS", help="of a created item")
    command.add_argument("--jeopardy-seconds", type=values.whole_seconds, metavar="SECONDS", help="of a created item")


def _wait(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--wait",
        nargs="?",
        const=True,
        type=values.seconds,
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


def _shorter(message: str) -> str:
    """argparse's sentence about a word that is none of many: with the one that is most like it."""
    before, invalid, rest = message.partition(": invalid choice: ")
    if not invalid:
        return message
    word, _, choices = rest.partition(" (choose from ")
    word = word.strip("'")
    known = [choice.strip(" '") for choice in choices.rstrip(")").split(",")]
    like = difflib.get_close_matches(word, known, n=1)
    what = before.removeprefix("argument ").split("/")[0]
    meant = f"did you mean {like[0]}?" if like else f"there are {', '.join(known)}"
    return f"{what}: {word!r} is not known, {meant}"
