"""worklease: a lease on work, not ownership of it, for agents on Kubernetes.

Everything named in __all__ is loaded when it is first used, so that importing this stays cheap.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worklease.api.statements import EffectState, Outcome
    from worklease.client import blocking
    from worklease.client.client import Client, hold, inbox
    from worklease.client.clock import boot_seconds
    from worklease.client.handoffs import Offer
    from worklease.client.holding import LostReason
    from worklease.client.lease import Lease
    from worklease.client.timing import Standing
    from worklease.errors import (
        ApiError,
        ClaimRefused,
        ClaimUndecided,
        EffectFailed,
        EffectsUnreconciled,
        HandoffOver,
        LeaseError,
        LeaseInJeopardy,
        LeaseLost,
        NoSuchWork,
        NotPermitted,
        StatementRefused,
        WaitedTooLong,
        WorkIsComplete,
        WorkIsLeased,
        WorkIsReserved,
        WorkIsSuspended,
        WorkleaseError,
    )
    from worklease.kube.credentials import Source

__version__ = "0.1.0"

_HOMES = {
    "worklease.api.statements": ("EffectState", "Outcome"),
    "worklease.client.client": ("Client", "hold", "inbox"),
    "worklease.client.clock": ("boot_seconds",),
    "worklease.client.handoffs": ("Offer",),
    "worklease.client.holding": ("LostReason",),
    "worklease.client.lease": ("Lease",),
    "worklease.client.timing": ("Standing",),
    "worklease.errors": (
        "ApiError",
        "ClaimRefused",
        "ClaimUndecided",
        "EffectFailed",
        "EffectsUnreconciled",
        "HandoffOver",
        "LeaseError",
        "LeaseInJeopardy",
        "LeaseLost",
        "NoSuchWork",
        "NotPermitted",
        "StatementRefused",
        "WaitedTooLong",
        "WorkIsComplete",
        "WorkIsLeased",
        "WorkIsReserved",
        "WorkIsSuspended",
        "WorkleaseError",
    ),
    "worklease.kube.credentials": ("Source",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ApiError",
    "ClaimRefused",
    "ClaimUndecided",
    "Client",
    "EffectFailed",
    "EffectState",
    "EffectsUnreconciled",
    "HandoffOver",
    "Lease",
    "LeaseError",
    "LeaseInJeopardy",
    "LeaseLost",
    "LostReason",
    "NoSuchWork",
    "NotPermitted",
    "Offer",
    "Outcome",
    "Source",
    "Standing",
    "StatementRefused",
    "WaitedTooLong",
    "WorkIsComplete",
    "WorkIsLeased",
    "WorkIsReserved",
    "WorkIsSuspended",
    "WorkleaseError",
    "blocking",
    "boot_seconds",
    "hold",
    "inbox",
]


def __getattr__(name: str) -> Any:
    if name == "blocking":
        return importlib.import_module("worklease.client.blocking")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
