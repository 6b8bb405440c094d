"""The compare-and-swap of a status, and reading what it is compared with."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from worklease.api.group import API_VERSION, GROUP, VERSION
from worklease.api.handoff import Handoff, HandoffStatus
from worklease.api.worklease import WorkLease, WorkLeaseStatus
from worklease.errors import Conflict, Refused
from worklease.kube.session import JSON_PATCH, Session

TEST_FAILED = "the server rejected our request"
PAGE = 500
# What a decision reads of spec, apart from the effects and the checkpoint, which only go into its history.
_READ = (
    "claim",
    "revocation",
    "release",
    "completion",
    "renewal",
    "suspend",
    "leaseDurationSeconds",
    "jeopardyDurationSeconds",
)


def path_of(namespace: str, name: str = "", *, plural: str = "workleases") -> str:
    """The URL path of a collection or of one object; all namespaces when `namespace` is empty."""
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{GROUP}/{VERSION}{scope}/{plural}" + (f"/{name}" if name else "")


async def read(session: Session, namespace: str, name: str, *, plural: str = "workleases") -> dict[str, Any]:
    """The object as it is stored now. Raises NotFound."""
    return (await session.request("GET", path_of(namespace, name, plural=plural))).body


async def read_all(session: Session, namespace: str = "", *, plural: str = "workleases") -> list[dict[str, Any]]:
    """Every object of a kind (in a namespace), as of one moment."""
    return (await read_list(session, namespace, plural=plural))[0]


async def read_list(
    session: Session, namespace: str = "", *, plural: str = "workleases", field_selector: str = ""
) -> tuple[list[dict[str, Any]], str]:
    """The objects that are selected, and the resourceVersion as of which they are so."""
    items: list[dict[str, Any]] = []
    as_of = ""
    async for page, version in read_pages(session, namespace, plural=plural, field_selector=field_selector):
        items += page
        as_of = version
    return items, as_of


async def read_pages(
    session: Session, namespace: str = "", *, plural: str = "workleases", field_selector: str = ""
) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
    """The same page by page: no more than one of them takes memory. Raises ApiError, 410 when it took too long."""
    selecting = {"limit": PAGE, **({"fieldSelector": field_selector} if field_selector else {})}
    token = ""
    while True:
        query = urlencode({**selecting, **({"continue": token} if token else {})})
        path = f"{path_of(namespace, plural=plural)}?{query}"
        page = (await session.request("GET", path, timeout_seconds=30.0)).body
        metadata = page.get("metadata") or {}
        yield page.get("items") or [], str(metadata.get("resourceVersion") or "")
        token = metadata.get("continue") or ""
        if not token:
            return


async def swap(
    session: Session, stored: WorkLease | Handoff, status: WorkLeaseStatus | HandoffStatus
) -> dict[str, Any]:
    """Write `status` if the object is still the one that was read. Raises Conflict otherwise, NotFound if gone."""
    metadata = stored.metadata
    body = {
        "apiVersion": API_VERSION,
        "kind": type(stored).__name__,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        },
        "status": status.manifest(),
    }
    path = path_of(metadata.namespace, metadata.name, plural=f"{type(stored).__name__.lower()}s")
    return (await session.request("PUT", f"{path}/status", body)).body


async def swap_tested(
    session: Session, lease: WorkLease, raw: dict[str, Any], status: WorkLeaseStatus
) -> dict[str, Any]:
    """Write `status` if all that the decision read is as it was in `raw`, whatever else was written in the meantime.

    A writer that hammers the object cannot keep this from succeeding. Raises Conflict, NotFound like swap().
    """
    spec = raw.get("spec") or {}
    tests: list[tuple[str, Any]] = [
        ("/metadata/uid", lease.metadata.uid),
        ("/metadata/deletionTimestamp", lease.metadata.deletion_timestamp),
        ("/status", raw.get("status")),
        *((f"/spec/{name}", spec.get(name)) for name in _READ),
    ]
    patch: list[dict[str, Any]] = [{"op": "test", "path": path, "value": value} for path, value in tests]
    patch.append({"op": "add", "path": "/status", "value": status.manifest()})
    return await patch_status(session, lease.metadata.namespace, lease.metadata.name, patch)


async def patch_status(session: Session, namespace: str, name: str, patch: list[dict[str, Any]]) -> dict[str, Any]:
    """Apply a JSON patch to /status. Raises Conflict when one of its tests fails, NotFound if the object is gone."""
    path = path_of(namespace, name) + "/status"
    try:
        return (await session.request("PATCH", path, patch, content_type=JSON_PATCH)).body
    except Refused as refusal:
        if refusal.status == 422 and TEST_FAILED in str(refusal):
            raise Conflict(str(refusal), status=refusal.status, reason=refusal.reason) from refusal
        raise
