"""What the operator knows of every lease, by uid and by name."""

from __future__ import annotations

from support.leases import work_lease
from worklease.api.worklease import Phase
from worklease.controller.view import Entry, View


def entry(uid: str, version: int) -> Entry:
    """An object of one and the same name."""
    return Entry(uid, version, work_lease(Phase.RELEASED), None)


def test_an_older_object_of_the_same_name_does_not_hide_the_one_that_replaced_it() -> None:
    """A list that was read before a deletion and a re-creation may be heard after them."""
    view, new, ghost = View(), entry("new", 7), entry("ghost", 5)
    view.put(new)
    view.put(ghost)
    assert view.by_key(new.lease.key) is new
    assert view.drop("ghost") is ghost
    assert view.by_key(new.lease.key) is new
    assert view.drop("ghost") is None


def test_the_newest_object_of_a_name_is_found_by_it() -> None:
    """Also before the deletion of the one that it replaced has been heard."""
    view, old, new = View(), entry("old", 5), entry("new", 7)
    view.put(old)
    view.put(new)
    assert view.by_key(new.lease.key) is new
    view.drop("old")
    assert view.by_key(new.lease.key) is new
    view.drop("new")
    assert view.by_key(new.lease.key) is None
