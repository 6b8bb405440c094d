"""Nothing in either schema is unbounded, unexplained or set by itself: every level of the generated CRDs is walked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from worklease.api import crd
from worklease.api.fields import EFFECTS_MAX, GRANTED_EPOCH_MAX, HISTORY_MAX, STATED_EPOCH_MAX

Level = tuple[str, dict[str, Any]]
KUBERNETES_OWN = ("apiVersion", "kind", "metadata")
WORDS_MIN = 4
STRING_MAX = 4096
LIST_MAX = 64


def schema(definition: dict[str, Any]) -> dict[str, Any]:
    """The schema of the CRD's one version."""
    (version,) = definition["spec"]["versions"]
    whole: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return whole


def levels(node: dict[str, Any], path: str = "") -> Iterator[Level]:
    """Every level below this one that is ours, with its path."""
    for name, below in node.get("properties", {}).items():
        if not path and name in KUBERNETES_OWN:
            continue
        yield f"{path}.{name}", below
        yield from levels(below, f"{path}.{name}")
    if "items" in node:
        yield f"{path}[]", node["items"]
        yield from levels(node["items"], f"{path}[]")


LEVELS = [
    pytest.param(path, level, id=f"{definition['spec']['names']['kind']}{path}")
    for definition in crd.manifests()
    for path, level in levels(schema(definition))
]
EPOCHS = {
    ".spec.claim.epoch": (0, STATED_EPOCH_MAX),
    ".spec.renewal.epoch": (1, STATED_EPOCH_MAX),
    ".spec.effects[].epoch": (1, STATED_EPOCH_MAX),
    ".status.epoch": (0, GRANTED_EPOCH_MAX),
    ".status.history[].epoch": (0, GRANTED_EPOCH_MAX),
}


@pytest.mark.parametrize(("path", "level"), LEVELS)
def test_level_is_bounded_and_explained(path: str, level: dict[str, Any]) -> None:
    """A string has a length and a pattern or a list of values, a list a size, a number a format and a least value."""
    assert level.get("type") in ("object", "array", "string", "integer", "boolean")
    assert len(level.get("description", "").split()) >= WORDS_MIN
    if level["type"] == "string":
        assert "enum" in level or (level["maxLength"] <= STRING_MAX and "pattern" in level)
    if level["type"] == "array":
        assert level["maxItems"] <= LIST_MAX
        assert "x-kubernetes-list-type" in level
    if level["type"] == "integer":
        assert level["format"] in ("int32", "int64")
        assert "minimum" in level
    if level["type"] == "object":
        assert level["properties"]
    assert not level.get("nullable")
    assert "additionalProperties" not in level
    assert "x-kubernetes-preserve-unknown-fields" not in level


@pytest.mark.parametrize(("path", "level"), LEVELS)
def test_pattern_matches_the_whole_string(path: str, level: dict[str, Any]) -> None:
    """No pattern lets something pass because a part of it would; none admits a control character but line breaks."""
    if "pattern" in level:
        assert level["pattern"].startswith("^")
        assert level["pattern"].endswith("$")
        assert not re.search(level["pattern"], "a\x00b")
        assert not re.search(level["pattern"], "a\x1bb")


@pytest.mark.parametrize("definition", crd.manifests(), ids=["WorkLease", "Handoff"])
def test_status_sets_nothing_but_where_it_begins(definition: dict[str, Any]) -> None:
    """status has one default, of its own, which every rule may rely on; nothing inside it sets itself."""
    status = schema(definition)["properties"]["status"]
    assert status["default"]["phase"] in ("Available", "Pending")
    assert sorted(status["default"]) == sorted(status["required"])
    assert not [path for path, level in levels(status) if "default" in level]


@pytest.mark.parametrize(("path", "bounds"), EPOCHS.items())
def test_epoch_always_leaves_room_above_what_may_be_said(path: str, bounds: tuple[int, int]) -> None:
    """The operator can grant an epoch above any that a statement may name, and every reader of JSON keeps it exact."""
    found = dict(levels(schema(crd.worklease_crd())))[path]
    assert (found["minimum"], found["maximum"]) == bounds
    assert STATED_EPOCH_MAX < GRANTED_EPOCH_MAX < 2**53


def test_statements_are_said_whole() -> None:
    """A statement is atomic and none of its fields is optional: it has one owner, and inherits nothing."""
    spec = schema(crd.worklease_crd())["properties"]["spec"]["properties"]
    for name in ("claim", "renewal", "checkpoint", "release", "revocation", "completion"):
        assert spec[name]["x-kubernetes-map-type"] == "atomic"
        assert sorted(spec[name]["required"]) == sorted(spec[name]["properties"])
        assert not any("default" in level for level in spec[name]["properties"].values())


def test_lists_hold_what_the_documentation_promises() -> None:
    """The effects are a map by id; the history is one value."""
    found = dict(levels(schema(crd.worklease_crd())))
    effects, history = found[".spec.effects"], found[".status.history"]
    assert (effects["maxItems"], effects["x-kubernetes-list-map-keys"]) == (EFFECTS_MAX, ["id"])
    assert (history["maxItems"], history["x-kubernetes-list-type"]) == (HISTORY_MAX, "atomic")


def test_left_out_checks_are_gone_and_the_rest_is_the_same() -> None:
    """A CRD less a check differs from the real one in that check's rule alone."""
    real, mutant = (schema(made) for made in (crd.worklease_crd(), crd.worklease_crd(without={"claim.pending"})))
    rules = [level.pop("x-kubernetes-validations") for level in (real, mutant)]
    assert real == mutant
    changed = [one for one, other in zip(*rules, strict=True) if one != other]
    assert [rule["fieldPath"] for rule in changed] == [".spec.claim"]


def test_group_is_the_only_difference_between_groups() -> None:
    """Another group names the same kind with the same schema."""
    real, other = crd.worklease_crd(), crd.worklease_crd(group="other.example.org")
    assert other["metadata"]["name"] == "workleases.other.example.org"
    assert other["spec"].pop("group") == "other.example.org"
    real["spec"].pop("group")
    assert real["spec"] == other["spec"]
