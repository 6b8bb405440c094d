"""The words of the command line: which are taken, and what is said about those that are not."""

from __future__ import annotations

import pytest

from worklease.cli.exits import Exit
from worklease.cli.grammar import parse


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said about them: one line, with the exit code of wrong usage."""
    with pytest.raises(SystemExit) as ended:
        parse(list(words))
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (Exit.USAGE, 1)
    return said


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("60", 60),
        ("0", 0),
        ("0.5", 0.5),
        ("60s", 60),
        ("5m", 300),
        ("1h", 3600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1.1h", 3960),
    ],
)
def test_times_are_written_as_seconds_or_with_a_unit(written: str, seconds: float) -> None:
    """As kubectl's --timeout takes them, and as plain seconds."""
    assert parse(["claim", "w", "--wait", written]).wait == seconds
    assert parse(["hold", "w", f"--wait={written}", "--", "true"]).wait == seconds


@pytest.mark.parametrize("written", ["60 s", "s", "", "-1", "inf", "nan", "1e9", "5m5", "5s5m", "5d", "1" * 40])
def test_what_is_no_time_is_told_what_would_be_one(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the name of a function of ours."""
    said = refused(capsys, "claim", "w", f"--wait={written}")
    assert "a time is 60 (seconds), 60s, 5m or 1h" in said
    assert "_seconds" not in said


def test_durations_of_objects_are_whole_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    """The API has no parts of a second."""
    assert parse(["claim", "w", "--create", "--lease-seconds", "5m"]).lease_seconds == 300
    assert parse(["handoff", "create", "w", "--to", "b", "--accept-within", "1h"]).accept_within == 3600
    assert "whole seconds, not '0.5s'" in refused(capsys, "claim", "w", "--create", "--jeopardy-seconds", "0.5s")


@pytest.mark.parametrize(
    "flag",
    [("--work-type", "t"), ("--work-id", "i"), ("--lease-seconds", "30"), ("--jeopardy-seconds", "0")],
)
def test_what_describes_a_new_item_needs_create(flag: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """It would be ignored: an item that exists keeps what it has."""
    assert f"{flag[0]} is for a work item that is created: add --create" in refused(capsys, "claim", "w", *flag)
    refused(capsys, "hold", "w", *flag, "--", "true")
    assert parse(["claim", "w", "--create", *flag]).create


@pytest.mark.parametrize("name", ["", "W", "a/b", "../w", "w?watch=true", "-w-", "a b", "handoff/h", "x" * 254])
def test_what_cannot_be_a_name_is_not_asked_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be part of a URL."""
    for words in (("status",), ("claim",), ("handoff", "create", "--to", "b")):
        refused(capsys, *words, "--", name) if name.startswith("-") else refused(capsys, *words, name)


def test_names_are_taken_as_commands_print_them() -> None:
    """worklease/NAME and handoff/NAME, or with the group as `kubectl get -o name` has it."""
    assert parse(["status", "worklease.worklease.dev/invoice-42"]).name == "invoice-42"
    assert parse(["handoff", "accept", "handoff.worklease.dev/h"]).name == "h"
    assert parse(["status", "worklease/invoice-42"]).name == "invoice-42"
    assert parse(["handoff", "accept", "handoff/invoice-42-1a2b"]).name == "invoice-42-1a2b"
    assert parse(["handoff", "create", "worklease/w.x", "--to", "b"]).name == "w.x"


def test_a_namespace_without_characters_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl has it, and not all namespaces."""
    assert parse(["-n", "", "status"]).namespace is None
    assert parse(["status", "-n", "billing"]).namespace == "billing"
    assert "no namespace can be called 'a/b'" in refused(capsys, "status", "-n", "a/b")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hold", "w", "make", "all"), "worklease hold: what is to be run stands after --: hold w -- make all"),
        (("hold", "w"), "worklease hold: hold NAME -- COMMAND..."),
        (("status", "w", "v"), "worklease status: there is a word too many: v"),
        (("handoff", "accept", "h", "--why"), "worklease handoff accept: there is no flag --why"),
        (("status", "w", "--", "true"), "worklease status: only hold takes a command after --"),
    ],
)
def test_what_is_wrong_is_said_by_the_command_that_was_meant(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its help as the place to look."""
    answer = refused(capsys, *words)
    command = " ".join(word for word in said.partition(":")[0].split())
    assert answer == f"{said}; see {command} --help\n"


def test_an_epoch_is_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    """Zero too: it is one that nobody holds."""
    assert parse(["renew", "w", "--epoch", "0"]).epoch == 0
    assert "an epoch is a whole number, not 'x'" in refused(capsys, "renew", "w", "--epoch", "x")
