"""Ends the body of an `async with` from outside, and tells that cancellation from every other."""

import asyncio


class Scope:
    """Made by the task whose body it can end. Works like asyncio.timeout(), with a trigger of one's own."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a lease is held by a task"
        self._task = task
        self._cancelling_before = task.cancelling()
        self._cancelled = False
        self._over = False

    def cancel(self) -> None:
        """Cancels the body unless it is over; safe to repeat."""
        if not self._cancelled and not self._over:
            self._cancelled = True
            self._task.cancel()

    async def close(self, error: BaseException | None) -> bool:
        """The body is over, by `error` if any. True when that is our own cancellation, which ends here."""
        self._over = True
        if not self._cancelled:
            return False
        ours = self._task.uncancel() <= self._cancelling_before
        if not isinstance(error, asyncio.CancelledError):
            # The body ended before the cancellation reached it: take it here, so that it reaches nobody else.
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not ours:
                    raise
        return ours and isinstance(error, asyncio.CancelledError)
