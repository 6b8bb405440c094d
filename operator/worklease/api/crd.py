"""The CustomResourceDefinitions, made from the models and their rules."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from worklease.api import handoff, worklease
from worklease.api.cel import Rule, validations
from worklease.api.fields import structural
from worklease.api.group import GROUP, VERSION


def worklease_crd(without: Collection[str] = (), group: str = GROUP) -> dict[str, Any]:
    """The CRD of WorkLease, less the checks named in `without`.

    A test shows that a check is needed by leaving it out, in a `group` of its own beside the real one.
    """
    return _crd(
        group=group,
        model=worklease.WorkLease,
        short_name="wl",
        spec=structural(worklease.WorkLeaseSpec),
        status=_decided(structural(worklease.WorkLeaseStatus), {"phase": "Available", "epoch": 0}),
        rules=worklease.RULES,
        without=without,
        columns=worklease.COLUMNS,
        selectable=worklease.SELECTABLE,
    )


def handoff_crd(without: Collection[str] = (), group: str = GROUP) -> dict[str, Any]:
    """The CRD of Handoff, less the checks named in `without`, in this `group`."""
    return _crd(
        group=group,
        model=handoff.Handoff,
        short_name="ho",
        spec=structural(handoff.HandoffSpec),
        status=_decided(structural(handoff.HandoffStatus), {"phase": "Pending"}),
        rules={"": handoff.RULES},
        without=without,
        columns=handoff.COLUMNS,
        selectable=handoff.SELECTABLE,
    )


def _decided(status: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """A status: it has one default of its own, so that rules may read it, and no other."""
    _drop_defaults(status)
    return {**status, "required": sorted(default, reverse=True), "default": default}


def _drop_defaults(node: Any) -> None:
    if isinstance(node, dict):
        node.pop("default", None)
        for value in node.values():
            _drop_defaults(value)


def _at(schema: dict[str, Any], level: str) -> dict[str, Any]:
    """The schema of a level below: `spec.effects.items` are the items of the list spec.effects."""
    for name in filter(None, level.split(".")):
        schema = schema["items"] if name == "items" else schema["properties"][name]
    return schema


def _crd(
    *,
    group: str,
    model: type[BaseModel],
    short_name: str,
    spec: dict[str, Any],
    status: dict[str, Any],
    rules: Mapping[str, Iterable[Rule]],
    without: Collection[str],
    columns: list[dict[str, Any]],
    selectable: Iterable[str],
) -> dict[str, Any]:
    kind = model.__name__
    plural = f"{kind.lower()}s"
    schema: dict[str, Any] = {
        "description": " ".join((model.__doc__ or "").split()),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    for level, of_level in rules.items():
        if entries := validations(of_level, without):
            _at(schema, level)["x-kubernetes-validations"] = entries
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short_name],
                "categories": ["worklease-all"],  # not "worklease": kubectl would take the kind's name for the category
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "selectableFields": [{"jsonPath": path} for path in selectable],
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def manifests() -> list[dict[str, Any]]:
    """Both CRDs."""
    return [worklease_crd(), handoff_crd()]
