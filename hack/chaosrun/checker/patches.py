"""JSON patches (RFC 6902) as far as anybody in a run uses them: add, replace, remove, test."""

from __future__ import annotations

import copy
from typing import Any


class PatchError(Exception):
    """The patch does not apply to this object: one of its tests fails, or a place is missing."""


def patched(state: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    """The object after the patch. Raises PatchError."""
    changed = copy.deepcopy(state)
    for operation in patch:
        *parents, last = operation["path"].removeprefix("/").split("/")
        where: Any = changed
        try:
            for name in parents:
                where = where[int(name)] if isinstance(where, list) else where[name]
            _apply(where, last, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise PatchError(operation["path"]) from error
    return changed


def _apply(where: Any, last: str, operation: dict[str, Any]) -> None:
    op, value = operation["op"], copy.deepcopy(operation.get("value"))
    if isinstance(where, list):
        index = len(where) if last == "-" else int(last)
        if op == "add":
            where.insert(index, value)
        elif op == "remove":
            del where[index]
        elif op == "test":
            _test(where[index], value)
        else:
            where[index] = value
    elif op == "remove":
        del where[last]
    elif op == "test":
        _test(where.get(last), value)
    else:
        where[last] = value


def _test(stored: Any, expected: Any) -> None:
    if stored != expected:
        raise PatchError("test")


def makes(before: dict[str, Any], patch: Any, after: dict[str, Any]) -> bool:
    """The patch, applied to the one spec, gives the other."""
    if not isinstance(patch, list):
        return False
    try:
        return bool(patched({"spec": before}, patch)["spec"] == after)
    except PatchError:
        return False
