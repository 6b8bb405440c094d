"""Where the story is played: runs kubectl as one of its characters, shows the command and the answer, checks both."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from commands import SetupError

TIMEOUT_SECONDS = 60
WIDTH = 100
BOLD, DIM, GREEN, RED, PLAIN = "\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m"


class NotAsToldError(SetupError):
    """Something in the story went otherwise than it is told."""


class Stage:
    """One cluster and one kubeconfig with a context for each character."""

    def __init__(self, kubectl: Path, kubeconfig: Path, namespace: str) -> None:
        self.kubectl = kubectl
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self._colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def chapter(self, title: str) -> None:
        print(f"\n{self._in(BOLD, title)}", flush=True)

    def say(self, text: str) -> None:
        print(textwrap.fill(text, WIDTH), flush=True)

    def run(self, *arguments: str, as_: str, given: str = "", refused: str = "", shown: bool = True) -> str:
        """Run kubectl as a character. With `refused`, it must fail and say that; else it must succeed."""
        answer = subprocess.run(
            [str(self.kubectl), f"--context={as_}", *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
        )
        output = (answer.stdout + answer.stderr).strip()
        if shown:
            self._show(as_, arguments, given, output, failed=answer.returncode != 0)
        command = f"kubectl --context={as_} {' '.join(arguments)}"
        if refused and (answer.returncode == 0 or refused not in output):
            raise NotAsToldError(f"{command} should have been refused with {refused!r}, and answered:\n{output}")
        if not refused and answer.returncode:
            raise NotAsToldError(f"{command} should have succeeded, and answered:\n{output}")
        return output

    def show(self, who: str, what: str, text: str) -> None:
        """Show something that is said by other means than kubectl."""
        print(f"{self._in(BOLD, f'{who} > ')}{what}", flush=True)
        for line in text.strip().splitlines():
            print(self._in(DIM, "    " + line), flush=True)

    def state(self, name: str, as_: str) -> dict[str, Any]:
        """A WorkLease as it is now, without showing anything."""
        parsed: dict[str, Any] = json.loads(self.run("get", "worklease", name, "--output=json", as_=as_, shown=False))
        return parsed

    def expect(self, condition: bool, what: str) -> None:
        if not condition:
            raise NotAsToldError(f"the story says that {what}; it is not so")
        print(self._in(GREEN, f"  => {what}"), flush=True)

    def _show(self, who: str, arguments: tuple[str, ...], given: str, output: str, *, failed: bool) -> None:
        line = " ".join(["kubectl", f"--context={who}", *map(shlex.quote, arguments)])
        print(self._in(BOLD, f"{who} $ ") + line, flush=True)
        for text in (given, output):
            for shown in text.strip().splitlines():
                print(self._in(RED if failed and text is output else DIM, "    " + shown), flush=True)

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{PLAIN}" if self._colours else text
