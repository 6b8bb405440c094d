"""worklease tree NAME: the tenures of a work item, with the effects of each and the handoffs around it."""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from worklease.api.handoff import Handoff
from worklease.api.statements import Effect
from worklease.api.worklease import Tenure, WorkLease
from worklease.cli.connection import connected
from worklease.cli.exits import Exit
from worklease.cli.printing import coloured, dump, plain, second
from worklease.cli.say import look
from worklease.client.handoffs import PLURAL
from worklease.client.reading import parsed
from worklease.errors import Refused
from worklease.kube.swap import read_list


@dataclass
class Branch:
    """One epoch: its tenure as far as the history has it, its effects, the offers of it, what it was granted by."""

    epoch: int
    tenure: Tenure | None = None
    granted_by: Handoff | None = None
    effects: list[Effect] = field(default_factory=list)
    offers: list[Handoff] = field(default_factory=list)

    def manifest(self) -> dict[str, Any]:
        """For programs."""
        return {
            **(self.tenure.manifest() if self.tenure else {"epoch": self.epoch}),
            "grantedBy": self.granted_by.metadata.name if self.granted_by else None,
            "effectsLogged": [effect.manifest() for effect in self.effects],
            "offers": [_offer_manifest(offer) for offer in self.offers],
        }


async def tree(options: argparse.Namespace) -> int:
    """Prints it, the oldest tenure first."""
    async with connected(options) as client:
        work = await look(client, options)
        try:
            selector = f"spec.workLeaseName={options.name}"
            raws, _ = await read_list(client.session, options.namespace, plural=PLURAL, field_selector=selector)
            unseen = None
        except Refused as error:
            raws, unseen = [], str(error)
    branches = grown(work, [parsed(Handoff, raw) for raw in raws])
    if options.output in ("json", "yaml"):
        dump(
            {
                "lease": work.key,
                "work": work.spec.work.manifest(),
                "phase": str(work.status.phase),
                "tenures": [branch.manifest() for branch in branches],
            },
            options.output,
        )
        return Exit.DONE
    print("\n".join(plain(line) for line in drawn(work, branches)))
    if unseen is not None:
        print(f"(handoffs are not shown: {unseen})")
    return Exit.DONE


def grown(work: WorkLease, handoffs: Iterable[Handoff]) -> list[Branch]:
    """The branches, by epoch."""
    branches = {tenure.epoch: Branch(tenure.epoch, tenure) for tenure in work.status.history}

    def branch(epoch: int) -> Branch:
        return branches.setdefault(epoch, Branch(epoch))

    for effect in work.spec.effects:
        branch(effect.epoch).effects.append(effect)
    for handoff in sorted(handoffs, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name)):
        if (epoch := handoff.status.epoch or handoff.spec.epoch) is not None:
            branch(epoch).offers.append(handoff)
        for one in branches.values():
            if one.tenure is not None and one.tenure.handoff_uid == handoff.metadata.uid:
                one.granted_by = handoff
    return [branches[epoch] for epoch in sorted(branches)]


def drawn(work: WorkLease, branches: list[Branch]) -> list[str]:
    """The lines of the tree."""
    spec, state = work.spec, work.status
    lines = [f"{work.key}: {spec.work.type} {spec.work.id}, {coloured(state.phase)}"]
    if spec.suspend:
        lines[0] += ", suspended"
    if (unkept := (state.lease_transitions or 0) - len(state.history)) > 0:
        lines.append(f"├─ ({unkept} earlier tenures are not kept)")
    for at, branch in enumerate(branches):
        last = at == len(branches) - 1
        lines.append(f"{'└─' if last else '├─'} {_title(branch)}")
        leaves = _leaves(branch)
        for number, leaf in enumerate(leaves):
            lines.append(f"{'   ' if last else '│  '}{'└─' if number == len(leaves) - 1 else '├─'} {leaf}")
    return lines if branches else [*lines, "└─ nobody has held it"]


def _title(branch: Branch) -> str:
    tenure = branch.tenure
    if tenure is None:
        return f"epoch {branch.epoch} (its tenure is not kept any more)"
    ended = f"{second(tenure.end_time)}, {tenure.end_reason}" if tenure.end_reason else "now"
    if tenure.end_message:
        ended += f": {tenure.end_message}"
    holder = f"{tenure.holder_identity} ({tenure.instance})"
    return f"epoch {tenure.epoch}: {holder}, {second(tenure.acquire_time)} to {ended}"


def _leaves(branch: Branch) -> list[str]:
    leaves = []
    if tenure := branch.tenure:
        if tenure.purpose:
            leaves.append(f"purpose: {tenure.purpose}")
        why = f": {tenure.grant_message}" if tenure.grant_message else ""
        leaves.append(f"granted: {tenure.grant_reason}{why}")
    if (handoff := branch.granted_by) is not None:
        sender = handoff.spec.from_ or "an administrator"
        subject = f": {handoff.spec.subject}" if handoff.spec.subject else ""
        leaves.append(f"handoff {handoff.metadata.name} from {sender}{subject}")
    for effect in branch.effects:
        detail = f": {effect.detail}" if effect.detail else ""
        leaves.append(f"effect {effect.id}: {effect.recipient} {effect.action} {coloured(effect.state)}{detail}")
    if dropped := _dropped(branch):
        leaves.append(f"effects that are not kept: {dropped}")
    if branch.tenure and branch.tenure.checkpoint_digest:
        leaves.append(f"checkpoint {branch.tenure.checkpoint_digest}")
    for offer in branch.offers:
        answer = offer.spec.response
        reason = f": {answer.reason}" if answer is not None and answer.reason else ""
        to = offer.spec.to.holder_identity
        leaves.append(f"offered to {to} by handoff {offer.metadata.name}: {coloured(offer.status.phase)}{reason}")
    return leaves


def _dropped(branch: Branch) -> str:
    """Effects that the history counts and spec has no longer, by state."""
    if branch.tenure is None or branch.tenure.effects is None or branch.effects:
        return ""
    counts = branch.tenure.effects.model_dump()
    return ", ".join(f"{count} {state.capitalize()}" for state, count in counts.items() if count)


def _offer_manifest(offer: Handoff) -> dict[str, Any]:
    return {
        "name": offer.metadata.name,
        "to": offer.spec.to.holder_identity,
        "phase": str(offer.status.phase),
        "response": offer.spec.response.manifest() if offer.spec.response else None,
    }
