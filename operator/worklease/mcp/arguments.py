"""What each tool is called with: every field bounded and described, so that the schema says what an agent may ask."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from worklease.api.fields import Digest, Identifier, Instance, ObjectName, Uri, Username

WAIT_MAX_SECONDS = 300
NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
KEY = rf"^([a-z0-9]([-a-z0-9]{{0,61}}[a-z0-9])?/)?{NAME}$"
LINE = r"^[^\x00-\x1f\x7f]*$"

WorkName = Annotated[
    str, Field(max_length=317, pattern=KEY, description="The work item: NAME, or NAMESPACE/NAME in another namespace.")
]
HandoffName = Annotated[
    str, Field(max_length=317, pattern=KEY, description="The handoff: NAMESPACE/NAME as the inbox or the offer has it.")
]
WhyNot = Annotated[str, Field(min_length=1, max_length=1024, pattern=LINE, description="Why, in one line, for others.")]
Detail = Annotated[
    str, Field(max_length=1024, pattern=LINE, description="What is worth keeping about the outcome, in one line.")
]
EffectId = Annotated[Identifier, Field(description="The id that begin_effect returned, or that unreconciled lists.")]


class Arguments(BaseModel):
    """The arguments of a tool; one that it does not know is a mistake, not a hint."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OnWork(Arguments):
    """About one work item."""

    work: WorkName


class ClaimArguments(OnWork):
    """Which work, what for, and how long to wait."""

    purpose: Annotated[
        str, Field(min_length=1, max_length=1024, pattern=LINE, description="What you are going to do, in one line.")
    ]
    wait_seconds: Annotated[
        int,
        Field(ge=0, le=WAIT_MAX_SECONDS, description="How long to wait for the work to become free; 0: not at all."),
    ] = 0
    create: Annotated[bool, Field(description="Create the work item when there is none.")] = False
    lease_seconds: Annotated[
        int | None, Field(ge=10, le=86400, description="The lease's duration of a work item that is created.")
    ] = None
    jeopardy_seconds: Annotated[
        int | None, Field(ge=0, le=3600, description="The grace after a lapse of a work item that is created.")
    ] = None
    resume_claim_id: Annotated[
        Identifier | None,
        Field(description="Go on with your own tenure of an earlier session: the claim_id that it was granted under."),
    ] = None


class ReclaimArguments(OnWork):
    """What for, from now on."""

    purpose: Annotated[
        str | None,
        Field(min_length=1, max_length=1024, pattern=LINE, description="What you will do. Default: as before."),
    ] = None


class ReleaseArguments(OnWork):
    """Why it is given back."""

    reason: WhyNot


class CheckpointArguments(OnWork):
    """Where the work stands."""

    uri: Annotated[Uri, Field(description="Where the checkpoint is stored.")]
    digest: Annotated[Digest, Field(description="What identifies its content, such as sha256:...")]


class BeginEffectArguments(OnWork):
    """What is about to be done, and to whom."""

    recipient: Annotated[ObjectName, Field(description="The system that receives it, such as payments.")]
    action: Annotated[ObjectName, Field(description="What is done there, such as charge; no spaces.")]
    digest: Annotated[Digest | None, Field(description="What identifies the request's content.")] = None
    id: Annotated[
        Identifier | None, Field(description="An id of your own, to repeat a call whose answer was lost; else made up.")
    ] = None


class FinishEffectArguments(OnWork):
    """What became of an effect that was begun in this session."""

    id: EffectId
    state: Annotated[
        Literal["Succeeded", "Failed", "Unknown"],
        Field(description="Failed only if the recipient certainly did nothing; Unknown when you cannot tell."),
    ]
    detail: Detail = ""


class ReconcileArguments(OnWork):
    """What became of an effect that was left open."""

    id: EffectId
    state: Annotated[
        Literal["Succeeded", "Failed", "Compensated", "Unknown"],
        Field(description="What you found out at the recipient; Unknown when it cannot be found out."),
    ]
    detail: Detail = ""


class CompleteArguments(OnWork):
    """The result."""

    message: Annotated[str, Field(max_length=1024, pattern=LINE, description="The result in one line.")]
    outcome: Annotated[Literal["Succeeded", "Failed"], Field(description="How the work ended.")] = "Succeeded"


class OfferArguments(OnWork):
    """To whom, and what the target needs to know."""

    to: Annotated[Username, Field(description="Who may accept: the Kubernetes username of the target.")]
    to_instance: Annotated[Instance | None, Field(description="Only this process of the target.")] = None
    subject: Annotated[
        str | None, Field(max_length=1024, pattern=LINE, description="What it is about, in one line.")
    ] = None
    message: Annotated[
        str | None,
        Field(
            max_length=4096,
            pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$",
            description="What the target needs to know; no secrets.",
        ),
    ] = None
    context_uri: Annotated[Uri | None, Field(description="Where there is more to know.")] = None
    context_digest: Annotated[Digest | None, Field(description="What identifies the content at context_uri.")] = None
    accept_within_seconds: Annotated[int, Field(ge=1, le=604800, description="How long the target may take.")] = 3600
    claim_within_seconds: Annotated[
        int, Field(ge=1, le=86400, description="How long it stays reserved after that.")
    ] = 300


class InboxArguments(Arguments):
    """Where to look."""

    namespace: Annotated[
        str | None, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="Default: your own.")
    ] = None


class AcceptArguments(Arguments):
    """Which offer, and what for."""

    handoff: HandoffName
    purpose: Annotated[
        str | None,
        Field(
            min_length=1, max_length=1024, pattern=LINE, description="What you are going to do. Default: the subject."
        ),
    ] = None
    reason: Annotated[str, Field(max_length=1024, pattern=LINE, description="A line for the sender.")] = ""


class AnswerArguments(Arguments):
    """Which offer, and why not."""

    handoff: HandoffName
    reason: WhyNot


class EndArguments(OnWork):
    """Why an administrator ends a tenure."""

    reason: WhyNot
    suspend: Annotated[bool, Field(description="Also close admission, so that nobody claims it before resume.")] = False


class TakeoverArguments(EndArguments):
    """Why, and what for."""

    purpose: Annotated[
        str | None,
        Field(
            min_length=1, max_length=1024, pattern=LINE, description="What you are going to do. Default: the reason."
        ),
    ] = None
