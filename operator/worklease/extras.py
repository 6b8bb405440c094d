"""Commands that need an extra of this package: each starts, or says in one line what to install."""

import importlib
import sys

EXIT_NOT_INSTALLED = 2


def operator() -> int:
    """worklease-operator."""
    return _run("worklease-operator", "worklease.controller.command", extra="operator")


def fence() -> int:
    """worklease-fence."""
    return _run("worklease-fence", "worklease.fencing.authorizer.command", extra="fence")


def mcp() -> int:
    """worklease-mcp."""
    return _run("worklease-mcp", "worklease.mcp.command", extra="mcp")


def _run(command: str, module: str, *, extra: str) -> int:
    try:
        return int(importlib.import_module(module).main() or 0)
    except ModuleNotFoundError as error:
        missing = (error.name or str(error)).partition(".")[0]
        if missing == __package__:
            raise
        print(f"{command}: {missing} is missing: pip install '{__package__}[{extra}]'", file=sys.stderr)
        return EXIT_NOT_INSTALLED
