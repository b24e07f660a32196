"""Objects of Kubernetes as documents: what Muster installs carries one label. Pure.

Kinds of objects that admission policies and webhooks are about.

Which object of the cluster is meant, and where the API server serves it. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from queues.api.names import (
    BATCH,
    BATCH_VOLCANO,
    CORE,
    PART_OF_LABEL,
    SCHEDULING_VOLCANO,
    TOPOLOGY_VOLCANO,
)

Document = dict[str, Any]

#: On everything that ``muster install`` applies, so that ``muster uninstall`` finds it again.
PART_OF: Final = {PART_OF_LABEL: "muster"}

_PLURALS: Final = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}


def path_of(document: Document) -> str:
    """Where the API server has it."""
    version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
    parts = ["/apis" if "/" in version else "/api", version]
    if metadata.get("namespace"):
        parts += ["namespaces", metadata["namespace"]]
    return "/".join([*parts, _PLURALS.get(kind, f"{kind.lower()}s"), metadata["name"]])


def named(document: Document) -> str:
    """``clusterrole/muster``, as kubectl names it."""
    return f"{document['kind'].lower()}/{document['metadata']['name']}"


@dataclass(frozen=True, slots=True)
class MatchedKind:
    """A resource that a policy is about."""

    group: str
    version: str
    resource: str

    def rule(self, operations: Sequence[str]) -> Document:
        """The matchConstraints' rule for it."""
        return {
            "apiGroups": [self.group],
            "apiVersions": [self.version],
            "resources": [self.resource],
            "operations": list(operations),
        }


def kind_at(api_version: str, resource: str) -> MatchedKind:
    """The resource of an ``apiVersion``."""
    group, _, version = api_version.rpartition("/")
    return MatchedKind(group, version, resource)


POD: Final = kind_at(CORE, "pods")

JOB: Final = kind_at(BATCH, "jobs")

VCJOB: Final = kind_at(BATCH_VOLCANO, "jobs")

POD_GROUP: Final = kind_at(SCHEDULING_VOLCANO, "podgroups")

QUEUE: Final = kind_at(SCHEDULING_VOLCANO, "queues")

HYPERNODE: Final = kind_at(TOPOLOGY_VOLCANO, "hypernodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """One object of the cluster."""

    api_version: str
    kind: str
    plural: str
    #: "" for cluster-scoped ones.
    namespace: str = ""
    name: str
    uid: str

    @property
    def path(self) -> str:
        """Where the API server serves it."""
        root = "/api/" if "/" not in self.api_version else "/apis/"
        within = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}{self.api_version}{within}/{self.plural}/{self.name}"


def volcano_job(namespace: str, name: str, uid: str) -> ObjectRef:
    """A Volcano Job."""
    return ObjectRef(
        api_version=BATCH_VOLCANO, kind="Job", plural="jobs", namespace=namespace, name=name, uid=uid
    )


def batch_job(namespace: str, name: str, uid: str) -> ObjectRef:
    """A batch/v1 Job."""
    return ObjectRef(api_version=BATCH, kind="Job", plural="jobs", namespace=namespace, name=name, uid=uid)


def pod_group(namespace: str, name: str, uid: str) -> ObjectRef:
    """A PodGroup."""
    return ObjectRef(
        api_version=SCHEDULING_VOLCANO,
        kind="PodGroup",
        plural="podgroups",
        namespace=namespace,
        name=name,
        uid=uid,
    )


def bare_pod(namespace: str, name: str, uid: str) -> ObjectRef:
    """A pod."""
    return ObjectRef(api_version=CORE, kind="Pod", plural="pods", namespace=namespace, name=name, uid=uid)


def queue_object(name: str, uid: str) -> ObjectRef:
    """A Queue."""
    return ObjectRef(api_version=SCHEDULING_VOLCANO, kind="Queue", plural="queues", name=name, uid=uid)


def hypernode(name: str, uid: str) -> ObjectRef:
    """A HyperNode."""
    return ObjectRef(api_version=TOPOLOGY_VOLCANO, kind="HyperNode", plural="hypernodes", name=name, uid=uid)
