"""The clock by which a holder times its lease: it never goes back, and it goes on while the machine sleeps."""

import sys
import time
from collections.abc import Callable

Clock = Callable[[], float]

# On Linux CLOCK_MONOTONIC stands still during suspend; on macOS it is the one that does not.
_CLOCK_ID = time.CLOCK_MONOTONIC if sys.platform == "darwin" else getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_seconds() -> float:
    """Seconds since some fixed moment of this boot, time asleep included."""
    return time.clock_gettime(_CLOCK_ID)
