"""Which of the shipped roles somebody is told to ask for."""

from __future__ import annotations

import pytest

from worklease.api.roles import GRANTS, HANDOFFS, WORK
from worklease.client.refusals import AGENT_ROLE, VIEWER_ROLE, smallest_role


@pytest.mark.parametrize(
    ("kind", "verb", "least", "role"),
    [
        (WORK, "get", VIEWER_ROLE, "worklease-viewer"),
        (WORK, "get", AGENT_ROLE, "worklease-agent"),
        (WORK, "patch", VIEWER_ROLE, "worklease-agent"),
        (WORK, "create", AGENT_ROLE, "worklease-agent-creator"),
        (HANDOFFS, "create", AGENT_ROLE, "worklease-agent"),
        (WORK, "configure", AGENT_ROLE, "worklease-gitops"),
        (WORK, "revoke", AGENT_ROLE, "worklease-handler"),
        (WORK, "delegate", AGENT_ROLE, "worklease-handler"),
        (HANDOFFS, "delegate", AGENT_ROLE, "worklease-admin"),
        (WORK, "bake", AGENT_ROLE, None),
        ("pods", "get", VIEWER_ROLE, None),
    ],
)
def test_the_smallest_role_with_a_verb_is_told(kind: str, verb: str, least: str, role: str | None) -> None:
    """Of the kind that was asked for: who may create handoffs need not create work."""
    assert smallest_role(kind, verb, least) == role


def test_it_is_a_role_that_has_the_verb_and_no_smaller_one_does() -> None:
    """For every verb that any role has."""
    for kind in (WORK, HANDOFFS):
        for verb in {verb for kinds in GRANTS.values() for verb in kinds[kind]}:
            role = smallest_role(kind, verb, VIEWER_ROLE)
            assert role is not None
            assert verb in GRANTS[role][kind]
            having = [kinds for kinds in GRANTS.values() if verb in kinds[kind]]
            assert all(sum(map(len, GRANTS[role].values())) <= sum(map(len, kinds.values())) for kinds in having)
