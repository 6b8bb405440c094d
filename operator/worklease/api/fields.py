"""Bounded field types of both kinds, and how a pydantic model becomes a structural schema.

Every string has a length, every list a size: the API server's CEL budget, etcd's request limit and the operator's
memory all rest on that.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

STATED_EPOCH_MAX = 2**52
"""The largest epoch that a statement may name, and so the largest that is granted."""
CREATED_EPOCH_MAX = 2**51
"""The largest epoch that a new object may mention, so that a restored one leaves as much room again."""
GRANTED_EPOCH_MAX = 2**53 - 1
"""What the schema of status admits: the largest integer that every JSON reader keeps exact."""
HISTORY_MAX = 16
"""How many tenures status.history keeps."""
EFFECTS_MAX = 64
"""How many effects spec.effects holds: a tenure that needs more claims again, under a new epoch."""

PRINTABLE = r"^[!-~]+$"
PRINTABLE_BUT_COMMA = r"^[!-+\--~]+$"
NO_CONTROLS = r"^[^\x00-\x1f\x7f]+$"
NO_CONTROLS_OR_EMPTY = r"^[^\x00-\x1f\x7f]*$"
# The format date-time alone admits strings that CEL cannot convert; one of those would lock out every later write.
TIMESTAMP = (
    r"^2[0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?Z$"
)


class Part(BaseModel):
    """A map in one of our objects. Unknown fields are ignored: a newer API server may store more than we read."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    def manifest(self) -> dict[str, Any]:
        """The map as the API server has it: camelCase, absent where it was never set or is None."""
        return self.model_dump(by_alias=True, exclude_none=True)


def text(maximum: int, *, minimum: int = 0, pattern: str | None = None, **schema: Any) -> Any:
    """A constraint for a string of at most `maximum` characters."""
    return Field(max_length=maximum, min_length=minimum or None, pattern=pattern, json_schema_extra=schema or None)


Identifier = Annotated[str, text(64, minimum=1, pattern=PRINTABLE_BUT_COMMA)]
"""An id that a speaker makes up: 1 to 64 printable ASCII characters, without space, and without the comma that joins
the values of an HTTP header which was sent twice."""
Username = Annotated[str, text(512, minimum=1, pattern=NO_CONTROLS)]
"""A username as the API server authenticated it."""
Instance = Annotated[str, text(320, minimum=1, pattern=PRINTABLE)]
"""Which process of an identity: `pod:NAME/UID` for a pod's own token, anything else (not `pod:`) otherwise."""
Words = Annotated[str, text(1024, pattern=NO_CONTROLS_OR_EMPTY)]
"""A sentence that somebody wrote; may be empty."""
Reason = Annotated[str, text(1024, minimum=1, pattern=NO_CONTROLS)]
"""A sentence that somebody must write."""
Uri = Annotated[str, text(2048, minimum=1, pattern=PRINTABLE)]
Digest = Annotated[str, text(128, minimum=1, pattern=PRINTABLE)]
ObjectName = Annotated[str, text(253, minimum=1, pattern=PRINTABLE)]
Timestamp = Annotated[str, text(30, pattern=TIMESTAMP, format="date-time")]
"""RFC 3339 in UTC, with up to nine decimals."""
StatedEpoch = Annotated[int, Field(ge=1, le=STATED_EPOCH_MAX, json_schema_extra={"format": "int64"})]
SeenEpoch = Annotated[int, Field(ge=0, le=STATED_EPOCH_MAX, json_schema_extra={"format": "int64"})]
GrantedEpoch = Annotated[int, Field(ge=0, le=GRANTED_EPOCH_MAX, json_schema_extra={"format": "int64"})]
Count = Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
ConditionType = Annotated[str, text(64, minimum=1, pattern=r"^[A-Za-z]+$")]
ReasonWord = Annotated[str, text(64, minimum=1, pattern=r"^[A-Za-z]+$")]


class Condition(Part):
    """One aspect of the object's state, in the form that `kubectl wait --for=condition=...` reads.

    It has no observedGeneration: renewals bump the generation, and a wait would never return.
    """

    type: Annotated[ConditionType, Field(description="Which aspect of the state.")]
    status: Annotated[
        str,
        Field(
            max_length=7,
            description="Whether it is so: True, False or Unknown.",
            json_schema_extra={"enum": ["True", "False", "Unknown"]},
        ),
    ]
    last_transition_time: Annotated[Timestamp, Field(description="When status last changed.")]
    reason: Annotated[ReasonWord, Field(description="Why, as one word.")]
    message: Annotated[Words, Field(description="Why, as a sentence.")]


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The structural schema of a model: references resolved, no nullable unions, no titles, defaults kept."""
    whole = model.model_json_schema(by_alias=True, mode="validation")
    definitions = whole.pop("$defs", {})
    schema: dict[str, Any] = _resolve(whole, definitions)
    return schema


def _resolve(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_resolve(one, definitions) for one in node]
    if not isinstance(node, dict):
        return node
    node = dict(node)
    if "$ref" in node:
        target = definitions[node.pop("$ref").rsplit("/", 1)[-1]]
        return _resolve({**target, **node}, definitions)
    if "anyOf" in node:  # Optional[X]: an absent field, never a null one
        (one,) = [branch for branch in node.pop("anyOf") if branch != {"type": "null"}]
        node = {**one, **node}
        return _resolve(node, definitions)
    node.pop("title", None)
    if isinstance(node.get("description"), str):
        node["description"] = " ".join(node["description"].split())
    if node.get("default", ...) is None:
        node.pop("default")
    properties = node.pop("properties", None)
    resolved = {key: _resolve(value, definitions) for key, value in node.items()}
    if properties is not None:
        resolved["properties"] = {name: _resolve(value, definitions) for name, value in properties.items()}
    return resolved
