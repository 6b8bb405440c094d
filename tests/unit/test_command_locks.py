"""The lock of a user's commands, where there is no place for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from worklease.cli.locks import Lock
from worklease.client.identity import Identity


def test_a_user_without_a_home_holds_without_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container's user that is in no passwd file and has no HOME: pathlib says so by a RuntimeError."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with Lock("https://server", Identity("user", "instance"), "ns/w") as lock:
        assert lock.taken
