"""Operators of other projects, played: their definitions without schemas, and what each would make of its objects."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from deploy.local.client import LocalClient
from queues.api.api_resources import ApiResource
from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.sandbox import Sandbox

#: Seconds between two looks of an operator.
_PERIOD = 0.1


def definition(resource: ApiResource) -> Document:
    """A definition that accepts everything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            # Groups that end in k8s.io are asked for it.
            "annotations": {"api-approved.kubernetes.io": "unapproved, of another project"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "listKind": f"{resource.kind}List",
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


class Template(NamedTuple):
    """So many pods of a template."""

    name: str
    count: int
    template: Mapping[str, Any]


def value_at(document: Mapping[str, Any], fields: Sequence[str], default: Any = None) -> Any:
    """The value at a place of a document."""
    found: Any = document
    for field in fields:
        found = found.get(field) if isinstance(found, Mapping) else None
    return default if found is None else found


class Operator:
    """Makes the pods of objects that are not suspended, and deletes those of objects that are."""

    def __init__(
        self,
        sandbox: Sandbox,
        kind: str,
        templates: Callable[[Document], list[Template]],
        *,
        suspend: Sequence[str] = ("spec", "suspend"),
    ) -> None:
        self._sandbox, self._kind = sandbox, kind
        self._templates, self._suspend = templates, suspend
        self._stopped = threading.Event()
        self.failures: list[str] = []

    @contextmanager
    def playing(self) -> Iterator[None]:
        """While the test goes on; its objects are deleted afterwards."""
        thread = threading.Thread(target=self._play, name=f"operator of {self._kind}")
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()
            for each in self._sandbox.api.get(path(self._kind, self._sandbox.name))["items"]:
                self._sandbox.delete(self._kind, each["metadata"]["name"])
        assert not self.failures

    def _play(self) -> None:
        with self._sandbox.stack.cluster.client() as api:
            while not self._stopped.wait(_PERIOD):
                for document in api.get(path(self._kind, self._sandbox.name))["items"]:
                    self._reconcile(api, document)

    def _reconcile(self, api: LocalClient, document: Document) -> None:
        name = document["metadata"]["name"]
        wanted = {
            f"{name}-{each.name}-{index}": each.template
            for each in self._templates(document)
            for index in range(each.count)
        }
        if value_at(document, self._suspend, False) or "deletionTimestamp" in document["metadata"]:
            wanted = {}
        own = [
            pod
            for pod in api.get(path("Pod", self._sandbox.name))["items"]
            if any(
                owner["uid"] == document["metadata"]["uid"]
                for owner in pod["metadata"].get("ownerReferences", ())
            )
        ]
        for pod in own:
            if pod["metadata"]["name"] not in wanted and "deletionTimestamp" not in pod["metadata"]:
                self._delete(api, str(pod["metadata"]["name"]))
        there = {pod["metadata"]["name"] for pod in own}
        for pod_name, template in wanted.items():
            if pod_name not in there:
                self._create(api, document, pod_name, template)

    def _delete(self, api: LocalClient, name: str) -> None:
        try:
            api.delete(path("Pod", self._sandbox.name, name))
        except ApiError as error:
            if error.facts["status"] != 404:
                self.failures.append(str(error))

    def _create(self, api: LocalClient, document: Document, name: str, template: Mapping[str, Any]) -> None:
        owner = {
            "apiVersion": document["apiVersion"],
            "kind": document["kind"],
            "name": document["metadata"]["name"],
            "uid": document["metadata"]["uid"],
            "controller": True,
        }
        metadata = {**template.get("metadata", {}), "name": name, "ownerReferences": [owner]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        try:
            api.create(path("Pod", self._sandbox.name), pod)
        except ApiError as error:
            if error.facts["status"] not in (409, 404):
                self.failures.append(str(error))


class TrainJobOperator(Operator):
    """Makes a JobSet of each TrainJob: labelled as the patches of its runtime say, and suspended like the TrainJob.

    As the real one it applies the JobSet again as long as one of the two is suspended, and leaves it alone otherwise.
    """

    def __init__(self, sandbox: Sandbox, template: Document) -> None:
        super().__init__(sandbox, "TrainJob", lambda document: [])
        self._template = template

    def _reconcile(self, api: LocalClient, document: Document) -> None:
        meta, spec = document["metadata"], document["spec"]
        at = path("JobSet", self._sandbox.name, meta["name"])
        there = [
            each
            for each in api.get(path("JobSet", self._sandbox.name))["items"]
            if each["metadata"]["name"] == meta["name"]
        ]
        if any(not (spec.get("suspend") or each["spec"].get("suspend")) for each in there):
            return
        if "deletionTimestamp" in meta:
            return
        labels: dict[str, str] = {}
        for each in spec.get("runtimePatches", ()):
            labels |= value_at(each, ("trainingRuntimeSpec", "template", "metadata", "labels"), {})
        owner = {
            "apiVersion": document["apiVersion"],
            "kind": "TrainJob",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
        job_set = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": meta["name"], "labels": labels, "ownerReferences": [owner]},
            "spec": {
                "replicatedJobs": self._template["replicatedJobs"],
                "suspend": spec.get("suspend", False),
            },
        }
        try:
            api.request(
                "PATCH",
                at + "?fieldManager=trainer&force=true",
                job_set,
                content_type="application/apply-patch+yaml",
            )
        except ApiError as error:
            self.failures.append(str(error))


class JobSetOperator(Operator):
    """Makes the Jobs of JobSets, suspended like these, as the real one does: resumed, they get the pod templates of the
    JobSet. The job controller makes the pods."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox, "JobSet", lambda document: [])

    def _reconcile(self, api: LocalClient, document: Document) -> None:
        meta, suspend = document["metadata"], document["spec"].get("suspend", False)
        there = {
            each["metadata"]["name"]: each
            for each in api.get(path("batch/v1 Job", self._sandbox.name))["items"]
        }
        owner = {
            "apiVersion": document["apiVersion"],
            "kind": document["kind"],
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
        for replicated in document["spec"]["replicatedJobs"]:
            for number in range(replicated["replicas"]):
                name = f"{meta['name']}-{replicated['name']}-{number}"
                spec = {**replicated["template"]["spec"], "suspend": suspend}
                if (job := there.get(name)) is None:
                    labels = {"jobset.sigs.k8s.io/jobset-name": meta["name"]}
                    metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
                    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
                    self._write(lambda job=job: api.create(path("batch/v1 Job", self._sandbox.name), job))
                elif job["spec"]["suspend"] != suspend and not _has_ended(job):
                    self._resume_or_suspend(api, job, spec)

    def _resume_or_suspend(self, api: LocalClient, job: Document, spec: Document) -> None:
        at = path("batch/v1 Job", self._sandbox.name, job["metadata"]["name"])
        changes: Document = {"suspend": spec["suspend"]}
        if not spec["suspend"]:
            if "startTime" in job["status"]:
                # The template of a Job may change as long as it has not started.
                self._write(lambda: api.merge(f"{at}/status", {"status": {"startTime": None}}))
            changes["template"] = {"metadata": spec["template"]["metadata"]}
        self._write(lambda: api.merge(at, {"spec": changes}))

    def _write(self, write: Callable[[], object]) -> None:
        try:
            write()
        except ApiError as error:
            if error.facts["status"] not in (409, 404):
                self.failures.append(str(error))


def _has_ended(job: Document) -> bool:
    conditions = job["status"].get("conditions", ())
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
