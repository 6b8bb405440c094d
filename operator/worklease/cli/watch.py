"""worklease watch: leases as they change, in place on a terminal, row after row for everything else that reads."""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from datetime import datetime

from worklease.api.group import API_VERSION
from worklease.api.worklease import WorkLease
from worklease.cli.connection import connected
from worklease.cli.exits import Exit
from worklease.cli.printing import cut, dump, lines, name_of, shown
from worklease.cli.say import look
from worklease.cli.show import HEAD, WIDE, row, sentences
from worklease.client.reading import parsed
from worklease.errors import Unreadable
from worklease.kube.following import Picture, Raw

REDRAW_SECONDS = 1.0
"""How often a terminal is redrawn when nothing changes: the time that is left does."""
BETWEEN_SECONDS = 0.1
TENURES_SHOWN = 5
DELETED = "Deleted"
ALTERNATE, NORMAL = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The alternate screen without a cursor, and back."""
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
Now = Callable[[], datetime]


async def watch(options: argparse.Namespace) -> int:
    """Until it is interrupted. What breaks the watch is waited out, and said."""
    async with connected(options) as client:
        selector = ""
        if options.name is not None:
            await look(client, options)
            selector = f"metadata.name={options.name}"
        namespace = "" if options.all_namespaces else options.namespace
        pictures = client.follower.follow_all(namespace, field_selector=selector)
        now = client.session.server_clock.now
        async with contextlib.aclosing(pictures):
            if not _on_screen() or options.output not in (None, "wide"):
                await _appended(options, pictures, now)
            elif await _redrawn(options, pictures, now):
                return 128 + signal.SIGTERM
    return Exit.ERROR


def _on_screen() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


async def _appended(options: argparse.Namespace, pictures: AsyncGenerator[Picture, None], now: Now) -> None:
    """A row whenever something is decided, or (wide) somebody else may act next. JSON and YAML show each change."""
    printed = Rows(wide=options.output == "wide")
    complained = False
    async for picture in pictures:
        if picture.trouble is not None and not complained:
            print(f"worklease: nothing is heard, trying again: {picture.trouble}", file=sys.stderr)
        complained = picture.trouble is not None
        for deleted, raws in ((False, picture.changed), (True, picture.gone)):
            for raw in raws:
                if options.output in ("json", "yaml", "name"):
                    _print_object({"apiVersion": API_VERSION, "kind": "WorkLease", **raw}, options.output)
                else:
                    printed.see(raw, now(), deleted=deleted)
        printed.print()


def _print_object(raw: Raw, output: str) -> None:
    if output == "name":
        print(name_of(raw))
    elif output == "json":
        print(json.dumps(shown(raw), ensure_ascii=False, separators=(",", ":")))
    else:
        print("---")
        dump(shown(raw), "yaml")
    sys.stdout.flush()


class Rows:
    """Rows that are appended to a table, in columns that keep their width."""

    def __init__(self, *, wide: bool) -> None:
        self._wide = wide
        self._head: tuple[str, ...] = (*HEAD, *(WIDE if wide else ()))
        self._widths: list[int] = []
        self._said: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._pending: list[tuple[str, ...]] = []

    def see(self, raw: Raw, now: datetime, *, deleted: bool) -> None:
        """Takes a row for it unless the last one said the same."""
        cells = row(raw, now, wide=self._wide)
        key = cells[:2]
        if deleted:
            self._said.pop(key, None)
            self._pending.append((*cells[:2], DELETED, *cells[3:5], "", *cells[6:]))
            return
        said = (cells[2], cells[4], *cells[7:])
        if self._said.get(key) != said:
            self._said[key] = said
            self._pending.append(cells)

    def print(self) -> None:
        """Prints what was taken, below the head of the table when that is the first."""
        if self._pending:
            print("\n".join(lines(self._head, self._pending, widths=self._widths)), flush=True)
            self._head, self._pending = (), []


async def _redrawn(options: argparse.Namespace, pictures: AsyncGenerator[Picture, None], now: Now) -> bool:
    """Draws the whole screen anew, and leaves its last content when it ends; True when it was told to (SIGTERM)."""
    picture = Picture()
    news = asyncio.Event()
    told = asyncio.Event()

    def tell() -> None:
        told.set()
        news.set()

    async def follow() -> None:
        nonlocal picture
        try:
            async for picture in pictures:  # noqa: B007 - the latest one is drawn outside
                news.set()
        finally:
            news.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, news.set)
    loop.add_signal_handler(signal.SIGTERM, tell)
    following = asyncio.create_task(follow())
    try:
        print(ALTERNATE, end="", flush=True)
        await news.wait()
        while not following.done() and not told.is_set():
            _draw(options, picture, now())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), REDRAW_SECONDS)
            await asyncio.sleep(BETWEEN_SECONDS)
            news.clear()
        if not told.is_set():
            await following
        return told.is_set()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        print(NORMAL, end="")
        print("\n".join(_content(options, picture, now(), None)), flush=True)


def _draw(options: argparse.Namespace, picture: Picture, now: datetime) -> None:
    columns, height = shutil.get_terminal_size()
    content = _content(options, picture, now, columns)
    if len(content) > height:
        content = [*content[: height - 1], f"... and {len(content) - height + 1} more lines"]
    print(HOME + "\n".join(line + REST_OF_LINE for line in content) + REST_OF_SCREEN, end="", flush=True)


def _content(options: argparse.Namespace, picture: Picture, now: datetime, width: int | None) -> list[str]:
    """What is to be seen, each line cut at `width`."""
    raws = [picture.objects[key] for key in sorted(picture.objects)]
    trouble = [f"nothing is heard, trying again: {picture.trouble}"] if picture.trouble is not None else []
    if options.name is not None:
        content = _alone(raws[0], now) if raws else [f"{options.namespace}/{options.name} has been deleted"]
        return [cut(line, width) for line in [*trouble, *content]]
    wide = options.output == "wide"
    rows = lines((*HEAD, *(WIDE if wide else ())), [row(raw, now, wide=wide) for raw in raws], width=width)
    return [*(cut(line, width) for line in trouble), *rows]


def _alone(raw: Raw, now: datetime) -> list[str]:
    """One work item: where it stands, and its latest tenures."""
    try:
        work = parsed(WorkLease, raw)
    except Unreadable as error:
        return [str(error)]
    tenures = [
        f"epoch {one.epoch}: {one.holder_identity}, {one.end_reason or 'now'}"
        for one in work.status.history[-TENURES_SHOWN:]
    ]
    return [*sentences(work, now), *(("", *tenures) if tenures else ())]
