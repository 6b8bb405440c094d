"""Every reason that status, conditions, Events, logs and metrics give, as constants with when they occur."""

from enum import StrEnum


class GrantReason(StrEnum):
    """Why a claim was granted: status.grantReason and history[].grantReason."""

    FIRST_GRANT = "FirstGrant"
    """Nobody had held the work."""
    AFTER_RELEASE = "AfterRelease"
    """The last holder gave it back, or its tenure is only known from a restored object."""
    AFTER_EXPIRY = "AfterExpiry"
    """The last holder did not renew in time."""
    AFTER_REVOCATION = "AfterRevocation"
    """The last tenure was revoked; the message is the revocation's reason. With both in one write: a takeover."""
    RECLAIM = "Reclaim"
    """The holder claimed again while it held, for a fresh epoch."""
    HANDOFF = "Handoff"
    """The target of an accepted handoff claimed; the message names it."""


class EndReason(StrEnum):
    """Why a tenure ended: history[].endReason."""

    COMPLETED = "Completed"
    """The holder declared the work done."""
    REVOKED = "Revoked"
    """An administrator ended it, also in the same moment as its holder completed it."""
    RELEASED = "Released"
    """The holder gave the work back."""
    EXPIRED = "Expired"
    """No renewal was seen within the lease's duration and its jeopardy."""
    RECLAIMED = "Reclaimed"
    """The holder went on under a new epoch."""
    HANDED_OVER = "HandedOver"
    """The target of an accepted handoff went on under a new epoch."""
    ADOPTED = "Adopted"
    """Status was lost or restored; the epoch is the highest that the statements mention."""


class RefusalReason(StrEnum):
    """Why the operator refused a claim that the API server had admitted."""

    WORK_COMPLETE = "WorkComplete"
    """The work was completed in the meantime."""
    WORK_LEASED = "WorkLeased"
    """Somebody else holds the work."""
    WORK_RESERVED = "WorkReserved"
    """The work is reserved for the target of a handoff."""


class StallReason(StrEnum):
    """Why the operator cannot grant: the reason of condition Stalled."""

    EPOCH_FLOOR_TOO_LOW = "EpochFloorTooLow"
    """The store's revision is not above an epoch given out before: an older backup of the store was restored."""
    EPOCH_FLOOR_TOO_HIGH = "EpochFloorTooHigh"
    """The next epoch would be larger than a statement may name."""
    UNREADABLE = "Unreadable"
    """The object does not fit the schema that this operator knows."""


class ConditionName(StrEnum):
    """The types in status.conditions."""

    CLAIMABLE = "Claimable"
    """True when a claim by anybody would be admitted: what a waiter waits for."""
    HELD = "Held"
    """True while the holder may cause effects."""
    JEOPARDY = "Jeopardy"
    """True while the lease has lapsed and nobody else may have the work yet."""
    EXPIRED = "Expired"
    """True when the last tenure ended for want of a renewal."""
    EFFECTS_RECONCILED = "EffectsReconciled"
    """False when an effect is Attempted or Unknown; of work that is held, when one was at the last transition."""
    STALLED = "Stalled"
    """True while the operator cannot act on this object; present only then and after."""
    CLOCK_SKEW = "ClockSkew"
    """True when the holder's renewTime was far from the server's time; present only then and after."""


class ConditionReason(StrEnum):
    """The reasons of conditions that are not also the reason of something else."""

    FREE = "Free"
    """Claimable: nobody holds the work."""
    DELETING = "Deleting"
    """Not Claimable: the object is being deleted."""
    STALLED = "Stalled"
    """Not Claimable: the operator cannot grant, as condition Stalled explains."""
    SUSPENDED = "Suspended"
    """Not Claimable: spec.suspend is true."""
    HELD = "Held"
    """Not Claimable: somebody holds the work."""
    RESERVED = "Reserved"
    """Not Claimable: for everybody but the target of a handoff."""
    RECONCILED = "Reconciled"
    """No effect is Attempted or Unknown."""
    UNRECONCILED = "Unreconciled"
    """An effect is Attempted or Unknown."""
    RENEW_TIME_FAR_OFF = "RenewTimeFarOff"
    """The last renewal's renewTime is further from the server's time than a clock should be."""
    AS_EXPECTED = "AsExpected"
    """Nothing is wrong any more."""


class StaleReason(StrEnum):
    """Why a handoff is Stale: in the message of its condition Ready."""

    NOT_THE_HOLDER = "NotTheHolder"
    """Its sender does not hold the tenure that it offers."""
    EPOCH_MOVED = "EpochMoved"
    """The work is under another epoch than the one that is offered."""
    TENURE_ENDED = "TenureEnded"
    """The tenure that is offered was released, revoked or completed."""
    ALREADY_THE_HOLDER = "AlreadyTheHolder"
    """Its target holds the work already."""
    ANOTHER_ACCEPTED = "AnotherAccepted"
    """Another handoff of the same tenure was accepted first."""


class HandoffConditionName(StrEnum):
    """The types in a handoff's status.conditions."""

    READY = "Ready"
    """Always True, with the phase as its reason: a handoff that waits is not broken."""
    CHECKPOINT_MOVED = "CheckpointMoved"
    """True when the work's checkpoint is not the one that was offered; present only for an offer with one."""
    WORK_LEASE_MISSING = "WorkLeaseMissing"
    """True while there is no such WorkLease; present only then and after."""


class HandoffConditionReason(StrEnum):
    """The reasons of a handoff's conditions; that of Ready is the phase."""

    AS_OFFERED = "AsOffered"
    """The work's checkpoint is the one that was offered."""
    MOVED = "Moved"
    """The work's checkpoint is another than the one that was offered."""
    MISSING = "Missing"
    """There is no WorkLease of that name in the namespace."""
    FOUND = "Found"
    """There is one now."""


class EventReason(StrEnum):
    """The reasons of Events about a WorkLease."""

    GRANTED = "Granted"
    """A claim was granted."""
    CLAIM_REFUSED = "ClaimRefused"
    """A claim that the API server had admitted was refused."""
    JEOPARDY = "Jeopardy"
    """The lease has lapsed."""
    RENEWED = "Renewed"
    """Renewed in jeopardy: held again."""
    EXPIRED = "Expired"
    """The tenure ended for want of a renewal."""
    RELEASED = "Released"
    """The holder gave the work back."""
    REVOKED = "Revoked"
    """An administrator ended the tenure, or reopened the work."""
    COMPLETED = "Completed"
    """The holder declared the work done."""
    ADOPTED = "Adopted"
    """Status was lost or restored; the operator went on from the highest epoch that is mentioned."""
    RESERVED = "Reserved"
    """An accepted handoff took effect: the work is reserved for its target."""
    RESERVATION_ENDED = "ReservationEnded"
    """The target of an accepted handoff did not claim in time, or the reservation was revoked."""
    STALLED = "Stalled"
    """The operator cannot act on this object: condition Stalled says why."""
