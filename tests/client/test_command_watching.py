"""worklease watch: what changes is seen, in place on a terminal and row after row elsewhere, through every break."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity
from support.proxy import Proxy
from support.shell import Shell
from support.speaking import Agent, Work
from support.terminal import Terminal
from support.waiting import wait_for
from worklease.cli.exits import Exit

pytestmark = pytest.mark.usefixtures("operator")
ESCAPE = re.compile(r"\x1b\[[0-9?]*[A-Za-z]")
INTERRUPTED = 128 + signal.SIGINT


class Output:
    """What a process prints, into files that are read while it runs."""

    def __init__(self, shell: Shell, directory: Path, *words: str) -> None:
        self._files = [directory / name for name in ("out", "err")]
        with self._files[0].open("w") as out, self._files[1].open("w") as err:
            self.process = subprocess.Popen(shell.words(*words), env=shell.environment, stdout=out, stderr=err)

    @property
    def out(self) -> str:
        """Its stdout so far."""
        return self._files[0].read_text()

    @property
    def err(self) -> str:
        """Its stderr so far."""
        return self._files[1].read_text()

    def says(self, text: str) -> None:
        """Waits until it has printed this."""
        wait_for(lambda: text in self.out, f"{text!r} to be printed", 60.0)


@pytest.fixture
def started() -> Iterator[list[Output]]:
    """Processes to end after the test."""
    outputs: list[Output] = []
    yield outputs
    for output in outputs:
        output.process.kill()
        output.process.wait()


def test_every_decision_is_a_row_and_a_renewal_is_none(
    cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path, started: list[Output]
) -> None:
    """Not on a terminal: rows below one head, as long as it is not interrupted, and then the code of Ctrl-C."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    output = Output(Shell(agent, namespace), tmp_path, "watch")
    started.append(output)
    output.says("Available")
    holder = Agent.of(agent)
    epoch = work.hold(holder)
    output.says("Held")
    for _ in range(3):
        work.renew(holder, epoch).must()
    work.release(holder, epoch).must()
    output.says("Released")
    cluster.api.delete(work.path).must()
    output.says("Deleted")
    output.process.send_signal(signal.SIGINT)
    assert output.process.wait(60.0) == INTERRUPTED
    head, *rows = output.out.splitlines()
    assert head.split()[:3] == ["NAMESPACE", "NAME", "PHASE"]
    phases = [line.split()[2] for line in rows]
    assert phases.count("Available") >= 1
    assert [phase for phase in phases if phase != "Available"] == ["Held", "Released", "Deleted"]
    assert output.err == ""


def test_a_wide_row_comes_also_when_somebody_else_may_act_next(
    cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path, started: list[Output]
) -> None:
    """A suspension decides nothing, and changes who may claim."""
    work = Work.create(cluster, namespace, "w")
    output = Output(Shell(agent, namespace), tmp_path, "watch", "-o", "wide")
    started.append(output)
    output.says("whoever claims it")
    work.say(cluster.admin, suspend=True).must()
    output.says("nobody: it is suspended")


def test_programs_read_one_object_a_line(
    cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path, started: list[Output]
) -> None:
    """-o json: each change of the work that was asked for, renewals included, and of no other."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    Work.create(cluster, namespace, "v")
    holder = Agent.of(agent)
    epoch = work.hold(holder)
    output = Output(Shell(agent, namespace), tmp_path, "watch", "w", "-o", "json")
    started.append(output)
    output.says("\n")
    work.renew(holder, epoch).must()
    output.says('"renewTime"')
    objects = [json.loads(line) for line in output.out.splitlines()]
    assert {one["metadata"]["name"] for one in objects} == {"w"}
    assert {one["kind"] for one in objects} == {"WorkLease"}
    assert objects[-1]["spec"]["renewal"]["epoch"] == epoch


def test_a_broken_watch_is_said_and_mended(
    cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path, started: list[Output]
) -> None:
    """What happens while nothing is heard, a deletion included, is shown once something is heard again (case 35)."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    gone = Work.create(cluster, namespace, "v")
    proxy = Proxy(cluster)
    try:
        shell = Shell(agent, namespace, kubeconfig=proxy.kubeconfig(tmp_path, agent.token))
        output = Output(shell, tmp_path, "watch")
        started.append(output)
        output.says("Available")
        wait_for(proxy.watches, "the watch")
        proxy.refuse = lambda path, watching: 503 if path.endswith("/workleases") else 0
        proxy.cut()
        wait_for(lambda: "nothing is heard, trying again" in output.err, "the trouble to be said", 60.0)
        work.hold(Agent.of(agent))
        cluster.api.delete(gone.path).must()
        proxy.refuse = lambda path, watching: 0
        output.says("Held")
        output.says("Deleted")
    finally:
        proxy.stop()


def test_a_terminal_shows_that_nothing_is_heard_above_what_was_known(
    cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path
) -> None:
    """So that nobody takes it for news; it goes away when something is heard."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    proxy = Proxy(cluster)
    try:
        shell = Shell(agent, namespace, kubeconfig=proxy.kubeconfig(tmp_path, agent.token))
        with Terminal(shell.words("watch"), shell.environment) as terminal:
            terminal.shows("Available")
            wait_for(proxy.watches, "the watch")
            proxy.refuse = lambda path, watching: 503 if path.endswith("/workleases") else 0
            proxy.cut()
            terminal.shows("\x1b[Hnothing is heard, trying again")
            work.hold(Agent.of(agent))
            proxy.refuse = lambda path, watching: 0
            terminal.shows("Held")
            assert terminal.drawn.split("\x1b[H")[-1].startswith("NAMESPACE")
    finally:
        proxy.stop()


def test_what_is_not_there_or_not_permitted_cannot_be_watched(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """1 and 3, at once."""
    code, _, err = Shell(agent, namespace).call("watch", "none")
    assert (code, "no such work item" in err) == (Exit.ERROR, True)
    nobody = cluster.service_account(namespace, "nobody")
    code, _, err = Shell(nobody, namespace).call("watch")
    assert code == Exit.REFUSED
    assert "the verb list on workleases is missing; ClusterRole worklease-viewer has it" in err


def test_a_terminal_is_drawn_anew_in_its_width_and_left_as_it_was(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """In place and in colour, never wrapped; the last content stays when Ctrl-C ends it."""
    for number in range(8):
        work = Work.create(cluster, namespace, f"a-work-item-with-a-long-name-{number}", lease_seconds=600)
    shell = Shell(agent, namespace)
    with Terminal(shell.words("watch", "-o", "wide"), shell.environment, columns=40, lines=6) as terminal:
        terminal.shows("... and 4 more lines")
        screens = terminal.drawn.split("\x1b[H")
        lines = ESCAPE.sub("", screens[-1]).split("\r\n")
        assert max(len(line) for line in lines) <= 40
        terminal.resize(200, 30)
        terminal.shows("NEXT")
        work.hold(Agent.of(agent))
        terminal.shows("\x1b[32mHeld")
        assert terminal.interrupt() == INTERRUPTED
        left = terminal.drawn.split("\x1b[?1049l")[-1]
        assert left.count("\r\n") == 9
        assert "Held" in left
        assert "Traceback" not in terminal.drawn


def test_a_terminal_is_left_as_it_was_by_a_watch_that_is_told_to_end(namespace: str, agent: Identity) -> None:
    """SIGTERM: the cursor and the screen are given back."""
    shell = Shell(agent, namespace)
    with Terminal(shell.words("watch"), shell.environment) as terminal:
        terminal.shows("NAMESPACE")
        terminal.signal(signal.SIGTERM)
        assert terminal.ends() == 128 + signal.SIGTERM
        assert "\x1b[?25h\x1b[?1049l" in terminal.drawn


def test_one_work_item_is_watched_in_sentences(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """A terminal shows who holds, who may act next, and the tenures; then that it has been deleted."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    shell = Shell(agent, namespace)
    with Terminal(shell.words("watch", "w"), shell.environment) as terminal:
        terminal.shows("next: whoever claims it")
        holder = Agent.of(agent)
        epoch = work.hold(holder)
        terminal.shows(f"epoch {epoch}: {agent.username}, now")
        work.release(holder, epoch).must()
        terminal.shows(f"epoch {epoch}: {agent.username}, Released")
        cluster.api.delete(work.path).must()
        terminal.shows(f"{namespace}/w has been deleted")
        assert terminal.interrupt() == INTERRUPTED
