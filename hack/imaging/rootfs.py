"""The two layers of the image: Python with all that worklease needs, and worklease itself.

Nothing in them has a time or depends on who built it. There is no shell and no package manager.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from commands import SetupError, run_logged
from locking import cache_directory
from progress import say
from repository import REPOSITORY

SUITE = "bookworm"
DEBIAN_PACKAGES = ("ca-certificates", "libpython3-stdlib", "python3-minimal")
USER_ID = 65532
EXTRAS = ("operator", "mcp")
LEFT_OUT_PROGRAMS = ("worklease-fence",)
"""The authorizer for proxies runs beside a recipient, and needs an extra of its own."""

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
PACKAGES = "usr/local/lib/python3.11/dist-packages"
PATH = "/usr/local/bin:/usr/bin:/bin"

UNUSED_PATHS = (
    "etc/apt",
    "etc/cron.daily",
    "etc/fstab",
    "etc/hostname",
    "etc/logrotate.d",
    "etc/resolv.conf",
    "usr/lib/python3.11/ensurepip",
    "usr/lib/python3.11/idlelib",
    "usr/lib/python3.11/lib2to3",
    "usr/lib/python3.11/pydoc_data",
    "usr/lib/python3.11/test",
    "usr/lib/python3.11/turtledemo",
    "usr/lib/*-linux-gnu/gconv",
    "usr/lib/*-linux-gnu/perl*",
    "usr/share/ca-certificates",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/perl5",
    "usr/sbin/*",
    "var/cache/*",
    "var/lib/apt",
    "var/log/*",
    "var/lib/dpkg/*-old",
    "dev/*",
)
UNUSED_MODULES = tuple(
    f"kubernetes/{client}/{part}" for client in ("client", "aio/client") for part in ("api", "models")
)
"""Two thirds of the image: the generated calls and models of the Kubernetes client, loaded by name when one is used.

worklease speaks to the API server by itself, and uses that package to find credentials alone.
"""
PROGRAM = """#!/usr/bin/python3
import sys

from {module} import {function}

sys.exit({function}())
"""
ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/sbin/nologin\n"
    f"worklease:x:{USER_ID}:{USER_ID}:worklease:/nonexistent:/sbin/nologin\n",
    "group": f"root:x:0:\nworklease:x:{USER_ID}:\n",
}


def require() -> None:
    """Raises SetupError where this cannot be done; installs mmdebstrap where it is only not there yet."""
    instead = "With Docker, this makes the same: docker build -t localhost/worklease:dev ."
    if os.geteuid() != 0:
        raise SetupError(f"hack/image needs root, to unpack Debian's packages and run their Python. {instead}")
    if shutil.which("mmdebstrap"):
        return
    if not shutil.which("apt-get"):
        raise SetupError(f"hack/image needs mmdebstrap, which Debian and Ubuntu have. {instead}")
    log = cache_directory() / "mmdebstrap.log"
    run_logged(["apt-get", "update"], "updating the list of Debian's packages", "10 s", log, REPOSITORY)
    command = ["apt-get", "install", "--yes", "--no-install-recommends", "mmdebstrap"]
    variables = {"DEBIAN_FRONTEND": "noninteractive"}
    run_logged(command, "installing mmdebstrap", "10 s", log, REPOSITORY, variables)


def make_base(directory: Path) -> None:
    """Python and everything that worklease needs, in a directory that is not there yet."""
    log = cache_directory() / "image-base.log"
    packages = f"--include={','.join(DEBIAN_PACKAGES)}"
    command = ["mmdebstrap", "--quiet", "--variant=extract", "--mode=root", packages, SUITE, str(directory)]
    run_logged(command, f"unpacking Python of Debian {SUITE}", "5 s", log, REPOSITORY)
    certificates = sorted((directory / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = directory / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in certificates))
    for pattern in UNUSED_PATHS:
        for path in directory.glob(pattern):
            _remove(path)
    _keep_licences_only(directory / "usr/share/doc")
    for name, content in ACCOUNTS.items():
        (directory / "etc" / name).write_text(content)
    (directory / "tmp").mkdir(exist_ok=True)
    (directory / "tmp").chmod(0o1777)
    _install_dependencies(directory / PACKAGES)
    _compile(directory, "usr/lib/python3.11")
    _compile(directory, PACKAGES)


def _install_dependencies(packages: Path) -> None:
    platforms = [f"--platform={manylinux}_{os.uname().machine}" for manylinux in ("manylinux2014", "manylinux_2_28")]
    options = ["--no-compile", "--only-binary=:all:", "--python-version=3.11", *platforms]
    command = [*PIP, "install", *options, "--target", str(packages), *dependencies()]
    log = cache_directory() / "image-dependencies.log"
    run_logged(command, "installing what worklease needs", "10 s", log, REPOSITORY)
    _remove(packages / "bin")
    for name in UNUSED_MODULES:
        for path in (packages / name).glob("[!_]*.py"):
            path.unlink()


def make_application(base: Path, directory: Path) -> list[str]:
    """worklease alone, to lie over `base`. Returns the names of its programs."""
    log = cache_directory() / "image-application.log"
    wheels = directory.with_name(f"{directory.name}-wheel")
    command = [*PIP, "wheel", "--no-deps", "--wheel-dir", str(wheels), "."]
    run_logged(command, "building worklease's wheel", "5 s", log, REPOSITORY)
    (wheel,) = wheels.glob("worklease-*.whl")
    packages = directory / PACKAGES
    command = [*PIP, "install", "--no-deps", "--no-compile", "--target", str(packages), str(wheel)]
    run_logged(command, "installing worklease", "2 s", log, REPOSITORY)
    _remove(packages / "bin")
    _forget_where_from(packages)
    programs = _write_programs(packages, directory / "usr/local/bin")
    together = directory.with_name(f"{directory.name}-compiled")
    merged(base, directory, together)
    _compile(together, f"{PACKAGES}/worklease")
    shutil.rmtree(packages / "worklease")
    shutil.move(together / PACKAGES / "worklease", packages / "worklease")
    shutil.rmtree(together)
    return programs


def dependencies() -> list[str]:
    """What pip is asked for: what the project needs, and what those of EXTRAS that it has need."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(one for extra in EXTRAS for one in optional.get(extra, ()))]


def merged(base: Path, application: Path, directory: Path) -> None:
    """Both layers over one another, as a container sees them, sharing the files with `base` and `application`."""
    shutil.copytree(base, directory, symlinks=True, copy_function=os.link)
    shutil.copytree(application, directory, symlinks=True, copy_function=os.link, dirs_exist_ok=True)


def run_in(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in the file system as the image's user."""
    user = f"--userspec={USER_ID}:{USER_ID}"
    return subprocess.run([_chroot(), user, str(root), *command], capture_output=True, text=True, env={"PATH": PATH})


def _forget_where_from(packages: Path) -> None:
    """pip notes from which file it installed, and that note among what belongs to the package."""
    (metadata,) = packages.glob("worklease-*.dist-info")
    (metadata / "direct_url.json").unlink(missing_ok=True)
    record = metadata / "RECORD"
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(line for line in lines if "direct_url.json" not in line))


def _write_programs(packages: Path, directory: Path) -> list[str]:
    (metadata,) = packages.glob("worklease-*.dist-info")
    points = configparser.ConfigParser()
    points.read(metadata / "entry_points.txt")
    directory.mkdir(parents=True)
    programs = [name for name in sorted(points["console_scripts"]) if name not in LEFT_OUT_PROGRAMS]
    for name in programs:
        module, _, function = points["console_scripts"][name].partition(":")
        path = directory / name
        path.write_text(PROGRAM.format(module=module, function=function))
        path.chmod(0o755)
    return programs


def _compile(root: Path, path: str) -> None:
    """The hash of its source, not its time, ties a compiled file to it, and nothing checks it when it is loaded."""
    command = [_chroot(), str(root), "/usr/bin/python3", "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash"]
    answer = subprocess.run(
        [*command, f"/{path}"], capture_output=True, text=True, env={"PATH": "/usr/bin", "PYTHONHASHSEED": "0"}
    )
    if answer.returncode:
        say(f"not all of {path} could be compiled: {answer.stdout.strip()[-500:]}")


def _chroot() -> str:
    return shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin") or "chroot"


def _keep_licences_only(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name != "copyright":
            path.unlink()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
