"""The agents of examples/agents on a node, with short leases, and a record of which of them worked, in which order."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.cluster import Cluster, Identity
from support.waiting import wait_for

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "agents"
WORK = "invoice-42"
ACCOUNT = "agent"
LEASE_SECONDS = 10
WITHIN_SECONDS = 120.0

# What an example prints at each step, and what makes it say the same in one file that all pods append to.
STEPS = {
    "hold": (
        """print(f"working under epoch {os.environ['WORKLEASE_EPOCH']}", flush=True)""",
        """open("/record/steps", "a").write(f"{os.environ['WORKLEASE_EPOCH']} {os.uname().nodename}\\n")""",
    ),
    "kubectl": (
        'echo "working under epoch $epoch"',
        'echo "$epoch $POD_NAME" >> /record/steps',
    ),
}


@dataclass(frozen=True)
class Step:
    """One piece of work: under which epoch, in which pod."""

    epoch: int
    pod: str


class Agents:
    """A Deployment of two replicas that work on one item, in a namespace of their own."""

    def __init__(self, cluster: Cluster, namespace: str, example: str, directory: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.example = example
        self.record = directory / "record"

    def deploy(self) -> Agents:
        """Applies the example and waits until one of the pods works."""
        self.record.mkdir()
        self.record.chmod(0o777)
        plain, recorded = STEPS[self.example]
        text = (EXAMPLES / f"{self.example}.yaml").read_text()
        assert plain in text
        objects = list(yaml.safe_load_all(text.replace(plain, recorded)))
        for found in objects:
            if found["kind"] == "WorkLease":
                found["spec"].update(leaseDurationSeconds=LEASE_SECONDS, jeopardyDurationSeconds=0)
            if found["kind"] == "Deployment":
                self._have_recorded(found["spec"]["template"]["spec"])
        self.kubectl("apply", "--server-side", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": objects})
        wait_for(self.steps, "one of the agents to work", WITHIN_SECONDS)
        self.kubectl("rollout", "status", "deployment/agent", f"--timeout={WITHIN_SECONDS:.0f}s")
        return self

    def _have_recorded(self, pod: dict[str, Any]) -> None:
        pod.setdefault("volumes", []).append({"name": "record", "hostPath": {"path": str(self.record)}})
        mounts = pod["containers"][0].setdefault("volumeMounts", [])
        mounts.append({"name": "record", "mountPath": "/record"})

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

        return wait_for(held, "a pod to hold the work", WITHIN_SECONDS).removeprefix("pod:").partition("/")[0]

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods of the Deployment, by name."""
        answer = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector="app=agent").must()
        return {pod["metadata"]["name"]: pod for pod in answer["items"]}

    def steps(self) -> list[Step]:
        """Everything that has been worked, in the order in which it was."""
        try:
            lines = (self.record / "steps").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [Step(int(epoch), pod) for epoch, pod in (line.split() for line in lines)]

    def works_above(self, epoch: int) -> Step:
        """Waits until somebody works under a higher epoch; returns the first such step."""
        return wait_for(
            lambda: [step for step in self.steps() if step.epoch > epoch],
            f"work under an epoch above {epoch}; the lease: {json.dumps(self.lease()['status'])}",
            WITHIN_SECONDS,
        )[0]

    def assert_one_at_a_time(self) -> None:
        """No step under an earlier epoch came after one under a later, and each epoch was worked by one pod."""
        steps = self.steps()
        assert [step.epoch for step in steps] == sorted(step.epoch for step in steps)
        workers = {(step.epoch, step.pod) for step in steps}
        assert len(workers) == len({epoch for epoch, _ in workers}), workers

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


def _is_of(process: int, pod_uid: str) -> bool:
    try:
        return f"pod{pod_uid}" in Path(f"/proc/{process}/cgroup").read_text()
    except OSError:
        return False
