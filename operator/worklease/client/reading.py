"""What the API server answers, as the object that it should be, or an error that says which one cannot be read."""

from typing import Any, TypeVar

from pydantic import ValidationError

from worklease.api.fields import Part
from worklease.errors import Unreadable

SAID_MAX = 200
Kind = TypeVar("Kind", bound=Part)


def parsed(kind: type[Kind], raw: dict[str, Any]) -> Kind:
    """The object. Raises Unreadable."""
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise Unreadable(_why(kind.__name__, raw, error)) from error


def _why(kind: str, raw: dict[str, Any], error: ValidationError) -> str:
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict) or "name" not in metadata:
        said = " ".join(str(raw.get("message") or raw).split())[:SAID_MAX]
        return f"the answer is no {kind}, so something other than the API server may have answered: {said}"
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return (
        f"{metadata.get('namespace', '')}/{metadata['name']} cannot be read: {where}: {first['msg']}; it is written "
        "under another schema than this version of worklease knows"
    )
