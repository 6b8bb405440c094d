"""A control plane of its own for a run, with everybody who takes part: their credentials, wires and processes."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from commands import SetupError
from controlplane import ControlPlane, Process, User, ensure, install, operator_token
from controlplane.credentials import kubeconfig, write_private
from controlplane.manifests import Kubectl
from controlplane.ports import LOOPBACK, free_port
from localcluster.operating import READY, readiness
from progress import Progress

from .history import Recorder
from .party import Orders
from .store import Store
from .wires import Wire, Wires

HACK = Path(__file__).resolve().parents[1]
ADMINISTRATOR = "administrator"
SETTLER = "settler"
AGENTS = 4
ROLES = {"agent": "worklease-agent-creator", ADMINISTRATOR: "worklease-admin", SETTLER: "worklease-admin"}
OPERATOR_WITHIN_SECONDS = 60.0
STOPPED_WITHIN_SECONDS = 5.0
POLL_SECONDS = 0.05


class Setting:
    """The control plane, the record of its store, and the wires. Use it with `with`, in the main thread."""

    def __init__(self, directory: Path, agents: int = AGENTS) -> None:
        self.directory = directory
        self.agents = tuple(f"agent-{number}" for number in range(agents))
        names = (*self.agents, ADMINISTRATOR, SETTLER)
        self.plane = ControlPlane(
            users=[User(name) for name in names],
            binaries=ensure("etcd", "kube-apiserver", "kubectl"),
            api_server_arguments=["--etcd-compaction-interval=0s"],
        )
        self.recorder = Recorder(directory, "run")
        self._stack = ExitStack()
        self._operator: User | None = None

    def __enter__(self) -> Setting:
        try:
            with Progress("starting a control plane", "8 s"):
                self._stack.enter_context(self.plane)
                install(self.plane.kubeconfig, self.plane.kubectl)
            self.kubectl = Kubectl(self.plane.kubectl, self.plane.kubeconfig)
            certificates = self.plane.directory / "certificates"
            pair = certificates / "apiserver.crt", certificates / "apiserver.key"
            self.wires = self._stack.enter_context(Wires(self.plane.server, *pair, self.plane.ca_file))
            self.store = Store(self.plane.etcd_server, Recorder(self.directory, "store"))
            token = operator_token(self.plane.kubeconfig, self.plane.kubectl)
            self._operator = User("worklease-operator", token=token)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Replaces manifests of worklease's by these."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl.apply("-f", "-", given=json.dumps(listed))

    def credentials(self, username: str, wire: Wire | None = None) -> Path:
        """A kubeconfig of a user, over a wire or past all of them."""
        user = self._operator if username == "worklease-operator" else self.plane.users[username]
        assert user is not None
        server = f"https://{LOOPBACK}:{wire.port}" if wire else self.plane.server
        path = self.directory / f"kubeconfig-{wire.name if wire else username}"
        write_private(path, kubeconfig(server, self.plane.ca_file.read_text(), [user]))
        return path

    def company(self, name: str, items: int, without: str = "") -> Company:
        """A namespace with those who work in it; nobody has been started yet."""
        namespace = f"{name}-{secrets.token_hex(3)}"
        self.kubectl.must("create", "namespace", namespace)
        for user in (*self.agents, ADMINISTRATOR, SETTLER):
            role = ROLES["agent" if user in self.agents else user]
            self.kubectl.must(
                "create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}", f"--namespace={namespace}"
            )
        company = Company(self, name, namespace, items, without)
        self._stack.callback(company.stop)
        return company


class Member:
    """One party: a process that can be started again, and its wire."""

    def __init__(
        self, company: Company, name: str, module: str, orders: Orders, flags: Sequence[str], wire: Wire
    ) -> None:
        self.name = name
        self.wire = wire
        self._company = company
        self._module = module
        self._orders = orders
        self._flags = list(flags)
        self.incarnation = 0
        self.process: Process | None = None

    def start(self) -> None:
        """Starts it, after the first time as somebody who knows nothing of it but its name."""
        self.incarnation += 1
        party = f"{self.name}#{self._company.name}.{self.incarnation}"
        orders = replace(self._orders, party=party, seed=self._orders.seed * 1000 + self.incarnation)
        command = [sys.executable, "-m", f"chaosrun.{self._module}", orders.text(), *self._flags]
        log = self._company.setting.directory / f"log-{self._company.name}-{self.name}.txt"
        self.process = Process(self.name, ["/usr/bin/env", f"PYTHONPATH={HACK}", *command], log)

    def kill(self) -> None:
        """Ends it at once."""
        if self.process and self.process.exit_code is None:
            self.process.kill()


class Company:
    """A namespace, its agents, operators, recipients and administrator."""

    def __init__(self, setting: Setting, name: str, namespace: str, items: int, without: str) -> None:
        self.setting = setting
        self.name = name
        self.namespace = namespace
        self.items = tuple(f"item-{number}" for number in range(items))
        self.without = without
        self.members: dict[str, Member] = {}
        self._ready_at: dict[str, str] = {}

    def key(self, item: str) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{item}"

    def stop(self) -> None:
        """Ends whoever still runs."""
        for member in self.members.values():
            member.kill()

    def operators(self, count: int, *, wait: bool = True) -> list[Member]:
        """Starts so many replicas, and waits until they are ready unless told otherwise."""
        started = []
        for number in range(count):
            address = f"{LOOPBACK}:{free_port()}"
            flags = [f"--namespace={self.namespace}", f"--listen={address}"]
            flags += [f"--replicas={count}", f"--ordinal={number}"]
            member = self._member(f"operator-{number}", "replica", "worklease-operator", 0, flags)
            self._ready_at[member.name] = address
            started.append(member)
        if wait:
            with Progress("starting the operators", "3 s"):
                self.wait_for_operators()
        return started

    def wait_for_operators(self) -> None:
        """Returns when every one is ready. Raises SetupError."""
        deadline = time.monotonic() + OPERATOR_WITHIN_SECONDS
        for name, address in self._ready_at.items():
            while (said := readiness(address)) != READY:
                process = self.members[name].process
                assert process
                if process.exit_code is not None or time.monotonic() > deadline:
                    raise SetupError(f"{name} is not ready ({said}):\n{process.last_lines()}")
                time.sleep(POLL_SECONDS)

    def recipients(self) -> Member:
        """Starts the recipients, and waits until they listen. They reach the API server past all faults."""
        member = self._member("recipients", "recipients", SETTLER, 0, (), direct=True)
        socket = self.setting.directory / f"recipients-{self.name}.sock"
        deadline = time.monotonic() + OPERATOR_WITHIN_SECONDS
        while not socket.exists():
            assert member.process
            if member.process.exit_code is not None or time.monotonic() > deadline:
                raise SetupError(f"the recipients do not listen:\n{member.process.last_lines()}")
            time.sleep(POLL_SECONDS)
        return member

    def agent(self, number: int, seed: int, *, module: str = "agent", **options: Any) -> Member:
        """Starts an agent."""
        return self._member(self.setting.agents[number], module, self.setting.agents[number], seed, (), options)

    def administrator(self, seed: int) -> Member:
        """Starts the administrator."""
        return self._member(ADMINISTRATOR, "administrator", ADMINISTRATOR, seed, ())

    def orders(self, party: str, username: str, seed: int = 0, **options: Any) -> Orders:
        """What somebody of the company is told, who reaches the API server past all faults."""
        return Orders(
            party=party,
            directory=self.setting.directory,
            company=self.name,
            seed=seed,
            kubeconfig=str(self.setting.credentials(username)),
            namespace=self.namespace,
            username=username,
            items=self.items,
            agents=self.setting.agents,
            without=self.without,
            options=options,
        )

    def _member(
        self,
        name: str,
        module: str,
        username: str,
        seed: int,
        flags: Sequence[str],
        options: dict[str, Any] | None = None,
        *,
        direct: bool = False,
    ) -> Member:
        wire = self.setting.wires.add(f"{self.name}-{name}")
        path = self.setting.credentials(username, None if direct else wire)
        orders = replace(self.orders("", username, seed, **(options or {})), kubeconfig=str(path))
        flags = [f"--kubeconfig={path}", *flags] if module == "replica" else flags
        member = self.members[name] = Member(self, name, module, orders, flags, wire)
        member.start()
        return member
