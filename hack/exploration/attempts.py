"""What is tried in a state, and the state that follows when the API server admits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from celcheck import Speaker
from exploration import promises
from exploration.objects import Object, Raw, canonical, judged, raw_of
from exploration.speaking import ADMIN, Scope, answers, fresh_names, new_lease, offers, said, sayings
from exploration.state import Memory, State


@dataclass(frozen=True)
class Attempt:
    """A write that the API server would judge, and the state that follows when it is admitted."""

    words: str
    speaker: Speaker
    old: Object | None
    new: Object
    subresource: str
    after: Callable[[State], State]
    wrong: Callable[[], Iterator[str]]
    must: bool = False
    """Whoever writes it must be able to."""


def statements(scope: Scope, state: State) -> Iterator[Attempt]:
    """All that is said about the lease."""
    before = raw_of(state.lease)
    for saying in sayings(scope, state):
        raw = said(state.lease, saying)
        if raw["spec"] == before["spec"]:
            continue
        yield Attempt(
            f"{saying.speaker.name} {saying.words}",
            saying.speaker,
            state.lease,
            lease := written(raw, state),
            "",
            _saying(lease, renewed=_renews(before, raw)),
            partial(promises.of_statement, before, raw, saying.speaker),
            must=saying.speaker is ADMIN and _must_be_able(saying.words, before),
        )


def recreations(scope: Scope, state: State) -> Iterator[Attempt]:
    """The work item is deleted, and created again."""
    if state.memory.losses >= scope.losses_max:
        return
    before = raw_of(state.lease)
    uid = "u2" if before["metadata"]["uid"] == "u1" else "u1"
    memory = replace(state.memory, losses=state.memory.losses + 1, taken_by="")
    for words, spec in (("anew", None), ("from a backup", before["spec"])):
        raw = new_lease(scope, spec, uid)
        raw["status"] = {"phase": "Available", "epoch": 0}
        lease = written(raw, state)
        yield Attempt(
            f"the work is deleted and created {words}",
            ADMIN,
            None,
            lease,
            "",
            lambda state, lease=lease: replace(state, lease=lease, memory=memory),  # type: ignore[misc]
            lambda: iter(()),
        )


def of_handoffs(scope: Scope, state: State) -> Iterator[Attempt]:
    """All that agents and an administrator write about handoffs."""
    for speaker, place, raw in offers(scope, state):
        yield _write_of_handoff(state, place, raw, None, f"{speaker.name} offers the work to {_target(raw)}", speaker)
    for speaker, place, raw, decision in answers(scope, state):
        old = state.handoffs[place]
        yield _write_of_handoff(state, place, raw, old, f"{speaker.name} answers handoff {place}: {decision}", speaker)


def speech_key(state: State) -> tuple[object, ...]:
    """What the statements that are tried depend on."""
    return state.lease, *fresh_names(state), state.next_revision(), state.memory.grants > 0


def _saying(lease: Object, *, renewed: bool) -> Callable[[State], State]:
    def after(state: State) -> State:
        memory = replace(state.memory, heard_seconds_ago=0) if renewed else state.memory
        return replace(state, lease=lease, memory=memory)

    return after


def _renews(before: Raw, after: Raw) -> bool:
    """The tenure is renewed: what is said of another one, or taken out, is no sign of life."""
    changed = after["spec"].get("renewal") != before["spec"].get("renewal")
    return changed and promises.about(after["spec"], "renewal", before["status"]["epoch"])


def verdict_key(attempt: Attempt) -> tuple[object, ...]:
    """Equal for writes that cannot be judged differently."""
    old, new = attempt.old, attempt.new
    text, of_old, of_new = judged(old.text if old else "", new.text, attempt.subresource)
    revisions = (*(old.revisions[place] for place in of_old if old), *(new.revisions[place] for place in of_new))
    ranks = {one: rank for rank, one in enumerate(sorted({*revisions, 0}))}
    return attempt.speaker.name, attempt.subresource, text, tuple(ranks[one] for one in revisions)


def written(raw: Raw, state: State) -> Object:
    metadata = {**raw["metadata"], "resourceVersion": str(state.next_revision())}
    return canonical({**raw, "metadata": metadata})


def grants(before: Raw, after: Raw) -> bool:
    return "claimID" in after and after["claimID"] != before.get("claimID")


def remembered(memory: Memory, before: Raw, after: Raw, *, granted: bool) -> Memory:
    if granted:
        return replace(memory, top_epoch=after["epoch"], heard_seconds_ago=0, taken_by="", grants=memory.grants + 1)
    if after.get("successor") not in (None, before.get("successor")):
        return replace(memory, taken_by=after["successor"]["handoffUID"])
    return memory


def _must_be_able(words: str, before: Raw) -> bool:
    """An administrator can always end a tenure, and take over."""
    status, spec = before["status"], before["spec"]
    open_ = status["phase"] in ("Held", "Jeopardy") and not promises.about(spec, "revocation", status["epoch"])
    return open_ and (words == "revokes" or words.startswith("takes over"))


def _write_of_handoff(state: State, place: int, raw: Raw, old: Object | None, words: str, speaker: Speaker) -> Attempt:
    handoff = written({"status": {"phase": "Pending"}, **raw}, state)
    return Attempt(
        words,
        speaker,
        old,
        handoff,
        "",
        lambda state: replace(state, handoffs=(*state.handoffs[:place], handoff, *state.handoffs[place + 1 :])),
        lambda: _of_answer(raw, speaker) if old else iter(()),
    )


def _of_answer(raw: Raw, speaker: Speaker) -> Iterator[str]:
    decision, spec = raw["spec"]["response"]["decision"], raw["spec"]
    if decision != "Withdrawn" and spec["to"]["holderIdentity"] != speaker.name:
        yield f"{speaker.name} answered for the target"
    if decision == "Withdrawn" and spec.get("from") != speaker.name and speaker is not ADMIN:
        yield f"{speaker.name} withdrew another's handoff"


def _target(raw: Raw) -> str:
    return str(raw["spec"]["to"]["holderIdentity"])
