"""What a write may do to an object's metadata, for both kinds: an agent's statement carries nothing that outlives it.

Without these checks an agent could have the garbage collector delete held work, fill an object beyond what etcd takes,
write so often that no swap succeeds, move the server's time of a renewal, or make the next apply of an administrator
or of Git withdraw what others said. Who may delete the object is exempt, since that is more.
"""

from worklease.api.admission import DELETE, may, untouched
from worklease.api.cel import Check

LABELS_MAX = 32
"""How many labels a new object may have."""
LAST_APPLIED_MAX = 8192
"""Characters of kubectl's annotation on a new object; etcd stores up to six bytes for each."""
MANAGED_FIELDS_MAX = 131072
"""Characters of managedFields, printed. Any write can bring its own."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CLIENT_SIDE_APPLY = "kubectl-client-side-apply"
"""The manager whose fields kubectl takes over when it first applies on the server's side."""


def _applied(where: str) -> str:
    """The entries of managedFields from which an apply concludes what to remove."""
    return (
        f"{where}.metadata.?managedFields.orValue([])"
        f".filter(f, f.?operation.orValue('') == 'Apply' || f.?manager.orValue('') == '{CLIENT_SIDE_APPLY}')"
    )


def _managed(where: str) -> str:
    """Who manages what, without the times."""
    return f"{where}.metadata.?managedFields.orValue([]).map(f, [f.?manager, f.?fieldsV1])"


def _spec(entry: str) -> str:
    return f"{entry}.?fieldsV1[?'f:spec'].orValue({{}})"


_MANAGER = "n.?manager.orValue('')"
_STATEMENT_ALONE = (
    f"{_MANAGER} in variables.statements && n.?fieldsV1 == optional.of({{'f:spec': {{'f:' + {_MANAGER}: {{}}}}}})"
)
# Only of effects that exist: the number of managers stays bounded, and with it what these checks may cost.
_EFFECT_ALONE = (
    f"{_MANAGER}.startsWith('effect-') && {_MANAGER}.substring(7) in variables.effectIDs"
    " && n.?fieldsV1.orValue({}).all(part, part == 'f:spec')"
    f" && {_spec('n')}.all(key, key == 'f:effects'"
    f" && {_spec('n')}[key].all(effect, effect == 'k:{{\"id\":\"' + {_MANAGER}.substring(7) + '\"}}'))"
)
# The new entry may have lost statements to somebody who said them anew, and has lost nothing else.
_SAME_MANAGER = (
    "n.?manager == o.?manager && n.?fieldsV1[?'f:metadata'] == o.?fieldsV1[?'f:metadata']"
    f" && {_spec('n')}.all(key, key in {_spec('o')}"
    f" && (key != 'f:effects' || {_spec('n')}[key].all(effect, effect in {_spec('o')}[key])))"
    f" && {_spec('o')}.all(key, key in {_spec('n')} || key.substring(2) in variables.statements)"
)
_OWNS_STATEMENTS_ONLY = (
    f"!('f:metadata' in o.?fieldsV1.orValue({{}})) && {_spec('o')}.all(key, key.substring(2) in variables.statements)"
)


def variables(statements: tuple[str, ...]) -> dict[str, str]:
    """What the checks of metadata look up, for a kind with these statements."""
    described = ("labels", "annotations", "ownerReferences", "finalizers", "generateName")
    return {
        "statements": "[" + ", ".join(f"'{name}'" for name in statements) + "]",
        "described": f"oldObject == null || ({untouched(*described)} && !has(object.metadata.selfLink))",
        "effectIDs": "object.spec.?effects.orValue([]).map(effect, effect.id)",
        "applied": _applied("object"),
        "appliedBefore": _applied("oldObject"),
        "steady": f"oldObject == null || {_managed('object')} == {_managed('oldObject')}",
    }


CHECKS = (
    Check(
        "metadata.silence",
        "oldObject == null || object.spec != oldObject.spec"
        f" || (variables.described && {untouched('managedFields')}) || {may(DELETE)}",
        "a write that says nothing new changes nothing",
    ),
    Check(
        "metadata.labels",
        f"variables.described || ({untouched('labels', 'ownerReferences', 'finalizers')}) || {may(DELETE)}",
        "labels, ownerReferences and finalizers are changed by those who may delete",
    ),
    Check(
        "metadata.annotations",
        f"variables.described || {untouched('annotations')} || {may(DELETE)}",
        "annotations are changed by those who may delete: say a statement with a JSON patch, or apply it on the server "
        "side with the name of the statement as the field manager",
    ),
    Check(
        "metadata.names",
        "variables.described || (!has(object.metadata.selfLink)"
        " && (!has(object.metadata.generateName) || object.metadata.generateName == "
        "oldObject.metadata.?generateName.orValue('')))",
        "generateName and selfLink are not changed",
    ),
    # The authorizer first: however much there is to compare, it stops nobody who may put it in order.
    Check(
        "managers.statements",
        f"variables.steady || {may(DELETE)} || variables.applied.all(n, ({_STATEMENT_ALONE}) || ({_EFFECT_ALONE})"
        f" || variables.appliedBefore.exists(o, {_SAME_MANAGER}))",
        "who may not delete applies one statement at a time, with its name as the field manager: renewal, effect-ID",
    ),
    Check(
        "managers.kept",
        f"variables.steady || {may(DELETE)} || (size(object.metadata.?managedFields.orValue([])) > 0"
        f" && variables.appliedBefore.all(o, ({_OWNS_STATEMENTS_ONLY})"
        f" || variables.applied.exists(n, {_SAME_MANAGER})))",
        "managedFields are not reset, and keep what others have applied, except by those who may delete",
    ),
    Check(
        "managers.size",
        f"variables.steady || {may(DELETE)}"
        f" || size('%s'.format([object.metadata.?managedFields.orValue([])])) <= {MANAGED_FIELDS_MAX}",
        "metadata.managedFields is too large: have it reset by somebody who may delete",
    ),
    Check(
        "creation.owned",
        "oldObject != null || (!has(object.metadata.ownerReferences) && !has(object.metadata.finalizers))"
        f" || {may(DELETE)}",
        "ownerReferences and finalizers are set by those who may delete",
    ),
    Check(
        "creation.size",
        f"oldObject != null || (size(object.metadata.?labels.orValue({{}})) <= {LABELS_MAX}"
        " && object.metadata.?annotations.orValue({}).all(key, "
        f"key == '{LAST_APPLIED}' && size(object.metadata.annotations[key]) <= {LAST_APPLIED_MAX})"
        " && size(object.metadata.?managedFields.orValue([])) <= 1 && size('%s'.format("
        f"[object.metadata.?managedFields.orValue([])])) <= {MANAGED_FIELDS_MAX}) || {may(DELETE)}",
        f"a new object has at most {LABELS_MAX} labels, no annotation but a last-applied one of {LAST_APPLIED_MAX} "
        "characters, and no managedFields: more is written by those who may delete",
    ),
)
