"""How the command behaves towards people and shells: errors, colours, pipes, and which verb is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.api import HANDOFFS
from support.cluster import Cluster, Identity
from support.holding import wire
from support.proxy import Proxy
from support.shell import Shell
from support.speaking import Agent, Work
from support.terminal import Terminal
from support.words import handoff_manifest
from worklease.api.roles import GRANTS
from worklease.cli.exits import Exit

REASON = ("--reason", "INC-7")


def offered(cluster: Cluster, namespace: str, name: str, work: str) -> None:
    """A handoff of that name, in nobody's name."""
    body = handoff_manifest(name, workLeaseName=work, to={"holderIdentity": "b"})
    cluster.admin.api.create(HANDOFFS.format(namespace), body).must()


def test_a_mistyped_command_is_answered_in_one_line(namespace: str, agent: Identity) -> None:
    """With what was probably meant, and 2."""
    shell = Shell(agent, namespace)
    code, out, err = shell.call("stauts")
    assert (code, out) == (Exit.USAGE, "")
    assert err == "worklease: COMMAND: 'stauts' is not known, did you mean status?; see worklease --help\n"
    for words in (
        ("claim",),
        ("hold", "w"),
        ("status", "w", "--", "true"),
        ("status", "w", "-A"),
        ("renew", "w", "-o", "x"),
    ):
        code, out, err = shell.call(*words)
        assert (code, out, err.count("\n")) == (Exit.USAGE, "", 1), words


@pytest.mark.parametrize(
    ("words", "verb", "role"),
    [
        (("status",), "list", "worklease-viewer"),
        (("status", "-A"), "list", "worklease-viewer"),
        (("status", "w"), "get", "worklease-viewer"),
        (("history", "w"), "get", "worklease-viewer"),
        (("effects", "w"), "get", "worklease-viewer"),
        (("tree", "w"), "get", "worklease-viewer"),
        (("inbox",), "list", "worklease-viewer"),
        (("claim", "w"), "get", "worklease-agent"),
        (("hold", "w", "--", "true"), "get", "worklease-agent"),
        (("renew", "w"), "get", "worklease-agent"),
        (("revoke", "w", *REASON), "get", "worklease-agent"),
        (("takeover", "w", *REASON, "--yes"), "get", "worklease-agent"),
        (("suspend", "w"), "get", "worklease-agent"),
        (("handoff", "create", "w", "--to", "b"), "get", "worklease-agent"),
        (("handoff", "accept", "h"), "get", "worklease-agent"),
    ],
)
def test_a_missing_verb_is_named_with_a_role_that_has_it(
    cluster: Cluster, namespace: str, words: tuple[str, ...], verb: str, role: str
) -> None:
    """Somebody without any role is told, by every command, in one line."""
    Work.create(cluster, namespace, "w")
    code, out, err = Shell(cluster.service_account(namespace, "nobody"), namespace).call(*words)
    assert (code, out, err.count("\n")) == (Exit.REFUSED, "", 1)
    assert f"the verb {verb} on " in err
    assert f"ClusterRole {role} has it" in err


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        (("claim", "w"), "patch on workleases is missing; ClusterRole worklease-agent has it"),
        (("claim", "v", "--create"), "create on workleases is missing; ClusterRole worklease-agent-creator has it"),
        (("claim", "w", "--dry-run=server"), "patch on workleases is missing; ClusterRole worklease-agent has it"),
        (
            ("handoff", "create", "w", "--to", "b", "--delegated"),
            "create on handoffs is missing; ClusterRole worklease-agent has it",
        ),
        (("handoff", "reject", "h", *REASON), "patch on handoffs is missing; ClusterRole worklease-agent has it"),
        (("suspend", "w"), "patch on workleases is missing; ClusterRole worklease-agent has it"),
    ],
)
def test_a_viewer_is_told_which_verb_it_needs_to_speak(
    cluster: Cluster, namespace: str, words: tuple[str, ...], verb: str
) -> None:
    """Who may look and not write; the role is the smallest that has the verb on that kind."""
    Work.create(cluster, namespace, "w")
    offered(cluster, namespace, "h", "w")
    viewer = cluster.service_account(namespace, "viewer", "worklease-viewer")
    code, _, err = Shell(viewer, namespace).call(*words)
    assert (code, f"the verb {verb}" in err) == (Exit.REFUSED, True), err


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    ("words", "verb", "role"),
    [
        (("suspend", "w"), "configure", "worklease-gitops"),
        (("revoke", "w", *REASON), "revoke", "worklease-handler"),
        (("takeover", "w", *REASON, "--yes"), "revoke", "worklease-handler"),
        (("handoff", "create", "w", "--to", "b", "--delegated"), "delegate", "worklease-admin"),
    ],
)
def test_an_agent_is_told_which_verb_an_administrator_has(
    cluster: Cluster, namespace: str, agent: Identity, words: tuple[str, ...], verb: str, role: str
) -> None:
    """The policy's sentence, without the names of policies, and the smallest role; each role has its verb there."""
    Work.create(cluster, namespace, "w", lease_seconds=600).hold(Agent.of(agent))
    code, _, err = Shell(agent, namespace).call(*words)
    assert (code, "ValidatingAdmissionPolicy" in err) == (Exit.REFUSED, False)
    assert f"the verb {verb}; ClusterRole {role} has it" in err
    kind = "handoffs" if words[0] == "handoff" else "workleases"
    assert verb in GRANTS[role][kind]


@pytest.mark.usefixtures("operator")
def test_what_is_waited_for_is_said(cluster: Cluster, namespace: str, agent: Identity, other: Identity) -> None:
    """Until when the work is leased, and nothing about who has it (case 13)."""
    Work.create(cluster, namespace, "w", lease_seconds=600).hold(Agent.of(other))
    shell = Shell(agent, namespace)
    for words in (("claim", "w", "--wait", "0.5"), ("hold", "w", "--wait", "0.5", "--", "true")):
        code, _, err = shell.call(*words)
        assert code == Exit.WAITED
        assert "work is leased until about 2" in err.splitlines()[0]
        assert err.splitlines()[0].endswith("; waiting")
        assert err.splitlines()[1].endswith("the work was not free within 0.5 s")
        assert other.username not in err


@pytest.mark.parametrize(
    "words",
    [
        ("status", "none"),
        ("watch", "none"),
        ("history", "none"),
        ("tree", "none"),
        ("claim", "none"),
        ("claim", "none", "--wait"),
        ("hold", "none", "--", "true"),
        ("renew", "none"),
        ("revoke", "none", *REASON),
        ("handoff", "create", "none", "--to", "b"),
    ],
)
def test_what_does_not_exist_is_an_error_that_trying_again_does_not_mend(
    namespace: str, agent: Identity, words: tuple[str, ...]
) -> None:
    """1, and how to find what there is; a loop that waits for leased work (3) ends."""
    code, out, err = Shell(agent, namespace).call(*words)
    assert (code, out, err.count("\n")) == (Exit.ERROR, "", 1)
    assert f"{namespace}/none: there is no such work item: `worklease status` shows those that there are" in err
    assert ("--create makes one" in err) is (words[0] in ("claim", "hold"))


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("claim", "w", "--purpose", "x" * 2000), "--purpose: String should have at most"),
        (("claim", "v", "--create", "--lease-seconds", "5"), "--lease-seconds: Input should be greater"),
        (("claim", "v", "--create", "--jeopardy-seconds", "2h"), "--jeopardy-seconds: Input should be less"),
        (("claim", "v", "--create", "--work-type", "x" * 64), "--work-type: String should have at most"),
        (("release", "w", "--reason", "a\nb"), "--reason: String should match"),
        (("handoff", "create", "w", "--to", ""), "--to: String should have at least"),
        (("handoff", "create", "w", "--to", "b", "--claim-within", "0"), "--claim-within: Input should be greater"),
        (("handoff", "create", "w", "--to", "b", "--context-uri", "a b"), "--context-uri: String should match"),
    ],
)
def test_a_value_that_the_api_does_not_take_is_wrong_usage_of_its_flag(
    namespace: str, agent: Identity, words: tuple[str, ...], flag: str
) -> None:
    """By the name that was typed, and not by that of a field."""
    shell = Shell(agent, namespace)
    assert shell.call("claim", "w", "--create")[0] == Exit.DONE
    code, _, err = shell.call(*words)
    assert (code, err.count("\n")) == (Exit.USAGE, 1)
    assert err.startswith(f"worklease: {flag}")


@pytest.mark.usefixtures("operator")
def test_words_of_others_steer_no_terminal(cluster: Cluster, namespace: str, agent: Identity, other: Identity) -> None:
    """The API takes marks beyond ASCII that some terminals obey, or that turn a line around."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    work.hold(Agent.of(other), purpose="\x9b2J\u202elive\u00e9")
    shell = Shell(agent, namespace)
    for command in ("history", "tree"):
        out = shell.call(command, "w")[1]
        assert "2Jlive\u00e9" in out
        assert "\x9b" not in out
        assert "\u202e" not in out


def test_a_handoff_that_does_not_exist_is_an_error(namespace: str, agent: Identity) -> None:
    """As with work."""
    for words in (("accept", "none"), ("reject", "none", *REASON), ("withdraw", "none", *REASON)):
        code, _, err = Shell(agent, namespace).call("handoff", *words)
        assert (code, err.count("\n")) == (Exit.ERROR, 1)
        assert f"{namespace}/none: there is no such handoff: `worklease inbox` shows" in err


def test_nothing_can_be_created_in_a_namespace_that_does_not_exist(cluster: Cluster) -> None:
    """Said as it is, and at once, whoever may create everywhere."""
    for words in (("claim", "w", "--create"), ("claim", "w", "--create", "--dry-run=server"), ("claim", "w")):
        code, _, err = Shell(cluster.admin, "no-such-namespace").call(*words)
        assert (code, err.count("\n")) == (Exit.ERROR, 1)
        assert "there is no namespace no-such-namespace" in err or "there is no such work item" in err
        assert "--create" not in words or "there is no namespace" in err


@pytest.mark.parametrize("words", [("status",), ("status", "w"), ("claim", "w", "--create"), ("inbox",), ("watch",)])
def test_a_cluster_without_worklease_is_named_as_that(
    cluster: Cluster, namespace: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    """What is missing is not the work item."""
    proxy = Proxy(cluster)
    try:
        proxy.refuse = lambda path, _watching: 404 if "/worklease.dev/" in path else 0
        shell = Shell(cluster.admin, namespace, kubeconfig=proxy.kubeconfig(tmp_path, cluster.admin.token))
        code, _, err = shell.call(*words)
    finally:
        proxy.stop()
    assert (code, err.count("\n")) == (Exit.ERROR, 1)
    assert "is worklease installed?" in err


def test_an_unreachable_cluster_is_one_line(namespace: str, agent: Identity, tmp_path: Path) -> None:
    """Which server was asked, what it said, and which flags say who asks whom."""
    config = json.loads(agent.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    nowhere = tmp_path / "nowhere"
    nowhere.write_text(json.dumps(config))
    code, _, err = Shell(agent, namespace, kubeconfig=nowhere).call("status")
    assert (code, err.count("\n")) == (Exit.ERROR, 1)
    assert "https://127.0.0.1:1 cannot be asked" in err
    config["users"][0]["user"]["token"] = "not-a-token"
    config["clusters"][0]["cluster"]["server"] = json.loads(agent.kubeconfig.read_text())["clusters"][0]["cluster"][
        "server"
    ]
    nowhere.write_text(json.dumps(config))
    code, _, err = Shell(agent, namespace, kubeconfig=nowhere).call("status")
    assert (code, "does not accept the credentials" in err) == (Exit.ERROR, True)


def test_a_kubeconfig_or_a_context_that_is_not_there_is_named_with_what_to_do(
    namespace: str, agent: Identity, tmp_path: Path
) -> None:
    """How to name another file; which contexts there are."""
    code, _, err = Shell(agent, namespace, kubeconfig=tmp_path / "none").call("status")
    assert (code, err.count("\n")) == (Exit.ERROR, 1)
    assert f"kubeconfig {tmp_path / 'none'} does not exist: name a kubeconfig by KUBECONFIG or --kubeconfig" in err
    (known,) = json.loads(agent.kubeconfig.read_text())["contexts"]
    code, _, err = Shell(agent, namespace).call("status", "--context", "nope")
    assert (code, err.count("\n")) == (Exit.ERROR, 1)
    assert f"has no context nope: those that it has are {known['name']}\n" in err


def test_a_server_that_never_answers_does_not_hang_a_command(namespace: str, agent: Identity, tmp_path: Path) -> None:
    """It accepts, and is silent: 1, in time (case 6)."""
    with wire(agent, tmp_path) as (between, kubeconfig):
        between.silence()
        code, _, err = Shell(agent, namespace, kubeconfig=kubeconfig).run("status")
    assert (code, "cannot be asked" in err, err.count("\n")) == (Exit.ERROR, True, 1)


def test_a_reader_that_has_seen_enough_is_no_error(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """`worklease status | head -1`: nothing on stderr, and the code of any program whose pipe is closed."""
    Work.create(cluster, namespace, "w")
    shell = Shell(agent, namespace)
    process = subprocess.Popen(
        shell.words("status"),
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()  # long before it has anything to print
    err = process.stderr.read()
    assert (process.wait(60), err) == (141, "")
    process.stderr.close()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_error(
    cluster: Cluster, namespace: str, agent: Identity, closed: str, tmp_path: Path
) -> None:
    """What would be said is said to nobody; who asks is told that nobody is there; a command under hold has a stdin."""
    Work.create(cluster, namespace, "w")
    shell = Shell(agent, namespace)

    def run(*words: str, code: int) -> None:
        script = f'exec "$@" {closed}'
        with (tmp_path / "err").open("w") as err:
            ran = subprocess.run(
                ["sh", "-c", script, "sh", *shell.words(*words)], env=shell.environment, stdout=err, stderr=err
            )
        assert ran.returncode == code, (tmp_path / "err").read_text()
        assert "Traceback" not in (tmp_path / "err").read_text()

    run("status", code=0)
    run("status", "w", "-o", "yaml", code=0)
    run("renew", "w", code=Exit.REFUSED)
    run("watch", "none", code=Exit.ERROR)


@pytest.mark.usefixtures("operator")
def test_hold_without_a_stdin_runs_its_command_with_an_empty_one(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """And not with whatever was opened in its place."""
    Work.create(cluster, namespace, "w", lease_seconds=600)
    shell = Shell(agent, namespace)
    words = shell.words("hold", "w", "--", "sh", "-c", "wc -c")
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *words], env=shell.environment, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "0"), ran.stderr


def test_an_output_that_cannot_be_written_is_one_line(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """As on a full disk: 1, and no traceback."""
    Work.create(cluster, namespace, "w")
    shell = Shell(agent, namespace)
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            shell.words("status"), env=shell.environment, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (ran.returncode, ran.stderr.count("\n")) == (Exit.ERROR, 1), ran.stderr
    assert "No space left on device" in ran.stderr


def test_what_a_terminal_cannot_write_is_replaced(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Where there are no other characters than those of ASCII, a tree is still drawn."""
    Work.create(cluster, namespace, "w")
    shell = Shell(agent, namespace)
    environment = {**shell.environment, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run(shell.words("tree", "w"), env=environment, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, "nobody has held it" in ran.stdout) == (0, True), ran.stderr


def test_colours_are_for_terminals_only(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """And not for those who ask for none (NO_COLOR)."""
    Work.create(cluster, namespace, "w")
    shell = Shell(agent, namespace)
    assert "\x1b" not in shell.run("status")[1]
    with Terminal(shell.words("status"), shell.environment) as terminal:
        assert terminal.ends() == 0
        assert "\x1b[90mAvailable" in terminal.drawn
    with Terminal(shell.words("status"), {**shell.environment, "NO_COLOR": "1"}) as terminal:
        assert terminal.ends() == 0
        assert "\x1b" not in terminal.drawn
        assert "Available" in terminal.drawn


@pytest.mark.usefixtures("operator")
def test_a_takeover_asks_the_person_at_the_terminal(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """No is no: nothing was done, and 1, at the end of the input too; so is Ctrl-C, with its own code; yes takes it."""
    work = Work.create(cluster, namespace, "w", lease_seconds=600)
    epoch = work.hold(Agent.of(agent))
    shell = Shell(cluster.admin, namespace)
    with Terminal(shell.words("takeover", "w", *REASON), shell.environment) as terminal:
        terminal.shows("take it over? [y/N]")
        assert terminal.interrupt() == 130
        assert terminal.drawn.endswith("\r\nworklease: nothing was done\r\n")
    for said, code in (("n\n", Exit.ERROR), ("\n", Exit.ERROR), ("\x04", Exit.ERROR), ("y\n", Exit.DONE)):
        with Terminal(shell.words("takeover", "w", *REASON), shell.environment) as terminal:
            terminal.shows("take it over? [y/N]")
            assert agent.username in terminal.drawn
            terminal.type(said)
            assert terminal.ends() == code
            assert terminal.drawn.endswith("\r\nworklease: nothing was done\r\n") is (code is Exit.ERROR)
        assert (work.epoch > epoch) is (code is Exit.DONE)


def test_an_empty_table_says_what_there_is_none_of(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """On stderr, so that a program reads nothing."""
    shell = Shell(agent, namespace)
    assert shell.call("status") == (0, "", f"no work items in namespace {namespace}\n")
    assert shell.call("inbox")[:2] == (0, "")
    assert shell.call("status", "-o", "name") == (0, "", "")
    Work.create(cluster, namespace, "w")
    assert shell.call("history", "w") == (0, "", f"nobody has held {namespace}/w\n")
    assert shell.call("effects", "w") == (0, "", f"no effects of {namespace}/w are logged\n")


def test_help_is_quick_because_it_loads_nothing() -> None:
    """No HTTP library, Kubernetes client or model is imported before a command needs it."""
    code = (
        "import sys; from worklease.cli.grammar import parser; parser().format_help(); import worklease.cli.command;"
        "print([m for m in ('aiohttp', 'kubernetes', 'pydantic', 'yaml') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
