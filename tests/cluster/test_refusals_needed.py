"""Each named check is needed: without it, and with all others, a case that the tables refuse is admitted."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster import Cluster
from support.definitions import installed
from support.refusals import CHECKS, Row
from support.refusals.tables import TABLES
from support.statements import Scene, unguarded
from worklease.api.cel import Rule
from worklease.api.crd import worklease_crd
from worklease.api.worklease import RULES

EVERY_RULE = [pytest.param(rule, id=rule.checks[0].name) for rules in RULES.values() for rule in rules]


def mutants(rule: Rule, group: str) -> dict[str, Any]:
    """WorkLease in a group of its own, with a version for each check of a rule that lacks this check."""
    definition = worklease_crd(group=group)
    versions = definition["spec"]["versions"]
    for check in rule.checks:
        (mutant,) = worklease_crd(without={check.name}, group=group)["spec"]["versions"]
        versions.append({**mutant, "name": version_without(check.name), "storage": False})
    for version in versions:  # an API server refuses them when the schemas of several versions differ
        del version["selectableFields"]
    return definition


def version_without(check: str) -> str:
    """The name of the version that lacks a check."""
    return f"without-{check.replace('.', '-')}"


def refused_by(check: str) -> list[Row]:
    """The rows that say that this check refuses."""
    return [row for rows in TABLES.values() for row in rows if row.refused == check]


def test_tables_name_checks_that_exist() -> None:
    """A row is refused by a check of the CRD, by the schema or by a policy."""
    named = {row.refused for rows in TABLES.values() for row in rows if row.refused}
    assert {name for name in named if "." in name} <= set(CHECKS)


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_each_check_of_a_rule_is_needed(rule: Rule, cluster: Cluster, namespace: str) -> None:
    """A case that is refused by the rule as it stands is admitted when one of its checks is left out."""
    group = f"z-{namespace}.mutants.worklease.dev"  # behind the real one, which kubectl takes first
    with installed(cluster, mutants(rule, group)):
        for check in rule.checks:
            mutant = unguarded(cluster, namespace, group, version_without(check.name))
            needing = [row for row in refused_by(check.name) if row.play(mutant.work()).ok]
            assert needing, f"nothing that {check.name} refuses is admitted without it: it is dead, or a row is missing"
            assert not needing[0].play(whole(mutant).work()).ok


def whole(mutant: Scene) -> Scene:
    """The same group at the version that has every check."""
    return Scene(mutant.namespace, mutant.voices, mutant.group)
