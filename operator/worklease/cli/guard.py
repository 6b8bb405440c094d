"""Runs one command, and kills it with its whole process group when its lease can no longer be certain.

A script that imports little. Who holds the lease writes to descriptor ORDERS: `until SECONDS` (boot-time clock) puts
the end off, `signal NUMBER` goes to the group. When nothing more is written the end comes all the same.
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress

CLOCK_ID = time.CLOCK_MONOTONIC if sys.platform == "darwin" else getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LOOK_SECONDS = 0.5  # The timer of select() stands still while the machine sleeps.
LINE_MAX = 4096
PR_SET_PDEATHSIG = 1
NOT_FOUND, NOT_EXECUTABLE = 127, 126


def main(orders: int, until: float, command: list[str]) -> int:
    """Runs the command until it ends, or its time is up, or nobody is there to give orders."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # they are for the command, and come as orders
    alarm, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = start(command, orders)
    os.set_blocking(orders, False)
    pending = b""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            kill(child, signal.SIGKILL)  # what it left behind in its group
            take_terminal(child)
            return code_of(status)
        left = until - time.clock_gettime(CLOCK_ID)
        if left <= 0:
            return finish(child)
        ready, _, _ = select.select([orders, alarm], [], [], min(left, LOOK_SECONDS))
        if alarm in ready:
            os.read(alarm, LINE_MAX)
        if orders in ready:
            data = os.read(orders, LINE_MAX)
            if not data:
                return finish(child)
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                word, _, value = line.partition(b" ")
                if word == b"until":
                    until = float(value)
                elif word == b"signal":
                    kill(child, int(value))


def start(command: list[str], orders: int) -> int:
    """Forks the command into a group of its own, and dies with us."""
    guard = os.getpid()
    child = os.fork()
    if child:
        with suppress(OSError):  # it has done so itself
            os.setpgid(child, child)
        return child
    try:
        os.setpgid(0, 0)
        os.close(orders)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if sys.platform == "linux":
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != guard:
                os._exit(NOT_EXECUTABLE)
        take_terminal(os.getpgid(guard))
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def take_terminal(owner: int) -> None:
    """Puts our group into the foreground of the terminal, in place of the group `owner`: only one group reads it."""
    with suppress(OSError):  # not our terminal
        if os.isatty(0) and os.tcgetpgrp(0) == owner:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpgrp())


def kill(child: int, number: int) -> None:
    """Sends a signal to the group, as far as there is one."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, number)


def finish(child: int) -> int:
    """Ends the whole group at once."""
    kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    take_terminal(child)
    return code_of(status)


def code_of(status: int) -> int:
    """The exit code of a shell."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
