"""The agents of examples/agents on a node, with short leases, and a record of which of them worked, in which order."""

from __future__ import annotations

import json
import os
import re
import signal
import textwrap
from pathlib import Path
from typing import Any

import yaml

from support.cluster import Cluster, Identity
from support.pods import POLL_SECONDS, Pods
from support.recorder import Recorder, Step
from support.waiting import wait_for

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "agents"
WORK = "invoice-42"
ACCOUNT = "agent"
LEASE_SECONDS = 10
WITHIN_SECONDS = 120.0

# What an example prints at each step, and what makes it tell a recipient instead.
STEPS = {
    "hold": (
        """print(f"working under epoch {os.environ['WORKLEASE_EPOCH']}", flush=True)""",
        """
import contextlib, urllib.request
with contextlib.suppress(OSError):
    urllib.request.urlopen(f"RECORDER/{os.environ['WORKLEASE_EPOCH']}/{os.uname().nodename}", timeout=5).read()
""",
    ),
    "kubectl": (
        'echo "working under epoch $epoch"',
        'timeout 5 kubectl --server=RECORDER get --raw "/$epoch/$POD_NAME"',
    ),
}


class Agents:
    """A Deployment of two replicas that work on one item, in a namespace of their own."""

    def __init__(self, cluster: Cluster, namespace: str, example: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.example = example
        self._recorder = Recorder(Pods(cluster, namespace))

    def deploy(self) -> Agents:
        """Applies the example and waits until one of the pods works."""
        plain, told = STEPS[self.example]
        text = (EXAMPLES / f"{self.example}.yaml").read_text()
        assert plain in text
        objects = list(yaml.safe_load_all(_put_for(plain, told.replace("RECORDER", self._recorder.url), text)))
        for found in objects:
            if found["kind"] == "WorkLease":
                found["spec"].update(leaseDurationSeconds=LEASE_SECONDS, jeopardyDurationSeconds=0)
        self.kubectl("apply", "--server-side", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": objects})
        wait_for(self.steps, "one of the agents to work", WITHIN_SECONDS, POLL_SECONDS)
        self.kubectl("rollout", "status", "deployment/agent", f"--timeout={WITHIN_SECONDS:.0f}s")
        return self

    def kubectl(self, *arguments: str, identity: Identity | None = None, given: str | dict[str, Any] = "") -> str:
        """What kubectl prints; fails with what it says when it does not succeed."""
        answer = self.cluster.kubectl("-n", self.namespace, *arguments, identity=identity, given=given)
        assert answer.exit_code == 0, answer.stderr
        return answer.stdout

    def lease(self) -> dict[str, Any]:
        """The work item."""
        path = f"/apis/worklease.dev/v1alpha1/namespaces/{self.namespace}/workleases/{WORK}"
        return self.cluster.api.get(path).must()

    @property
    def epoch(self) -> int:
        """The epoch of the latest grant."""
        return int(self.lease()["status"]["epoch"])

    def holder(self) -> str:
        """The pod that holds the work; waits until one does."""

        def held() -> str:
            status = self.lease()["status"]
            return str(status["instance"]) if status["phase"] == "Held" else ""

        return (
            wait_for(held, "a pod to hold the work", WITHIN_SECONDS, POLL_SECONDS)
            .removeprefix("pod:")
            .partition("/")[0]
        )

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods of the Deployment, by name."""
        answer = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector="app=agent").must()
        return {pod["metadata"]["name"]: pod for pod in answer["items"]}

    def steps(self) -> list[Step]:
        """Every step that came to the recipient, in order."""
        return self._recorder.steps()

    def works_above(self, epoch: int) -> Step:
        """Waits until somebody works under a higher epoch; returns the first such step."""
        return wait_for(
            lambda: [step for step in self.steps() if step.epoch > epoch],
            f"work under an epoch above {epoch}; the lease: {json.dumps(self.lease()['status'])}",
            WITHIN_SECONDS,
            POLL_SECONDS,
        )[0]

    def assert_one_worked_at_a_time(self) -> None:
        """Each epoch was one pod's alone, and nothing was admitted under an earlier epoch than before."""
        admitted = [step for step in self.steps() if step.admitted]
        assert [step.epoch for step in admitted] == sorted(step.epoch for step in admitted)
        workers = {(step.epoch, step.pod) for step in admitted}
        assert len(workers) == len({epoch for epoch, _ in workers}), workers

    def assert_one_believed_at_a_time(self) -> None:
        """Nobody even tried to work when another held: where leases expire or are released, no recipient need check."""
        self.assert_one_worked_at_a_time()
        assert not [step for step in self.steps() if not step.admitted]

    def tenure(self, epoch: int) -> dict[str, Any]:
        """The tenure of an epoch, from the history."""
        return dict(next(found for found in self.lease()["status"]["history"] if found["epoch"] == epoch))

    def freeze(self, pod: str) -> None:
        """Stops every process of a pod at once, so that none of them says a word more."""
        uid = self.pods()[pod]["metadata"]["uid"]
        processes = [found for found in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _is_of(found, uid)]
        assert processes, f"no process of pod {pod} is seen from here"
        for process in processes:
            os.kill(process, signal.SIGSTOP)


def _put_for(plain: str, told: str, text: str) -> str:
    """The text with one piece in the place of another; where it has several lines, all as far indented as that was."""
    margin = re.findall(rf"^( *).*{re.escape(plain)}", text, re.MULTILINE)[0]
    return text.replace(plain, textwrap.indent(told.strip(), margin).lstrip())


def _is_of(process: int, pod_uid: str) -> bool:
    try:
        return f"pod{pod_uid}" in Path(f"/proc/{process}/cgroup").read_text()
    except OSError:
        return False
