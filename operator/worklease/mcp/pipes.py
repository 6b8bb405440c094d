"""stdin and stdout as an event loop has them: no thread between an agent's call and its answer.

Neither is made non-blocking: that would be so for whoever shares the pipe, the socket or the terminal too. A read
follows the news that there is something to read; a write, that at least PIPE_BUF bytes find room.
"""

import asyncio
import os
import select
import stat
from collections.abc import AsyncGenerator

CHUNK_BYTES = 2**16
LINE_MAX_BYTES = 2**22


class Pipes:
    """What comes from one descriptor, line by line, and what goes to another: as the SDK's stdio server takes them."""

    def __init__(self, received: int, sent: int) -> None:
        self._received = received
        self._sent = sent
        self._unwritten = bytearray()
        self._is_gone = False
        """Nobody reads any more what is sent."""
        self._news = asyncio.Event()
        mode = os.fstat(sent).st_mode
        self._tells_of_room = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)

    async def __aiter__(self) -> AsyncGenerator[str, None]:
        """The lines until the end, until one is too long, or until nobody reads the answers."""
        rest = bytearray()
        while (chunk := await self._read()) and len(rest) <= LINE_MAX_BYTES:
            *complete, last = chunk.split(b"\n")
            for part in complete:
                yield (bytes(rest) + part).decode(errors="replace")
                rest.clear()
            rest += last

    async def _read(self) -> bytes:
        """What is there; nothing at the end."""
        loop = asyncio.get_running_loop()
        while not self._is_gone:
            self._news.clear()
            try:
                loop.add_reader(self._received, self._news.set)
            except PermissionError:  # a file: it keeps nobody waiting
                return await asyncio.to_thread(os.read, self._received, CHUNK_BYTES)
            try:
                await self._news.wait()
            finally:
                loop.remove_reader(self._received)
            try:
                return b"" if self._is_gone else os.read(self._received, CHUNK_BYTES)
            except BlockingIOError:  # others have made it non-blocking, and have read what there was
                continue
            except OSError:
                break
        return b""

    async def write(self, text: str) -> None:
        """Puts it with what is to be written."""
        self._unwritten += text.encode()

    async def flush(self) -> None:
        """Writes all of it. When nobody reads it, the lines end."""
        try:
            while self._unwritten and not self._is_gone:
                written = await self._written(bytes(self._unwritten[: select.PIPE_BUF]))
                del self._unwritten[:written]
        except OSError:
            self._is_gone = True
            self._news.set()

    async def _written(self, data: bytes) -> int:
        if not self._tells_of_room:
            return await asyncio.to_thread(os.write, self._sent, data)
        loop = asyncio.get_running_loop()
        while True:
            if _has_room(self._sent):
                try:
                    return os.write(self._sent, data)
                except BlockingIOError:
                    pass
            room = asyncio.Event()
            loop.add_writer(self._sent, room.set)
            try:
                await room.wait()
            finally:
                loop.remove_writer(self._sent)


def _has_room(descriptor: int) -> bool:
    """Also when nobody will read it: the write then fails at once."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))
