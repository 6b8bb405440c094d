"""Renewals beside the same patch of the same objects under a CRD without any rule: the server's own ceiling."""

from __future__ import annotations

import json
import time
from typing import Any

import yaml

from commands import SetupError
from controlplane.manifests import CRDS
from onecluster import Contexts
from worklease.errors import NotFound
from worklease.kube.session import JSON_PATCH

from .figures import Table, milliseconds, percentile
from .leases import CLIENTS, ROUNDS, per_second, sequential
from .world import World, now

CRD = CRDS / "workleases.yaml"
GROUP, KIND, PLURAL = "ceiling.bench", "Unruled", "unruleds"
RULES = "x-kubernetes-validations"
SERVED_WITHIN_SECONDS = 30.0


async def measured(world: World, contexts: Contexts) -> None:
    """In turns, so that a slow moment hits both."""
    _install(contexts, world.username)
    epochs = await world.hold(CLIENTS, "ruled", leaseDurationSeconds=3600)
    names = list(epochs)
    path = f"/apis/{GROUP}/v1alpha1/namespaces/{world.namespace}/{PLURAL}"
    for name in names:
        await _copy(world, path, await world.read(name))

    async def unruled(name: str) -> None:
        renewal = {"epoch": epochs[name], "renewTime": now()}
        patch = [{"op": "add", "path": "/spec/renewal", "value": renewal}]
        await world.session.request("PATCH", f"{path}/{name}", patch, content_type=JSON_PATCH)

    async def ruled(name: str) -> None:
        await world.renew(name, epochs[name])

    times: dict[str, list[float]] = {"unruled": [], "ruled": []}
    rates: dict[str, list[float]] = {"unruled": [], "ruled": []}
    for _ in range(ROUNDS):
        for which, one in (("unruled", unruled), ("ruled", ruled)):
            times[which] += await sequential(lambda one=one: one(names[0]))  # type: ignore[misc]
            rates[which].append(
                await per_second([lambda one=one, name=name: one(name) for name in names])  # type: ignore[misc]
            )
    table = Table("Renewals beside the same patch without any rule or policy, and without an operator that watches")
    table.row("without, one client, p50 / p99 ms", milliseconds(times["unruled"], 50, 99))
    table.row("WorkLease renewal, one client, p50 / p99 ms", milliseconds(times["ruled"], 50, 99))
    ceiling, renewals = percentile(rates["unruled"], 50), percentile(rates["ruled"], 50)
    table.row(f"without, per second, {CLIENTS} clients", f"{ceiling:.0f}")
    table.row(f"WorkLease renewals per second, {CLIENTS} clients", f"{renewals:.0f}")
    table.row("renewals as a share of the ceiling", f"{renewals / ceiling:.2f}")


def _install(contexts: Contexts, username: str) -> None:
    """The CRD of WorkLease under another name, without its rules, and the right to write such objects."""
    crd = _without_rules(yaml.safe_load(CRD.read_text()))
    crd["metadata"] = {"name": f"{PLURAL}.{GROUP}"}
    crd["spec"]["group"] = GROUP
    crd["spec"]["names"] = {"kind": KIND, "plural": PLURAL, "singular": KIND.lower(), "listKind": f"{KIND}List"}
    manifest = contexts.path.with_suffix(".crd")
    manifest.write_text(json.dumps(crd))
    contexts.kubectl("apply", "--server-side", "-f", str(manifest))
    contexts.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(manifest))
    resources = f"--resource={PLURAL}.{GROUP},{PLURAL}.{GROUP}/status"
    contexts.kubectl("create", "role", "unruled", resources, "--verb=create,get,patch,update")
    contexts.kubectl("create", "rolebinding", "unruled", "--role=unruled", f"--user={username}")


def _without_rules(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _without_rules(value) for key, value in schema.items() if key != RULES}
    return [_without_rules(one) for one in schema] if isinstance(schema, list) else schema


async def _copy(world: World, path: str, work: dict[str, Any]) -> None:
    """The same object, status and all."""
    name = work["metadata"]["name"]
    body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND, "metadata": {"name": name}, "spec": work["spec"]}
    deadline = time.monotonic() + SERVED_WITHIN_SECONDS
    while True:
        try:
            created = (await world.session.request("POST", path, body)).body
            break
        except NotFound as error:
            if time.monotonic() > deadline:
                raise SetupError(f"the API server does not serve {PLURAL}.{GROUP}: {error}") from error
    created["status"] = work["status"]
    await world.session.request("PUT", f"{path}/{name}/status", created)
