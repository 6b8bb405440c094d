"""Plays the directed scenes: with nothing broken, when nothing may be found, and each with its control, which must be.

All scenes of one kind are played side by side on one control plane. Rules that a control goes without are taken out of
the CRD before the broken ones are played, and the honest ones have ended by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from progress import Progress
from worklease.api.crd import worklease_crd

from .checker import check
from .checker.model import Violation
from .controls import CONTROLS
from .history import merge
from .scenes import SCENES, Scene
from .setting import Company, Setting

AGENTS = 2
HONEST, BROKEN = "honest", "broken"


@dataclass(frozen=True)
class Verdict:
    """What was found in a scene, played honestly and broken."""

    control: str
    honest: tuple[Violation, ...]
    broken: tuple[Violation, ...]

    @property
    def caught(self) -> bool:
        """The control broke the promise that it is about."""
        return any(violation.promise is CONTROLS[self.control].promise for violation in self.broken)


def play(directory: Path, names: Iterable[str]) -> list[Verdict]:
    """The verdict on each of the controls; the history of all of them is left in the directory."""
    chosen = list(names)
    with Setting(directory, AGENTS) as setting:
        honest = _play(setting, HONEST, chosen)
        without = sorted({check for name in chosen for check in CONTROLS[name].without_checks})
        if without:
            setting.apply(worklease_crd(without))
        broken = _play(setting, BROKEN, chosen)
        setting.store.finish()
    violations = check(merge(directory))
    return [
        Verdict(name, _of(honest[name].namespace, violations), _of(broken[name].namespace, violations))
        for name in chosen
    ]


def _of(namespace: str, violations: list[Violation]) -> tuple[Violation, ...]:
    return tuple(one for one in violations if one.object.startswith(f"{namespace}/"))


def _play(setting: Setting, kind: str, names: list[str]) -> dict[str, Company]:
    companies = {name: setting.company(f"{kind}-{name}", 1, name if kind == BROKEN else "") for name in names}
    for name, company in companies.items():
        company.operators(1, wait=False)
        if name == "fence":
            company.recipients()
        if name == "sending":
            company.agent(0, 0, keep=True)
    for company in companies.values():
        company.wait_for_operators()
    with Progress(f"playing {len(names)} scenes, {kind}", "25 s"):
        asyncio.run(_all(companies))
    return companies


async def _all(companies: dict[str, Company]) -> None:
    async with asyncio.TaskGroup() as group:
        for name, company in companies.items():
            group.create_task(_one(name, company))


async def _one(name: str, company: Company) -> None:
    try:
        async with Scene(company) as scene:
            await SCENES[name](scene)
    finally:
        company.stop()
