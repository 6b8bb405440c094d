"""Where a machine cannot run a node, hack/cluster says what is missing and what to use instead."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from localnode import requirements

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the answer is that it is not Linux")


def test_without_root_up_node_says_so_and_names_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed or started: the message says what it needs root for."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(requirements.NodeUnavailableError, match=r"needs root.*kind create cluster --config hack/kind"):
        requirements.ensure()


def test_without_apt_the_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a machine without Debian's tools it says what Debian calls the programs that are missing."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "FOLDERS", ())
    monkeypatch.setattr(requirements, "NETWORK_PLUGIN_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(requirements.NodeUnavailableError, match=r"no apt-get.*containerd.*iptables.*runc"):
        requirements.ensure()
