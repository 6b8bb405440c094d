"""What is used of the package kubernetes, which cannot be imported as it is by a user without a home directory."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Configuration", "KubeConfigMerger", "kube_config"]


@contextlib.contextmanager
def _some_home() -> Iterator[None]:
    """It names ~/.kube/config while it is imported, and fails where there is no ~."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = os.sep
        try:
            yield
        finally:
            del os.environ["HOME"]
    else:
        yield


with _some_home():
    from kubernetes.aio import config as kube_config
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config.kube_config import KubeConfigMerger
