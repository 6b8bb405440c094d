"""A command whose extra is not installed says what to install, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PYPROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())
NEEDED = {
    "worklease-operator": ("operator", ("kopf", "prometheus_client", "uvloop")),
    "worklease-fence": ("fence", ("uvicorn",)),
    "worklease-mcp": ("mcp", ("mcp", "mcp_types", "starlette", "uvicorn")),
}
ARGUMENTS = {"worklease-fence": ["--store", "sqlite:{directory}/marks", "--http", "127.0.0.1:0"]}
OVER_HTTP = ["--http", "127.0.0.1:0", "--api-server", "https://127.0.0.1:1"]
CASES = [(command, module) for command, (_, modules) in NEEDED.items() for module in modules]


@pytest.mark.parametrize(("command", "module"), CASES, ids=lambda one: one)
def test_a_command_without_its_extra_says_in_one_line_what_to_install(
    command: str, module: str, tmp_path: Path
) -> None:
    """The module that is missing, and the extra that brings it; no traceback."""
    extra, _ = NEEDED[command]
    arguments = OVER_HTTP if module == "uvicorn" and extra == "mcp" else ARGUMENTS.get(command, [])
    given = [one.format(directory=tmp_path) for one in arguments]
    where, _, name = PYPROJECT["project"]["scripts"][command].partition(":")
    code = f"import sys; sys.modules[{module!r}] = None; from {where} import {name}; sys.exit({name}())"
    ended = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True, timeout=60)
    expected = f"{command}: {module} is missing: pip install 'worklease[{extra}]'\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", expected)


def test_the_extras_that_are_named_are_those_of_the_package() -> None:
    """What is to be installed exists."""
    assert {extra for extra, _ in NEEDED.values()} <= set(PYPROJECT["project"]["optional-dependencies"])
