"""Whatever is written at random, what may never happen does not: judged after every write that was admitted.

A failure names the seed; WORKLEASE_RANDOM_SEED plays the same choices again.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest

from support.cluster import Cluster
from support.definitions import installed
from support.random_judge import Broken, Judge, minimised, played
from support.random_speaker import RandomSpeaker
from support.statements import ADMIN, BOB, HOLDERS_WORDS, Scene, staged, unguarded
from worklease.api.crd import worklease_crd

SEED = int(os.environ.get("WORKLEASE_RANDOM_SEED", time.time_ns() % 2**32))
WRITES, WORKS = 3000, 8
WITHIN_SECONDS = 40.0
"""On a machine that is busy, fewer writes are made."""
LIVES_MAX, TURNS_OF_A_LIFE = 20, 60
FEW_TURNS = 6
MINIMISED_WITHIN_SECONDS = 20.0


def test_nothing_that_may_never_happen_is_admitted(cluster: Cluster) -> None:
    """Random writes by agents, an administrator and a pretended operator break no promise that the API alone keeps."""
    choice = random.Random(SEED)
    admitted: Counter[str] = Counter()
    refused: Counter[int] = Counter()
    with staged(cluster) as scene:
        judges = [Judge(scene.work()) for _ in range(WORKS)]
        seen = [judge.work.create(ADMIN, {}).must() for judge in judges]
        turns: list[list[str]] = [[] for _ in judges]
        deadline_monotonic = time.monotonic() + WITHIN_SECONDS
        for number in range(WRITES):
            if time.monotonic() > deadline_monotonic:
                break
            index = choice.randrange(WORKS)
            judge, before = judges[index], seen[index]
            turn = f"{SEED}/{number}"
            turns[index].append(turn)
            who, kind, answer = RandomSpeaker(random.Random(turn), judge.work).write(before)
            where = f"seed {SEED}, write {number}: {who} {kind}"
            if not answer.ok:
                refused[answer.status] += 1
                assert answer.status in (403, 409, 422), f"{where}: {answer.status} {answer.message}"
                if who == BOB:
                    assert not [word for word in HOLDERS_WORDS[1:] if word in answer.message], (
                        f"{where}: {answer.message}"
                    )
                continue
            admitted[kind] += 1
            wrong = judge.admitted(who, before, answer.body)
            if answer.body["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
                wrong += judge.others_can_write(answer.body)
            if wrong:
                fewest = fewest_turns(scene, turns[index])
                pytest.fail(f"{where}: {wrong}\nfewest: {fewest}\nbefore: {before}\nafter: {answer.body}")
            seen[index] = answer.body
    print(f"seed {SEED}: {sum(admitted.values())} writes admitted {dict(admitted)}, refused {dict(refused)}")
    assert {"says", "merges", "puts", "applies", "decides"} <= set(admitted), "too few writes of a kind were admitted"


def fewest_turns(scene: Scene, turns: list[str]) -> Broken | None:
    """The fewest of these turns that still break a promise; None when played again they break none."""
    broken = played(scene, turns)
    return broken and minimised(broken, lambda fewer: played(scene, fewer), MINIMISED_WITHIN_SECONDS)


def test_turns_that_break_a_promise_are_minimised(cluster: Cluster, namespace: str) -> None:
    """Where no policy guards the work, somebody soon speaks for a holder, and of all that was written the few writes
    are left that this takes.
    """
    group = f"z-{namespace}.unguarded.worklease.dev"
    with installed(cluster, worklease_crd(group=group)):
        scene = unguarded(cluster, namespace, group)
        found = next(
            broken
            for number in range(LIVES_MAX)
            if (broken := played(scene, [f"{number}/{turn}" for turn in range(TURNS_OF_A_LIFE)]))
        )
        fewest = minimised(found, lambda fewer: played(scene, fewer), MINIMISED_WITHIN_SECONDS)
    print(f"{len(found.turns)} turns, of which {len(fewest.turns)} are needed: {fewest}")
    assert len(fewest.turns) <= FEW_TURNS
