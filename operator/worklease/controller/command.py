"""worklease-operator: the command that runs one replica until SIGTERM or SIGINT."""

import argparse
import asyncio
import gc
import os
import re
import signal
import socket
import sys

import uvloop

from worklease import __version__
from worklease.addresses import address, shown
from worklease.api.fields import CREATED_EPOCH_MAX
from worklease.controller import logs
from worklease.controller.operator import Operator, Options
from worklease.controller.reconciler import Settings
from worklease.errors import ConfigurationError
from worklease.kube.credentials import Source

EVERYWHERE = (None, 8080)


def parser() -> argparse.ArgumentParser:
    """The command line; every flag can also be given as an environment variable, WORKLEASE_ and its name."""
    arguments = argparse.ArgumentParser(
        prog="worklease-operator",
        description="Grants leases on work items, times them, and records why. Runs until SIGTERM.",
        epilog="Each flag can be given as an environment variable instead: --epoch-floor as WORKLEASE_EPOCH_FLOOR.",
    )
    add = arguments.add_argument
    add("--version", action="version", version=f"worklease-operator {__version__}")
    add(
        "--kubeconfig", metavar="FILE", help="whom to be; default: KUBECONFIG, the pod's ServiceAccount, ~/.kube/config"
    )
    add("--context", metavar="NAME", help="the context in that kubeconfig")
    add(
        "--namespace",
        metavar="NAME",
        type=_namespace,
        action="append",
        help="serve this namespace only; may be repeated (as a variable: separated by commas). Default: all of them",
    )
    add(
        "--epoch-floor",
        metavar="N",
        type=_number("the epoch floor", 0, CREATED_EPOCH_MAX),
        help="added to the store's revision to make an epoch; one for the cluster. "
        "Raise it after restoring etcd to an older revision (and start with --distrust-server-times that once), "
        "never lower it. Default: 0",
    )
    add(
        "--replicas",
        metavar="N",
        type=_number("the number of replicas", 1, 64),
        help="how many operators share the work. Default: 1",
    )
    add(
        "--ordinal",
        metavar="I",
        type=_number("the ordinal", 0, 63),
        help="which of them this is, from 0. Default: the number at the end of the host's name",
    )
    add(
        "--distrust-server-times",
        action="store_true",
        default=None,
        help="after a restart give every holder its full time again, instead of counting from the API server's own "
        "time of the last renewal",
    )
    add(
        "--listen",
        metavar="HOST:PORT",
        type=address,
        help="/healthz, /readyz and /metrics; IPv6 as [::1]:8080, every interface as :8080. Default: :8080",
    )
    add("--log-format", choices=("text", "json"), help="Default: text")
    add("--log-level", choices=("debug", "info", "warning", "error"), help="Default: info")
    return arguments


def _number(what: str, least: int, most: int):  # type: ignore[no-untyped-def]
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{what} is a whole number from {least} to {most}, not {text!r}")
        return value

    return parse


def _namespace(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"a namespace is a name such as team-a, not {text!r}")
    return text


def options(argv: list[str] | None = None) -> tuple[Options, str, str]:
    """What was asked for, the log's format and its level. Exits with 2 on a wrong command line."""
    arguments = parser()
    typed = sys.argv[1:] if argv is None else argv
    given = arguments.parse_args([*_from_environment(arguments, arguments.parse_args(typed)), *typed])
    replicas = given.replicas or 1
    ordinal = given.ordinal
    if ordinal is None:
        at_end = re.search(r"-(\d{1,4})$", socket.gethostname())
        ordinal = int(at_end.group(1)) if at_end and replicas > 1 else 0
        if replicas > 1 and not at_end:
            arguments.error("with --replicas, --ordinal is needed where the host's name does not end in a number")
    if ordinal >= replicas:
        arguments.error(f"--ordinal {ordinal} is not below --replicas {replicas}")
    host, port = given.listen or EVERYWHERE
    chosen = Options(
        source=Source(given.kubeconfig, given.context),
        namespaces=tuple(dict.fromkeys(given.namespace or ())),
        settings=Settings(
            floor=given.epoch_floor or 0,
            ordinal=ordinal,
            replicas=replicas,
            trust_server_times=not given.distrust_server_times,
        ),
        host=host,
        port=port,
    )
    return chosen, given.log_format or "text", given.log_level or "info"


def _from_environment(arguments: argparse.ArgumentParser, typed: argparse.Namespace) -> list[str]:
    """As flags, what variables say about that was not typed."""
    found: list[str] = []
    for action in arguments._actions:
        flag = action.option_strings[-1] if action.option_strings else ""
        variable = "WORKLEASE_" + flag.removeprefix("--").replace("-", "_").upper()
        value = os.environ.get(variable)
        if not value or getattr(typed, action.dest, "") is not None:
            continue
        if action.nargs != 0:
            found += [f"{flag}={one.strip()}" for one in (value.split(",") if flag == "--namespace" else [value])]
        elif value.lower() in _ON:
            found.append(flag)
        elif value.lower() not in _OFF:
            arguments.error(f"{variable} is true or false, not {value!r}")
    return found


_ON, _OFF = ("1", "true", "yes"), ("0", "false", "no")


async def _run(chosen: Options) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signals() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)

    on_signals()
    gc.set_threshold(20000, 20, 50)  # the default collects so often that it is a third of the work
    gc.freeze()
    try:
        await Operator(chosen, on_started=on_signals).run(stop)  # kopf sets its own handlers when it starts
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # one more must not kill what ends already
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


def main() -> None:
    """Run one replica. Exit status: 0 after a signal, 1 without credentials, 2 on a wrong command line."""
    chosen, log_format, log_level = options()
    logs.configure(log_format, log_level)
    try:
        uvloop.run(_run(chosen))
    except ConfigurationError as error:
        print(f"worklease-operator: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except OSError as error:
        listening = shown(chosen.host, chosen.port)
        print(f"worklease-operator: {listening} cannot be listened on: {error}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
