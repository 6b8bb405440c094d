#!/usr/bin/env python3
"""kubectl worklease, with all that it needs in the folder lib beside it."""

import os
import sys

NEWEST_FIRST = ("python3.14", "python3.13", "python3.12", "python3.11")
LIBRARY = os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib")
TRIED = "KUBECTL_WORKLEASE_TRIED"


def fits() -> bool:
    """Whether the compiled part is there for this Python."""
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python reads this too, to say that it is one
        return False
    from importlib.machinery import EXTENSION_SUFFIXES

    core = os.path.join(LIBRARY, "pydantic_core", "_pydantic_core")
    return any(os.path.exists(core + suffix) for suffix in EXTENSION_SUFFIXES)


def find_another() -> None:
    """Become a Python of the right version when PATH has one; each is tried once."""
    tried = [name for name in os.environ.get(TRIED, "").split(",") if name]
    for name in NEWEST_FIRST:
        for directory in os.environ.get("PATH", "").split(os.pathsep):
            python = os.path.join(directory, name)
            if name not in tried and os.access(python, os.X_OK):
                os.environ[TRIED] = ",".join([*tried, name])
                os.execv(python, [python, os.path.realpath(__file__), *sys.argv[1:]])
    sys.exit(
        "kubectl-worklease: this needs Python 3.11 to 3.14, and python3 is "
        f"{sys.version.split()[0]} ({sys.executable}); install one as python3.13, say"
    )


if not fits():
    find_another()
os.environ.pop(TRIED, None)
sys.path[0] = LIBRARY
try:
    from worklease.cli.command import main
except ImportError as error:
    sys.exit(f"kubectl-worklease: the plugin was made for another machine than {sys.executable} is for: {error}")
sys.exit(main())
