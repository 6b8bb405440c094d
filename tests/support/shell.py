"""The command worklease as a process, by an identity's own credentials."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from support.cluster import Identity
from worklease.cli.command import main

WITHIN_SECONDS = 60.0


class Shell:
    """Runs commands in one namespace as one identity, as one user's shells do."""

    def __init__(self, identity: Identity, namespace: str, *, kubeconfig: Path | None = None, user: str = "me") -> None:
        self.identity = identity
        self.namespace = namespace
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "KUBECONFIG": str(kubeconfig or identity.kubeconfig),
            "WORKLEASE_INSTANCE": f"cli:test/{user}",
        }

    def words(self, command: str, *arguments: str) -> list[str]:
        """`worklease COMMAND -n NAMESPACE ARGUMENTS`."""
        return [sys.executable, "-m", "worklease.cli", command, "-n", self.namespace, *arguments]

    def start(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        """Starts it."""
        return subprocess.Popen(
            self.words(command, *arguments),
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, command: str, *arguments: str, given: str = "") -> tuple[int, str, str]:
        """Runs it to its end: exit code, stdout, stderr."""
        with self.start(command, *arguments) as process:
            try:
                out, err = process.communicate(given, timeout=WITHIN_SECONDS)
            finally:
                process.kill()
        return process.returncode, out, err

    def call(self, command: str, *arguments: str) -> tuple[int, str, str]:
        """The same without a process of its own, which is quicker; nobody is at its terminal."""
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.environment),
            patch("sys.stdin", io.StringIO()),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                code = main(["-n", self.namespace, command, *arguments])
            except SystemExit as wrong_usage:
                code = int(wrong_usage.code or 0)
        return code, out.getvalue(), err.getvalue()
