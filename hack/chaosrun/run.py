"""One run: everybody at work under a schedule of faults, then everything healed and settled, then the history."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from progress import Progress

from .faults import AGENT, OPERATOR, Planned, schedule
from .history import Record, Recorder, merge
from .nemesis import Nemesis
from .setting import AGENTS, SETTLER, Setting
from .settling import settle

OPERATORS = 2
ITEMS = 6
AFTER_SECONDS = 3.0


@dataclass(frozen=True)
class Plan:
    """What a run is made of; the same plan is the same schedule, though not the same interleaving."""

    seed: int
    seconds: float
    agents: int = AGENTS
    items: int = ITEMS
    with_faults: bool = True

    def faults(self) -> list[Planned]:
        if not self.with_faults:
            return []
        return schedule(self.seed, self.seconds, {AGENT: self.agents, OPERATOR: OPERATORS})


def run(plan: Plan, directory: Path) -> list[Record]:
    """Runs it; the history is also left in the directory."""
    with Setting(directory, plan.agents) as setting:
        company = setting.company("main", plan.items)
        company.operators(OPERATORS)
        company.recipients()
        for number in range(plan.agents):
            # Half of them write renewTime by their own wall clock, as a shell script would.
            company.agent(number, plan.seed * 100 + number, wall_renew_times=number % 2 == 1)
        company.administrator(plan.seed)
        setting.recorder.write("run", seed=plan.seed, seconds=plan.seconds, agents=plan.agents, items=plan.items)
        with Progress("running", f"{plan.seconds:.0f} s"):
            Nemesis(company).carry_out(plan.faults(), plan.seconds + AFTER_SECONDS)
        with Progress("settling", "5 s"):
            for name, member in company.members.items():
                if not name.startswith("operator"):
                    member.kill()
            company.wait_for_operators()
            recorder = Recorder(directory, f"{SETTLER}#main.1")
            unsettled = asyncio.run(settle(company.orders(recorder.party, SETTLER), recorder))
            recorder.write("settled", unsettled=unsettled)
        setting.store.finish()
    for credentials in directory.glob("kubeconfig-*"):
        credentials.unlink()
    return merge(directory)
