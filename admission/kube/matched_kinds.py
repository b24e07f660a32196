"""Kinds of objects that admission policies and webhooks are about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from admission.kube.documents import Document
from queues.spec.names import BATCH, BATCH_VOLCANO, CORE, SCHEDULING_VOLCANO, TOPOLOGY_VOLCANO


@dataclass(frozen=True, slots=True)
class Kind:
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


def kind_at(api_version: str, resource: str) -> Kind:
    """The resource of an ``apiVersion``."""
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, resource)


POD: Final = kind_at(CORE, "pods")
JOB: Final = kind_at(BATCH, "jobs")
VCJOB: Final = kind_at(BATCH_VOLCANO, "jobs")
POD_GROUP: Final = kind_at(SCHEDULING_VOLCANO, "podgroups")
QUEUE: Final = kind_at(SCHEDULING_VOLCANO, "queues")
HYPERNODE: Final = kind_at(TOPOLOGY_VOLCANO, "hypernodes")
