"""Ties a program's life to ours: on Linux the kernel kills it when we end, also when we are killed ourselves.

Run as a script it takes the id of the parent and a command, asks for that and becomes the command.
The kernel watches the thread that started the program, so start it from a thread that lasts: the main one.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def tethered(command: list[str]) -> list[str]:
    """The command that runs `command` tied to the calling process."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command]


def become(parent: int, command: list[str]) -> None:
    """Replaces this process by `command`, to be killed when `parent` ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(f"{command[0]}: the process that started it has already ended")
    # Python ignores SIGPIPE, and what is ignored stays so across exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
