"""worklease hold NAME -- COMMAND: runs a command under a lease, and kills it before the work can be another's."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from worklease.cli import rehearse
from worklease.cli.adopting import granted, speaker
from worklease.cli.connection import connected
from worklease.cli.exits import Exit
from worklease.cli.report import report
from worklease.cli.say import wanted_by
from worklease.client.lease import Lease, words
from worklease.client.timing import Standing
from worklease.errors import LeaseLost

GUARD = Path(__file__).with_name("guard.py")
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
GRACE_MAX_SECONDS = 5.0
GRACE_PER_LEASE = 6
LOOK_SECONDS = 0.25
STOP = "stop"


class Child:
    """The command, under its guard."""

    def __init__(self, process: asyncio.subprocess.Process, orders: int) -> None:
        self.process = process
        self._orders = orders
        self._until: float | None = None

    @classmethod
    async def start(cls, command: list[str], lease: Lease, environment: dict[str, str]) -> "Child":
        """Starts it; from now on it dies at the expiry that the guard was told last."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", str(GUARD), str(reading), repr(lease.expiry), *command,
                env={**os.environ, **environment}, pass_fds=(reading,),
            )  # fmt: skip
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        return cls(process, writing)

    def order(self, line: str) -> None:
        """Tells the guard; one that is gone has ended the command."""
        with contextlib.suppress(OSError):
            os.write(self._orders, f"{line}\n".encode())

    def signal(self, number: int) -> None:
        """Sends a signal to the command and all that it has started."""
        self.order(f"signal {int(number)}")

    def until(self, expiry: float) -> None:
        """When the guard kills it."""
        if expiry != self._until:
            self._until = expiry
            self.order(f"until {expiry!r}")

    async def end(self) -> None:
        """Kills what is left: the guard does so when it hears nothing any more."""
        os.close(self._orders)
        await self.process.wait()


class StatusFile:
    """Says the standing to the command, in a file that is replaced whole."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._said = ""
        self._complained = False

    def say(self, lease: Lease) -> None:
        """Writes it when it has changed. When that fails, no file is better than an old one."""
        if self._path is None:
            return
        said = json.dumps({"standing": lease.standing, "epoch": lease.epoch, "deadlineBootSeconds": lease.deadline})
        if said == self._said:
            return
        beside = self._path.with_name(self._path.name + ".new")
        try:
            beside.write_text(said + "\n")
            beside.replace(self._path)
            self._said = said
        except OSError as error:
            for path in (beside, self._path):
                with contextlib.suppress(OSError):
                    path.unlink()
            if not self._complained:
                print(f"worklease: the status file cannot be written: {error}; going on without it", file=sys.stderr)
                self._complained = True


async def run(options: argparse.Namespace) -> int:
    """Holds, runs the command, and returns its exit code, or one of ours."""
    async with connected(options) as client:
        wanted = wanted_by(options)
        if options.dry_run == "server":
            async with speaker(client, wanted) as (speaking, _):
                await rehearse.claim(speaking, wanted)
            await report(options, client, f"{wanted.lease} claimed, and the command not run")
            return Exit.DONE
        task = asyncio.current_task()
        assert task
        loop = asyncio.get_running_loop()
        stopped_by: list[int] = []

        def stop(number: int) -> None:
            stopped_by.append(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        try:
            async with (
                speaker(client, wanted) as (speaking, lock),
                speaking.held(await granted(speaking, lock, wanted, options.wait)) as lease,
            ):
                code = await _supervise(options, lease)
                if code == Exit.DONE and options.complete is not None:
                    await lease.complete(words(options.complete))
                elif lease.standing in (Standing.HELD, Standing.JEOPARDY):
                    await lease.release(f"the command ended with {code}")
                return code
        except LeaseLost as lost:
            print(f"worklease: {lost}", file=sys.stderr)
            return Exit.LOST
        except asyncio.CancelledError:
            if not stopped_by:
                raise
            return 128 + stopped_by[0]


async def _supervise(options: argparse.Namespace, lease: Lease) -> int:
    """Runs the command to its end; when our block is cancelled, the command is killed before we go on."""
    status = StatusFile(options.status_file)
    status.say(lease)
    child = await Child.start(options.child, lease, environment(lease, options.status_file))
    loop = asyncio.get_running_loop()
    for number in FORWARDED:
        loop.add_signal_handler(number, child.signal, number)
    ended = asyncio.ensure_future(child.process.wait())
    warned = False
    try:
        while not ended.done():
            child.until(lease.expiry)
            status.say(lease)
            uncertain = _warning_at(lease) <= lease.now()
            if uncertain and not warned:
                _warn(options.on_jeopardy, child, lease)
                warned = True
            elif warned and not uncertain and lease.standing is Standing.HELD and options.on_jeopardy == STOP:
                print("worklease: the lease is certain again: the command goes on", file=sys.stderr)
                child.signal(signal.SIGCONT)
                warned = False
            await asyncio.wait({ended}, timeout=LOOK_SECONDS)
        code = ended.result()
    finally:
        for number in FORWARDED:
            loop.remove_signal_handler(number)
        await child.end()
        status.say(lease)
    if warned and options.on_jeopardy != STOP:
        print("worklease: the command was told to end because the lease was not certain", file=sys.stderr)
        return Exit.LOST
    return code


def _warning_at(lease: Lease) -> float:
    """When the command is told: in jeopardy, and early enough to end by itself before it is killed."""
    grace = min(GRACE_MAX_SECONDS, (lease.work.status.lease_duration_seconds or 0) / GRACE_PER_LEASE)
    return min(lease.deadline, lease.expiry - grace)


def _warn(how: str, child: Child, lease: Lease) -> None:
    trouble = f": {lease.trouble}" if lease.trouble else ""
    if how == STOP:
        print(f"worklease: the lease is not certain, the command is stopped{trouble}", file=sys.stderr)
        child.signal(signal.SIGSTOP)
        return
    print(f"worklease: the lease is not certain, the command is sent {how}{trouble}", file=sys.stderr)
    child.signal(signal.Signals[how])


def environment(lease: Lease, status_file: Path | None) -> dict[str, str]:
    """What the command is given: the fencing token, and who holds what."""
    namespace, _, name = lease.key.partition("/")
    given = {
        **lease.token.to_environ(),
        "WORKLEASE_NAME": name,
        "WORKLEASE_NAMESPACE": namespace,
        "WORKLEASE_HOLDER": lease.identity.username,
        "WORKLEASE_INSTANCE": lease.identity.instance,
        "WORKLEASE_CLAIM_ID": lease.claim_id,
    }
    return given if status_file is None else {**given, "WORKLEASE_STATUS_FILE": str(status_file)}
