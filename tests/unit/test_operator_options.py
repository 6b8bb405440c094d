"""The operator's command line: flags, the same as environment variables, and wrong values that say what is right."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from worklease.addresses import shown
from worklease.api.fields import CREATED_EPOCH_MAX
from worklease.controller.command import options


@pytest.fixture(autouse=True)
def no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have some set."""
    for name in os.environ:
        if name.startswith("WORKLEASE_"):
            monkeypatch.delenv(name)


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What is said about a wrong command line; its exit status is 2."""
    with pytest.raises(SystemExit) as ended:
        options(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_without_arguments_one_replica_serves_every_namespace() -> None:
    """The defaults are what the help says."""
    chosen, log_format, log_level = options([])
    settings = chosen.settings
    assert (settings.floor, settings.ordinal, settings.replicas, settings.trust_server_times) == (0, 0, 1, True)
    assert (chosen.namespaces, chosen.host, chosen.port) == ((), None, 8080)
    assert (chosen.source.kubeconfig, chosen.source.context) == (None, None)
    assert (log_format, log_level) == ("text", "info")


EVERY_FLAG = {
    "kubeconfig": "/tmp/config",
    "context": "admin",
    "namespace": "team-a",
    "epoch-floor": "4096",
    "replicas": "3",
    "ordinal": "2",
    "listen": "127.0.0.1:9090",
    "log-format": "json",
    "log-level": "debug",
}


@pytest.mark.parametrize("by", ["flags", "variables"])
def test_everything_can_be_said_by_flags_and_by_environment_variables(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways choose the same."""
    arguments: list[str] = []
    if by == "flags":
        arguments = [f"--{name}={value}" for name, value in EVERY_FLAG.items()] + ["--distrust-server-times"]
    else:
        for name, value in {**EVERY_FLAG, "distrust-server-times": "true"}.items():
            monkeypatch.setenv("WORKLEASE_" + name.replace("-", "_").upper(), value)
    chosen, log_format, log_level = options(arguments)
    settings = chosen.settings
    assert (settings.floor, settings.ordinal, settings.replicas, settings.trust_server_times) == (4096, 2, 3, False)
    assert (chosen.namespaces, chosen.host, chosen.port) == (("team-a",), "127.0.0.1", 9090)
    assert (chosen.source.kubeconfig, chosen.source.context) == ("/tmp/config", "admin")
    assert (log_format, log_level) == ("json", "debug")


def test_a_flag_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed is meant."""
    monkeypatch.setenv("WORKLEASE_EPOCH_FLOOR", "5")
    assert options(["--epoch-floor", "7"])[0].settings.floor == 7
    assert options([])[0].settings.floor == 5


def test_namespaces_that_are_typed_are_the_only_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable does not widen what an operator serves."""
    monkeypatch.setenv("WORKLEASE_NAMESPACE", "a,b")
    assert options(["--namespace=c"])[0].namespaces == ("c",)


def test_an_empty_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a chart sets it when a value is left out."""
    for name in (*EVERY_FLAG, "distrust-server-times"):
        monkeypatch.setenv("WORKLEASE_" + name.replace("-", "_").upper(), "")
    assert options([]) == options([])
    assert options([])[0].settings.trust_server_times


@pytest.mark.parametrize("value", ["0", "false", "no", "False"])
def test_a_switch_can_be_said_to_be_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """A variable that denies is no flag."""
    monkeypatch.setenv("WORKLEASE_DISTRUST_SERVER_TIMES", value)
    assert options([])[0].settings.trust_server_times


@pytest.mark.parametrize("value", ["maybe", "on", "2", "flase"])
def test_a_switch_is_on_or_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str) -> None:
    """A slip of the pen is not taken for no."""
    monkeypatch.setenv("WORKLEASE_DISTRUST_SERVER_TIMES", value)
    assert f"WORKLEASE_DISTRUST_SERVER_TIMES is true or false, not '{value}'" in refusal([], capsys)


@pytest.mark.parametrize("value", ["a,,b", "a,", "Team", "a_b", "-a", "a" * 64])
def test_a_namespace_that_cannot_be_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    """An empty name would be served as all namespaces."""
    monkeypatch.setenv("WORKLEASE_NAMESPACE", value)
    assert "a namespace is a name such as team-a" in refusal([], capsys)
    assert "a namespace is a name such as team-a" in refusal(["--namespace="], capsys)


def test_namespaces_are_repeated_as_flags_and_separated_by_commas_as_a_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is served once."""
    assert options(["--namespace=a", "--namespace=b", "--namespace=a"])[0].namespaces == ("a", "b")
    monkeypatch.setenv("WORKLEASE_NAMESPACE", "a, b,a")
    assert options([])[0].namespaces == ("a", "b")


@pytest.mark.parametrize(
    ("given", "host", "port"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("localhost:8081", "localhost", 8081),
        (":8081", None, 8081),
        ("[::1]:8081", "::1", 8081),
        ("[::]:65535", "::", 65535),
    ],
)
def test_an_address_is_a_host_and_a_port(given: str, host: str | None, port: int) -> None:
    """Port 0 is any free one; IPv6 is in brackets; without a host, every interface of either family."""
    chosen = options(["--listen", given])[0]
    assert (chosen.host, chosen.port) == (host, port)
    assert shown(host, port) == given


WRONG: dict[str, tuple[list[str], str]] = {
    "a floor that is no number": (["--epoch-floor=high"], "a whole number from 0 to"),
    "a negative floor": (["--epoch-floor=-1"], "a whole number from 0 to"),
    "a floor without room above it": ([f"--epoch-floor={CREATED_EPOCH_MAX + 1}"], f"0 to {CREATED_EPOCH_MAX}"),
    "no replica": (["--replicas=0"], "a whole number from 1 to 64"),
    "too many replicas": (["--replicas=65"], "a whole number from 1 to 64"),
    "an ordinal that is not there": (["--replicas=2", "--ordinal=2"], "--ordinal 2 is not below --replicas 2"),
    "an ordinal without replicas": (["--ordinal=1"], "--ordinal 1 is not below --replicas 1"),
    "no port": (["--listen=localhost"], "an address is HOST:PORT"),
    "an empty port": (["--listen=localhost:"], "an address is HOST:PORT"),
    "a port too high": (["--listen=localhost:65536"], "an address is HOST:PORT"),
    "an IPv6 address without brackets": (["--listen=::1:8080"], "[::1]:8080"),
    "brackets around a name": (["--listen=[localhost]:8080"], "an address is HOST:PORT"),
    "nothing in the brackets": (["--listen=[]:8080"], "an address is HOST:PORT"),
    "a bracket left open": (["--listen=[::1:8080"], "an address is HOST:PORT"),
    "a port of other digits": (["--listen=localhost:\u0663\u00b2"], "an address is HOST:PORT"),
    "no address at all": (["--listen="], "an address is HOST:PORT"),
    "a format that is none": (["--log-format=xml"], "'text', 'json'"),
    "a level that is none": (["--log-level=loud"], "'debug', 'info', 'warning', 'error'"),
    "a flag that is none": (["--epochfloor=1"], "--epochfloor"),
    "a word too many": (["start"], "start"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_refused_with_what_is_right(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, and a message that names the flag."""
    message = refusal(arguments, capsys)
    assert said in message
    assert arguments[-1].split("=")[0] in message


def test_a_wrong_variable_is_refused_like_its_flag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is the same."""
    monkeypatch.setenv("WORKLEASE_REPLICAS", "many")
    assert "the number of replicas is a whole number from 1 to 64, not 'many'" in refusal([], capsys)


@pytest.mark.parametrize(("host", "ordinal"), [("worklease-operator-0", 0), ("worklease-operator-2", 2)])
def test_the_ordinal_is_the_number_at_the_end_of_the_hosts_name(
    monkeypatch: pytest.MonkeyPatch, host: str, ordinal: int
) -> None:
    """As a StatefulSet names its pods."""
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert options(["--replicas=3"])[0].settings.ordinal == ordinal


@pytest.mark.parametrize(
    ("host", "said"), [("laptop", "--ordinal is needed"), ("worklease-operator-3", "--ordinal 3 is not below")]
)
def test_replicas_that_cannot_be_told_apart_do_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host: str, said: str
) -> None:
    """Two replicas with one ordinal would leave another's objects to nobody's first care."""
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert said in refusal(["--replicas=3"], capsys)


def test_a_single_replica_may_run_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's name does not matter then."""
    monkeypatch.setattr(socket, "gethostname", lambda: "node-17")
    assert options([])[0].settings.ordinal == 0


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_are_no_failures(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 0, on standard output."""
    with pytest.raises(SystemExit) as ended:
        options([flag])
    assert ended.value.code == 0
    assert "worklease-operator" in capsys.readouterr().out


def test_an_operator_without_credentials_ends_with_1_and_says_so() -> None:
    """No traceback: the last line names what was tried."""
    command = [sys.executable, "-m", "worklease.controller.command", "--kubeconfig=/nonexistent/kubeconfig"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr
    line = answer.stderr.splitlines()[-1]
    assert line.startswith("worklease-operator: ")
    assert "/nonexistent/kubeconfig" in line
