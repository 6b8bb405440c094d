"""helm, built once into the cache as the servers are."""

from __future__ import annotations

import pytest

from controlplane import ensure
from support.helm import Helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """helm, without a cluster."""
    return Helm(ensure("helm")["helm"], tmp_path_factory.mktemp("helm"))
