"""Carries out a schedule of faults against a company, and records when each began and ended."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from functools import partial

from controlplane.credentials import write_private
from controlplane.servers import API_SERVER, ETCD

from . import faults
from .faults import Clock, Network, Planned
from .faults import Process as ProcessFault
from .history import real_seconds
from .setting import Company, Member

SERVERS = (API_SERVER, ETCD)
POLL_SECONDS = 0.1


class Nemesis:
    """One for a run. Everything it begins it ends."""

    def __init__(self, company: Company) -> None:
        self._company = company
        self._plane = company.setting.plane
        self._record = company.setting.recorder
        self._under_way: list[tuple[float, Planned, Callable[[], None]]] = []

    def carry_out(self, planned: list[Planned], seconds: float) -> None:
        """Returns after so many seconds, with everything healed."""
        start = real_seconds()
        waiting = list(planned)
        while (now := real_seconds() - start) < seconds or waiting:
            self._end_until(now)
            while waiting and waiting[0].after_seconds <= now:
                self._begin(waiting.pop(0), now)
            self._revive()
            time.sleep(POLL_SECONDS)
        self.heal()

    def heal(self) -> None:
        """Ends every fault that is under way."""
        self._end_until(float("inf"))

    def _begin(self, fault: Planned, now: float) -> None:
        if fault.target in SERVERS:
            # One server fault at a time: a server that is started while another one stands still does not get ready.
            for at, other, _ in list(self._under_way):
                if other.target in SERVERS:
                    self._end_until(at, only=other)
        self._record.write("fault", fault=fault.kind, number=fault.number, beyond_bounds=fault.fault is Clock.TOO_SLOW)
        end = self._server(fault) if fault.target in SERVERS else self._member(fault)
        self._under_way.append((now + fault.lasts_seconds, fault, end))

    def _end_until(self, now: float, only: Planned | None = None) -> None:
        for entry in sorted(self._under_way, key=lambda entry: entry[0]):
            at, fault, end = entry
            if at <= now and (only is None or fault is only):
                self._under_way.remove(entry)
                end()
                self._record.write("fault-end", fault=fault.kind, number=fault.number)

    def _server(self, fault: Planned) -> Callable[[], None]:
        if fault.fault is ProcessFault.PAUSE:
            self._plane.pause(fault.target)
            return partial(self._plane.resume, fault.target)
        self._plane.kill(fault.target)
        return partial(self._plane.restart, fault.target)

    def _member(self, fault: Planned) -> Callable[[], None]:
        member = self._company.members[f"{fault.target}-{fault.number}"]
        kind = fault.fault
        if isinstance(kind, Network):
            wires = self._company.setting.wires
            wires.begin(member.wire, kind)
            return partial(wires.end, member.wire, kind)
        process = member.process
        assert process
        if kind is ProcessFault.PAUSE:
            process.send(signal.SIGSTOP)
            return partial(process.send, signal.SIGCONT)
        if kind is ProcessFault.KILL:
            member.kill()
            return member.start
        assert isinstance(kind, Clock)
        self._set_clock(member, rate=faults.RATES.get(kind, 1.0), offset_seconds=faults.OFFSETS_SECONDS.get(kind, 0.0))
        return partial(self._set_clock, member)

    def _set_clock(self, member: Member, rate: float = 1.0, offset_seconds: float = 0.0) -> None:
        directory = self._company.setting.directory
        path = directory / f"clock-{self._company.name}-{member.name}.json"
        write_private(path, json.dumps({"rate": rate, "offset_seconds": offset_seconds}))

    def _revive(self) -> None:
        """A process that ended by itself is a finding: it is recorded, and started again."""
        killed = {f"{f.target}-{f.number}" for _, f, _ in self._under_way if f.fault is ProcessFault.KILL}
        for name, member in self._company.members.items():
            if name not in killed and member.process and member.process.exit_code is not None:
                code = member.process.exit_code
                self._record.write("ended", member=name, exit_code=code, log=member.process.last_lines()[-1500:])
                member.start()
