"""Starting the operator for a test: as a process of its own by its own role, or in a thread where that is quicker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import urllib3
from prometheus_client.parser import text_string_to_metric_families

from controlplane import operator_token
from support.cluster import Cluster
from support.waiting import wait_for
from worklease.controller.operator import Operator, Options
from worklease.controller.reconciler import Settings
from worklease.kube.credentials import Source

OPERATOR = "system:serviceaccount:worklease-system:worklease-operator"
READY_WITHIN_SECONDS = 60.0
ENDED_WITHIN_SECONDS = 30.0
SERVING = re.compile(r"on port (\d+)")
COMMAND = "worklease.controller.command"

_kubeconfigs: dict[Path, Path] = {}
_http = urllib3.PoolManager(retries=False, timeout=10.0)


def operator_kubeconfig(cluster: Cluster) -> Path:
    """A kubeconfig with the token of the operator's own ServiceAccount; one for each cluster."""
    if cluster.kubeconfig not in _kubeconfigs:
        token = operator_token(cluster.kubeconfig, cluster.kubectl_path)
        _kubeconfigs[cluster.kubeconfig] = cluster.as_token(OPERATOR, token).kubeconfig
    return _kubeconfigs[cluster.kubeconfig]


class Probes:
    """What an operator answers on its port, and what its metrics say."""

    port: int = 0

    def get(self, path: str) -> tuple[int, str]:
        """The status and text of one of its pages; (0, why) when there is no answer."""
        try:
            answer = _http.request("GET", f"http://127.0.0.1:{self.port}{path}")
        except urllib3.exceptions.HTTPError as error:
            return 0, str(error)
        return answer.status, answer.data.decode()

    def is_ready(self) -> bool:
        """Whether it says that it is."""
        return self.port != 0 and self.get("/readyz")[0] == 200

    def metric(self, sample: str, **labels: str) -> float:
        """The value of a sample of /metrics; 0 where it is not there."""
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for found in family.samples:
                if found.name == sample and found.labels == labels:
                    return float(found.value)
        return 0.0


class OperatorProcess(Probes):
    """worklease-operator as a subprocess. Its log goes to a file."""

    def __init__(
        self, kubeconfig: Path, namespace: str, log: Path, *flags: str, module: str = COMMAND, **variables: str
    ) -> None:
        self.log_file = log
        self.stopped = False
        arguments = [f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", "--listen=127.0.0.1:0", *flags]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self.log_file.read_text(errors="replace")

    def log_lines(self) -> list[dict[str, Any]]:
        """Its log in JSON, as objects."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def serves(self) -> int:
        """Waits until it serves its probes; returns the port."""

        def found() -> int:
            match = SERVING.search(self.log)
            assert match or self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log}"
            return int(match.group(1)) if match else 0

        self.port = wait_for(found, "the operator to serve its probes", READY_WITHIN_SECONDS)
        return self.port

    def ready(self) -> OperatorProcess:
        """Waits until it is ready."""
        self.serves()
        wait_for(self.is_ready, "the operator to be ready", READY_WITHIN_SECONDS)
        return self

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self.process.send_signal(number)

    def ended(self, within_seconds: float = ENDED_WITHIN_SECONDS) -> int:
        """Waits until it has ended; returns its exit code, negative for a signal."""
        return self.process.wait(within_seconds)

    def stop(self) -> None:
        """Ends it, whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(ENDED_WITHIN_SECONDS)


class OperatorThread(Probes):
    """The operator in a thread of this process."""

    def __init__(self, options: Options) -> None:
        self.operator = Operator(options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="operator", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        async def main() -> None:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            await self.operator.run(self._stop)

        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self._error = error

    def ready(self) -> OperatorThread:
        """Waits until it is ready."""

        def there() -> bool:
            assert self._thread.is_alive(), f"the operator ended: {self._error!r}"
            self.port = self.operator.port or 0
            return self.is_ready()

        wait_for(there, "the operator to be ready", READY_WITHIN_SECONDS)
        return self

    def call(self, function: Callable[[], Any]) -> None:
        """Calls something in its event loop."""
        assert self._loop
        self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """Ends it as a signal would; fails with what it died of, if it died."""
        if self._loop and self._stop and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(ENDED_WITHIN_SECONDS)
        assert not self._thread.is_alive(), "the operator did not end"
        if self._error:
            raise self._error


@contextlib.contextmanager
def operating(
    cluster: Cluster, namespace: str, *, kubeconfig: Path | None = None, **settings: Any
) -> Iterator[OperatorThread]:
    """An operator in a thread, for one namespace, ready; by its own role unless another kubeconfig is given."""
    options = Options(
        source=Source(str(kubeconfig or operator_kubeconfig(cluster))),
        namespaces=(namespace,),
        settings=Settings(**settings),
        host="127.0.0.1",
        port=0,
    )
    operator = OperatorThread(options)
    try:
        yield operator.ready()
    finally:
        operator.stop()


class Launcher:
    """Starts operators as processes, with their logs in one directory, and ends them all."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self._directory = directory
        self._started: list[OperatorProcess] = []

    def start(
        self, namespace: str, *flags: str, kubeconfig: Path | None = None, module: str = COMMAND, **variables: str
    ) -> OperatorProcess:
        """Starts one, by its own role unless another kubeconfig is given. It need not be ready yet."""
        log = self._directory / f"operator-{len(self._started)}.log"
        given = kubeconfig or operator_kubeconfig(self.cluster)
        operator = OperatorProcess(given, namespace, log, *flags, module=module, **variables)
        self._started.append(operator)
        return operator

    def stop(self) -> None:
        """Ends all that still run."""
        for operator in self._started:
            operator.send(signal.SIGCONT)
            operator.stop()
