"""What the operator needs of the cluster: a version, both kinds and its role. Says in one sentence which is missing.

Asked at the start, after every outage and once a minute (every N minutes for N namespaces); every few seconds
while something is missing. It costs an event nothing, and stops nothing: the operator goes on doing what it can.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import Sequence
from typing import Any

from worklease.api.group import API_VERSION, GROUP
from worklease.api.roles import HANDOFFS, OPERATOR, WORK, operator_rules
from worklease.errors import ApiError, NotFound
from worklease.kube.credentials import Credentials
from worklease.kube.session import Answer, Session

logger = logging.getLogger(__name__)

OLDEST = (1, 32)
"""From here on custom resources have field selectors, and CEL has every function that the rules use."""
MISSING_SECONDS = 3.0
PRESENT_SECONDS = 60.0
COMPLAIN_EVERY = 20
"""While it stays the same, a sentence is logged each time that it has been found so often: about once a minute."""
ANSWER_SECONDS = 3.0
NOT_ASKED = "the API server has not been asked yet what it has"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SERVED = (WORK, f"{WORK}/status", HANDOFFS, f"{HANDOFFS}/status")


class Requirements:
    """Keeps asking the API server what it has and what it permits."""

    def __init__(self, credentials: Credentials, namespaces: Sequence[str], *, user_agent: str) -> None:
        # A session of its own: none of these answers shows that the store works, which the operator's session tells.
        self._session = Session(credentials, user_agent=user_agent)
        self._namespaces = namespaces or ("",)
        self._again = asyncio.Event()
        self._found_so_often = 0
        self.trouble: str | None = NOT_ASKED
        """What is missing; None when nothing is known to be."""

    async def keep(self) -> None:
        """Ask for as long as the operator runs."""
        async with self._session:
            while True:
                self._again.clear()
                self._tell(await self._missing())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(
                        MISSING_SECONDS if self.trouble else PRESENT_SECONDS * len(self._namespaces)
                    ):
                        await self._again.wait()

    def ask_again(self) -> None:
        """The API server was away, and may be another one now."""
        self._again.set()

    def _tell(self, missing: str | None) -> None:
        if missing != self.trouble:
            self._found_so_often = 0
            if missing is None and self.trouble != NOT_ASKED:
                logger.info("what was missing is there now (%s)", self.trouble)
        if missing is not None:
            if self._found_so_often % COMPLAIN_EVERY == 0:
                logger.warning("%s", missing)
            self._found_so_often += 1
        self.trouble = missing

    async def _missing(self) -> str | None:
        """What cannot be found out is neither said to be missing nor to be there again."""
        unknown = False
        for check in (self._version, self._kinds, self._permissions):
            try:
                if (missing := await check()) is not None:
                    return missing
            except ApiError:  # others notice a server that does not answer
                unknown = True
        return self.trouble if unknown and self.trouble != NOT_ASKED else None

    async def _version(self) -> str | None:
        return too_old((await self._ask("GET", "/version")).body)

    async def _kinds(self) -> str | None:
        try:
            answer = await self._ask("GET", f"/apis/{API_VERSION}")
        except NotFound:
            served = set()
        else:
            served = {str(one.get("name")) for one in answer.body.get("resources") or []}
        lacking = [f"{name}.{GROUP}" for name in SERVED if name not in served]
        return f"the API server does not serve {', '.join(lacking)}: install the CRDs" if lacking else None

    async def _permissions(self) -> str | None:
        for namespace in self._namespaces:
            denied = [
                f"{', '.join(verbs)} {resource}.{group}"
                for group, resource, asked in _needed()
                if (verbs := [verb for verb in asked if not await self._may(namespace, group, resource, verb)])
            ]
            if denied:
                where = f"namespace {namespace}" if namespace else "all namespaces"
                return (
                    f"the operator may not {'; '.join(denied)} in {where}: give its account the ClusterRole {OPERATOR} "
                    "of the chart"
                )
        return None

    async def _ask(self, method: str, path: str, body: Any = None) -> Answer:
        return await self._session.request(method, path, body, timeout_seconds=ANSWER_SECONDS)

    async def _may(self, namespace: str, group: str, resource: str, verb: str) -> bool:
        name, _, subresource = resource.partition("/")
        attributes = {"namespace": namespace, "group": group, "resource": name, "subresource": subresource}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        answer = await self._ask(
            "POST", REVIEWS, {**review, "spec": {"resourceAttributes": {**attributes, "verb": verb}}}
        )
        return bool((answer.body.get("status") or {}).get("allowed", True))


def _needed() -> list[tuple[str, str, list[str]]]:
    return [
        (group, resource, rule["verbs"])
        for rule in operator_rules()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]


def too_old(version: dict[str, Any]) -> str | None:
    """What an answer to GET /version comes to; one that cannot be read is taken for new enough."""
    major, minor = (re.match(r"\d{1,6}", str(version.get(part) or "")) for part in ("major", "minor"))
    if major is None or minor is None or (int(major[0]), int(minor[0])) >= OLDEST:
        return None
    is_ = str(version.get("gitVersion") or f"{major[0]}.{minor[0]}")[:64]
    return f"the API server is Kubernetes {is_}, and worklease needs {OLDEST[0]}.{OLDEST[1]} or newer: upgrade it"
