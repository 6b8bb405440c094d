"""Processes that hold locks, ours and those of others, to be measured on one server; here the others' are built."""

from __future__ import annotations

from pathlib import Path

from controlplane.build import cached

HERE = Path(__file__).resolve().parent


def ensure() -> Path:
    """The path of the program."""
    return cached(HERE, "peers", "client-go's and etcd's locks", "90 s on 2 cores")
