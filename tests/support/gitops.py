"""What Argo CD and Flux do to a cluster with manifests from Git, as an account of their own.

Flux's step before an apply is that of kustomize-controller 1.10: it makes the fields of every manager whose name begins
with `kubectl` its own, so that its apply removes them, except on objects with the policy Merge.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.api import APPLY, Answer
from support.cluster import Identity

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "gitops"
PLURALS = {"WorkLease": "workleases", "Handoff": "handoffs"}
POLICY = "kustomize.toolkit.fluxcd.io/ssa"

Manifest = dict[str, Any]


def example(name: str) -> Manifest:
    """The one object in a file of examples/gitops."""
    (manifest,) = yaml.safe_load_all((EXAMPLES / name).read_text())
    return dict(manifest)


@dataclass
class Tool:
    """One of them: applies what is in Git by server-side apply, by force, and prunes what is not there any more."""

    identity: Identity
    namespace: str
    git: dict[str, Manifest] = field(default_factory=dict)
    applied: dict[str, str] = field(default_factory=dict)
    manager = ""

    def commit(self, *manifests: Manifest) -> None:
        """Put them into Git, in place of those of the same kind and name."""
        for manifest in manifests:
            self.git[self._path(manifest)] = copy.deepcopy(manifest)

    def remove(self, manifest: Manifest) -> None:
        """Take it out of Git."""
        del self.git[self._path(manifest)]

    def sync(self) -> dict[str, Answer]:
        """Apply everything and prune; the answers by path."""
        answers = {path: self.apply(path, manifest) for path, manifest in self.git.items()}
        for path in [path for path in self.applied if path not in self.git]:
            answers[path] = self.identity.api.delete(path)
            if answers[path].ok:
                del self.applied[path]
        self.applied |= {path: "" for path in self.git if answers[path].ok}
        return answers

    def must_sync(self) -> None:
        """The same; fails when anything is refused."""
        for answer in self.sync().values():
            answer.must()

    def apply(self, path: str, manifest: Manifest, **parameters: str) -> Answer:
        """Apply one object."""
        marked = self.marked(manifest)
        return self.identity.api.patch(path, marked, APPLY, fieldManager=self.manager, force="true", **parameters)

    def marked(self, manifest: Manifest) -> Manifest:
        """The object with what the tool adds to know it again."""
        raise NotImplementedError

    def _path(self, manifest: Manifest) -> str:
        plural = PLURALS[manifest["kind"]]
        return f"/apis/worklease.dev/v1alpha1/namespaces/{self.namespace}/{plural}/{manifest['metadata']['name']}"


class ArgoCD(Tool):
    """Argo CD with ServerSideApply=true, automated sync, pruning and self-heal."""

    manager = "argocd-controller"

    def marked(self, manifest: Manifest) -> Manifest:
        marked = copy.deepcopy(manifest)
        identifier = f"billing-work:worklease.dev/{marked['kind']}:{self.namespace}/{marked['metadata']['name']}"
        marked["metadata"].setdefault("annotations", {})["argocd.argoproj.io/tracking-id"] = identifier
        return marked


class Flux(Tool):
    """Flux's kustomize-controller with prune: true."""

    manager = "kustomize-controller"

    def marked(self, manifest: Manifest) -> Manifest:
        marked = copy.deepcopy(manifest)
        labels = {"name": "billing-work", "namespace": self.namespace}
        marked["metadata"]["labels"] = {f"kustomize.toolkit.fluxcd.io/{key}": value for key, value in labels.items()}
        return marked

    def apply(self, path: str, manifest: Manifest, **parameters: str) -> Answer:
        dry = super().apply(path, manifest, dryRun="All")
        if not dry.ok:
            return dry
        stored = self.identity.api.get(path)
        if stored.ok and manifest["metadata"].get("annotations", {}).get(POLICY) != "Merge":
            taken = taken_over(stored.body["metadata"].get("managedFields", []), self.manager)
            if taken is not None:
                replaced = [{"op": "replace", "path": "/metadata/managedFields", "value": taken}]
                self.identity.api.patch(path, replaced, fieldManager=self.manager).must()
        return super().apply(path, manifest, **parameters)


def taken_over(entries: list[dict[str, Any]], manager: str) -> list[dict[str, Any]] | None:
    """managedFields once those of kubectl's managers are this one's; None when there are none."""
    own = next((e for e in entries if e["manager"] == manager and e["operation"] == "Apply"), None)
    disallowed = [e for e in entries if e is not own and e["manager"].startswith("kubectl") and "subresource" not in e]
    if not disallowed:
        return None
    merged = copy.deepcopy(own or {**disallowed[0], "manager": manager, "operation": "Apply"})
    for entry in disallowed:
        _merge(merged["fieldsV1"], entry["fieldsV1"])
    return [e for e in entries if e is not own and e not in disallowed] + [merged]


def _merge(into: dict[str, Any], fields: dict[str, Any]) -> None:
    for key, value in fields.items():
        _merge(into.setdefault(key, {}), value)
