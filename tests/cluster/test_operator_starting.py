"""The operator starts or says why it cannot, and ends when it is told to."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster, Identity
from support.operators import Launcher
from support.speaking import Agent, Work
from support.waiting import wait_for
from worklease.controller import command

CLAIMS = 40
CallForIdentity = Callable[..., Identity]


@pytest.fixture
def launcher(cluster: Cluster, tmp_path: Path) -> Iterator[Launcher]:
    """Starts operators, and ends them."""
    launcher = Launcher(cluster, tmp_path)
    yield launcher
    launcher.stop()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--ordinal=1"], "--ordinal 1 is not below --replicas 1"),
        (["--ordinal=2", "--replicas=2"], "--ordinal 2 is not below --replicas 2"),
        (["--replicas=0"], "the number of replicas is a whole number from 1 to 64, not '0'"),
        (["--epoch-floor=-1"], "the epoch floor is a whole number from 0 to 2251799813685248, not '-1'"),
        (["--epoch-floor=2251799813685249"], "the epoch floor is a whole number"),
        (["--epoch-floor=many"], "the epoch floor is a whole number"),
        (["--listen=localhost"], "an address is HOST:PORT"),
        (["--listen=127.0.0.1:65536"], "an address is HOST:PORT"),
        (["--log-format=xml"], "invalid choice: 'xml'"),
        (["--what"], "unrecognized arguments: --what"),
    ],
)
def test_a_wrong_command_line_is_explained(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag that makes no sense ends the command with 2 and says what would."""
    monkeypatch.setattr("socket.gethostname", lambda: "host")
    with pytest.raises(SystemExit) as ended:
        command.options(flags)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_flags_may_be_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each flag can be a variable; the flag wins; an ordinal is read off the host's name."""
    monkeypatch.setattr("socket.gethostname", lambda: "worklease-operator-1")
    monkeypatch.setenv("WORKLEASE_REPLICAS", "2")
    monkeypatch.setenv("WORKLEASE_NAMESPACE", "a, b")
    monkeypatch.setenv("WORKLEASE_EPOCH_FLOOR", "7")
    monkeypatch.setenv("WORKLEASE_DISTRUST_SERVER_TIMES", "true")
    options, log_format, log_level = command.options(["--epoch-floor=8", "--log-format=json"])
    assert options.namespaces == ("a", "b")
    settings = options.settings
    assert (settings.replicas, settings.ordinal, settings.floor) == (2, 1, 8)
    assert settings.trust_server_times is False
    assert (log_format, log_level) == ("json", "info")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "kubeconfig {path} does not exist"),
        ("a: [", "kubeconfig {path} cannot be used: while parsing"),
        ("", "kubeconfig {path} cannot be used"),
        ("[]", "kubeconfig {path} cannot be used"),
        ("apiVersion: v1\nkind: Config\ncurrent-context: x\n", "kubeconfig {path} cannot be used"),
        (
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: [{name: u, user: {token: t}}]\n"
            "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: /nowhere/ca}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\n",
            "/nowhere/ca",
        ),
    ],
    ids=["missing", "no YAML", "empty", "a list", "without clusters", "without its CA"],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(
    content: str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without credentials the command ends with 1 and one sentence that names the file."""
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    monkeypatch.setattr("sys.argv", ["worklease-operator", f"--kubeconfig={path}", "--listen=127.0.0.1:0"])
    monkeypatch.setattr("worklease.controller.logs.configure", lambda form, level: None)
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setattr("gc.set_threshold", lambda *thresholds: None)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 1
    line = capsys.readouterr().err.strip()
    assert line.startswith("worklease-operator: ")
    assert said.format(path=path) in line
    assert len(line.splitlines()) == 1


def test_a_port_in_use_is_named(launcher: Launcher, namespace: str) -> None:
    """An address that somebody else listens on ends the command with 1 and a sentence, not with a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        operator = launcher.start(namespace, f"--listen=127.0.0.1:{port}")
        assert operator.ended() == 1
    assert f"127.0.0.1:{port} cannot be listened on" in operator.log
    assert "Traceback" not in operator.log


def test_without_its_role_it_waits_and_says_so(
    cluster: Cluster, namespace: str, launcher: Launcher, service_account: CallForIdentity
) -> None:
    """It is alive and not ready while it may not list, says so, and starts to work once it may."""
    identity = service_account(namespace, "operator")
    operator = launcher.start(namespace, kubeconfig=identity.kubeconfig)
    operator.serves()
    wait_for(lambda: "may not get, list, watch" in operator.get("/readyz")[1], "/readyz to say what is missing")
    assert operator.get("/readyz")[0] == 503
    assert operator.get("/healthz") == (200, "ok\n")
    cluster.grant(namespace, "worklease-operator", identity)
    operator.ready()
    agent = Agent.of(service_account(namespace, "agent", "worklease-agent"))
    Work.create(cluster, namespace).hold(agent)
    assert "Traceback" not in operator.log


def test_with_a_wrong_token_it_waits_and_says_so(cluster: Cluster, namespace: str, launcher: Launcher) -> None:
    """Credentials that the API server does not know leave it alive and not ready."""
    identity = cluster.as_token("nobody", "not-a-token")
    operator = launcher.start(namespace, kubeconfig=identity.kubeconfig)
    operator.serves()
    wait_for(lambda: "Unauthorized" in operator.get("/readyz")[1], "/readyz to say what is wrong")
    assert operator.get("/healthz") == (200, "ok\n")
    operator.send(signal.SIGTERM)
    assert operator.ended() == 0
    assert "not-a-token" not in operator.log
    assert "Traceback" not in operator.log


@pytest.mark.parametrize(
    ("moment", "signals"),
    [
        ("starting", [signal.SIGTERM]),
        ("starting", [signal.SIGTERM, signal.SIGTERM]),
        ("running", [signal.SIGINT]),
        ("running", [signal.SIGTERM, signal.SIGTERM]),
    ],
)
def test_a_signal_ends_it_in_order(
    moment: str, signals: list[signal.Signals], launcher: Launcher, namespace: str
) -> None:
    """SIGTERM and Ctrl-C, once or twice, while it starts or later, end it with 0 and no complaint (case 9)."""
    operator = launcher.start(namespace)
    operator.serves()
    if moment == "running":
        operator.ready()
    for number in signals:
        operator.send(number)
    assert operator.ended() == 0
    assert "Traceback" not in operator.log
    assert " ERROR " not in operator.log


def test_a_signal_loses_and_repeats_no_decision(
    cluster: Cluster, namespace: str, launcher: Launcher, service_account: CallForIdentity
) -> None:
    """SIGTERM in the middle of many decisions: each is made before it ends, or by the next operator, and once."""
    agent = Agent.of(service_account(namespace, "agent", "worklease-agent"))
    works = [Work.create(cluster, namespace, lease_seconds=600) for _ in range(CLAIMS)]
    operator = launcher.start(namespace).ready()
    claims = [work.claim(agent) for work in works[: CLAIMS // 2]]
    operator.send(signal.SIGTERM)
    claims += [work.claim(agent) for work in works[CLAIMS // 2 :]]
    assert operator.ended() == 0
    launcher.start(namespace).ready()
    for work, claim in zip(works, claims, strict=True):
        work.granted(claim)
        assert [tenure["grantReason"] for tenure in work.history] == ["FirstGrant"]
        assert work.status["leaseTransitions"] == 1
    assert "Traceback" not in operator.log


def test_what_it_tells_about_itself(
    cluster: Cluster, namespace: str, launcher: Launcher, service_account: CallForIdentity
) -> None:
    """/healthz and /readyz are ok; /metrics counts phases, grants, ends and swaps; the log has a line per decision."""
    operator = launcher.start(namespace, "--log-format=json").ready()
    agent = Agent.of(service_account(namespace, "agent", "worklease-agent"))
    works = [Work.create(cluster, namespace, lease_seconds=600) for _ in range(3)]
    held, released, _ = works
    held.hold(agent)
    epoch = released.hold(agent)
    released.release(agent, epoch).must()
    released.reaches("Released")
    assert operator.get("/healthz") == (200, "ok\n")
    assert operator.get("/readyz") == (200, "ok\n")
    wait_for(
        lambda: (
            [operator.metric("worklease_leases", phase=phase) for phase in ("Available", "Held", "Released")]
            == [1, 1, 1]
        ),
        "one lease in each of the phases",
    )
    assert operator.metric("worklease_grants_total", reason="FirstGrant") == 2
    assert operator.metric("worklease_tenure_ends_total", reason="Released") == 1
    # Two grants, an end, and the conditions of an object that nobody has claimed.
    assert operator.metric("worklease_swaps_total", result="won") >= 4
    assert operator.metric("worklease_swaps_total", result="failed") == 0
    assert operator.metric("worklease_watch_events_total", kind="WorkLease") > 0
    decisions = [line for line in operator.log_lines() if line.get("worklease")]
    assert {(line["worklease"], line["reason"]) for line in decisions} == {
        (f"{namespace}/{held.name}", "Granted"),
        (f"{namespace}/{released.name}", "Granted"),
        (f"{namespace}/{released.name}", "Released"),
    }
    assert len(decisions) == 3
    assert [line["epoch"] for line in decisions if line["reason"] == "Released"] == [epoch]
