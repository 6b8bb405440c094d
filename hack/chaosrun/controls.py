"""Negative controls: each breaks one thing that a promise rests on, in a child process only, and must be caught.

Nothing of this is in the product: a control is a patch that the process of a party applies to itself, or a rule that
is left out of the CRD of the run's own control plane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from worklease.controller import reconciler
from worklease.errors import Conflict
from worklease.kube import swap
from worklease.protocol import decide
from worklease.protocol.moments import parse_rfc3339

from .beliefs import RecordedBelief
from .checker.model import Promise


@dataclass(frozen=True)
class Control:
    """What is broken, and the promise whose violation the checker must report."""

    what: str
    promise: Promise
    without_checks: tuple[str, ...] = ()
    """Rules that are left out of the CRD."""


CONTROLS = {
    "fence": Control("a recipient that moves no mark", Promise.FENCE),
    "swap": Control("an operator that writes its decision also over what it has not read", Promise.ONE_DECISION),
    "epochs": Control("a takeover that keeps the epoch", Promise.ONE_EPOCH, ("status.grant",)),
    "clock": Control("an operator that times a lease by the holder's renewTime", Promise.TIMING),
    "rule": Control("no rule that a new effect needs standing", Promise.NO_EFFECT, ("effects.standing",)),
    "sending": Control("a holder that counts from the answer instead of the sending", Promise.BELIEF),
}


def break_agent(control: str) -> None:
    """Breaks the client of this process, if the control is about that."""
    if control == "sending":
        confirm = RecordedBelief.confirm
        RecordedBelief.confirm = lambda self, sent_at, now: confirm(self, now, now)  # type: ignore[method-assign]


def break_operator(control: str) -> None:
    """Breaks the operator of this process, if the control is about that."""
    if control in _OPERATORS:
        _OPERATORS[control]()


def _ignore_conflicts() -> None:
    asked = swap.swap

    async def forced(session: Any, stored: Any, status: Any) -> dict[str, Any]:
        try:
            return await asked(session, stored, status)
        except Conflict:
            metadata = stored.metadata
            newest = await swap.read(session, metadata.namespace, metadata.name)
            version = newest["metadata"]["resourceVersion"]
            again = stored.model_copy(update={"metadata": metadata.model_copy(update={"resource_version": version})})
            return await asked(session, again, status)

    swap.swap = forced


def _keep_the_epoch() -> None:
    bumped = decide.next_epoch

    def kept(lease: Any, status: Any, floor: int) -> Any:
        return (status.epoch, None) if status.epoch else bumped(lease, status, floor)

    decide.next_epoch = kept


def _believe_renew_time() -> None:
    seen = reconciler.__dict__["observe"]

    def observe(previous: Any, lease: Any, now: Any, heard: Any) -> Any:
        observation = seen(previous, lease, now, heard)
        written = parse_rfc3339(observation.renew_time) if observation is not None else None
        if observation is None or written is None:
            return observation
        at, status = now.clock_at(written), lease.status
        lapses_at = at + status.lease_duration_seconds
        return replace(observation, lapses_at=lapses_at, expires_at=lapses_at + status.jeopardy_duration_seconds)

    reconciler.__dict__["observe"] = observe


_OPERATORS: dict[str, Callable[[], None]] = {
    "swap": _ignore_conflicts,
    "epochs": _keep_the_epoch,
    "clock": _believe_renew_time,
}
