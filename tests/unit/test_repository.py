"""The repository's own promises: no module hides one of Python's, every file says what it is for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from repository import REPOSITORY

IMPORT_ROOTS = (REPOSITORY, REPOSITORY / "operator", REPOSITORY / "hack", REPOSITORY / "tests")
SOURCES = sorted(path for root in ("operator/worklease", "hack", "tests") for path in (REPOSITORY / root).rglob("*.py"))
MOST_DOCSTRING_LINES = 5


@pytest.mark.parametrize("root", IMPORT_ROOTS, ids=lambda root: root.name)
def test_no_module_has_the_name_of_one_of_the_standard_library(root: Path) -> None:
    """What is imported from a directory on the import path hides no module of the standard library."""
    modules = {path.stem for path in root.glob("*.py")} | {path.parent.name for path in root.glob("*/__init__.py")}
    assert not modules & sys.stdlib_module_names


@pytest.mark.parametrize("directory", [REPOSITORY, REPOSITORY / "hack", REPOSITORY / "tests"], ids=lambda d: d.name)
def test_import_operator_is_the_standard_librarys(directory: Path) -> None:
    """`import operator` beside the directory operator/, with worklease installed, is Python's own module."""
    check = "import operator, worklease; assert operator.itemgetter(0)('ab') == 'a'; print(operator.__file__)"
    answer = subprocess.run([sys.executable, "-c", check], cwd=directory, capture_output=True, text=True, check=True)
    assert REPOSITORY / "operator" not in Path(answer.stdout.strip()).parents


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_file_opens_with_what_it_promises(path: Path) -> None:
    """Each module has a docstring of one to five lines."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, f"{path} has no docstring"
    assert len(docstring.splitlines()) <= MOST_DOCSTRING_LINES


def test_executables_are_scripts_that_run_from_anywhere() -> None:
    """Each executable of hack/ starts with a line that finds Python, and may be executed."""
    scripts = [path for path in (REPOSITORY / "hack").iterdir() if path.is_file() and not path.suffix]
    assert scripts
    for script in scripts:
        assert script.read_text().startswith("#!/usr/bin/env python3\n"), script
        assert script.stat().st_mode & 0o111, script
