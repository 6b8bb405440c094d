"""All tables, by what they are about."""

from support.refusals import Row, claims, decisions, effects, endings, objects, tenures

TABLES: dict[str, tuple[Row, ...]] = {
    "creation": objects.CREATION,
    "settings": objects.SETTINGS,
    "claim": claims.ROWS,
    "renewal": tenures.RENEWAL,
    "checkpoint": tenures.CHECKPOINT,
    "release": endings.RELEASE,
    "completion": endings.COMPLETION,
    "revocation": endings.REVOCATION,
    "effect added": effects.EFFECT_ADDED,
    "effect changed": effects.EFFECT_CHANGED,
    "effect dropped": effects.EFFECT_DROPPED,
    "decision": decisions.DECISION,
}
