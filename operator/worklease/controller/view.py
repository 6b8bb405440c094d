"""What the operator knows of every lease: the newest object it has seen, and its own observation of the tenure."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from worklease.api.fields import Part
from worklease.api.worklease import Phase, WorkLease
from worklease.protocol.observation import Observation


@dataclass(slots=True)
class Entry:
    """One lease as it was last seen."""

    uid: str
    version: int
    lease: WorkLease
    observation: Observation | None
    claimed_at: float = 0.0
    """When its claim was seen first, as time.monotonic()."""


def version_of(raw: dict[str, Any]) -> int:
    """The revision at which this object was written; 0 when it does not say."""
    return revision_of(str(raw.get("metadata", {}).get("resourceVersion", "")))


def revision_of(version: str) -> int:
    """A resourceVersion as the revision of the store that it is, one for all kinds; 0 when it is none."""
    return int(version) if version.isascii() and version.isdigit() and len(version) < 20 else 0


_NO_FIELDS: set[str] = set()
# Texts that are the same in many tenures, conditions and objects.
_OF_CONDITIONS = {"type", "status", "reason", "message"}
_OF_TENURES = {"holder_identity", "instance", "purpose", "grant_reason", "grant_message", "end_reason", "end_message"}
_REPEATED = _OF_CONDITIONS | _OF_TENURES


@lru_cache(maxsize=20000)
def _shared(text: str) -> str:
    """One and the same object for equal texts; the table is bounded, since agents write them."""
    return text


def _slim(part: Part) -> None:
    """Drop what pydantic remembers of which fields were given: a set for each map, half of what an object takes.

    Texts that are repeated are kept once.
    """
    object.__setattr__(part, "__pydantic_fields_set__", _NO_FIELDS)
    fields = part.__dict__
    for name, value in fields.items():
        if type(value) is tuple:
            for inner in value:
                if isinstance(inner, Part):
                    _slim(inner)
        elif type(value) is str:
            if name in _REPEATED:
                fields[name] = _shared(value)
        elif isinstance(value, Part):
            _slim(value)


class View:
    """All entries by uid. An object that is not newer than what is known is passed over."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._uids: dict[str, str] = {}
        self.phases: Counter[Phase] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, uid: str) -> Entry | None:
        return self._entries.get(uid)

    def uids(self) -> list[str]:
        return list(self._entries)

    def put(self, entry: Entry) -> None:
        known = self._entries.get(entry.uid)
        if known is not None:
            self.phases[known.lease.status.phase] -= 1
        self.phases[entry.lease.status.phase] += 1
        self._entries[entry.uid] = entry
        _slim(entry.lease)
        named = self.by_key(entry.lease.key)
        if named is None or named.version <= entry.version:  # a list that took long may tell of one that was replaced
            self._uids[entry.lease.key] = entry.uid

    def drop(self, uid: str) -> Entry | None:
        known = self._entries.pop(uid, None)
        if known is not None:
            self.phases[known.lease.status.phase] -= 1
            if self._uids.get(known.lease.key) == uid:
                del self._uids[known.lease.key]
        return known

    def by_key(self, key: str) -> Entry | None:
        """The lease that is called namespace/name now."""
        return self._entries.get(self._uids.get(key, ""))
