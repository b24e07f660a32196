"""Where the API server keeps each kind of object."""

from dataclasses import dataclass
from typing import Final

from queues.api.names import BATCH_VOLCANO, MUSTER, SCHEDULING_VOLCANO, TOPOLOGY_VOLCANO


@dataclass(frozen=True, slots=True)
class ApiResource:
    """Where the API server keeps a kind of object."""

    #: ``v1`` or ``group/version``.
    api_version: str
    plural: str
    kind: str
    namespaced: bool = True

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """URL path: of all, of a namespace's, of one object, of a subresource of it."""
        parts = ["/api" if "/" not in self.api_version else "/apis", self.api_version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


PODS: Final = ApiResource("v1", "pods", "Pod")

CONFIG_MAPS: Final = ApiResource("v1", "configmaps", "ConfigMap")

SECRETS: Final = ApiResource("v1", "secrets", "Secret")

SERVICES: Final = ApiResource("v1", "services", "Service")

VOLUME_CLAIMS: Final = ApiResource("v1", "persistentvolumeclaims", "PersistentVolumeClaim")

NODES: Final = ApiResource("v1", "nodes", "Node", namespaced=False)

NAMESPACES: Final = ApiResource("v1", "namespaces", "Namespace", namespaced=False)

JOBS: Final = ApiResource("batch/v1", "jobs", "Job")

VOLCANO_JOBS: Final = ApiResource(BATCH_VOLCANO, "jobs", "Job")

POD_GROUPS: Final = ApiResource(SCHEDULING_VOLCANO, "podgroups", "PodGroup")

QUEUES: Final = ApiResource(SCHEDULING_VOLCANO, "queues", "Queue", namespaced=False)

FLAVORS: Final = ApiResource(MUSTER, "resourceflavors", "ResourceFlavor", namespaced=False)

TOPOLOGIES: Final = ApiResource(MUSTER, "topologies", "Topology", namespaced=False)

NETWORK_POLICIES: Final = ApiResource("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy")

BUDGETS: Final = ApiResource("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")

HYPERNODES: Final = ApiResource(TOPOLOGY_VOLCANO, "hypernodes", "HyperNode", namespaced=False)

PRIORITY_CLASSES: Final = ApiResource(
    "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False
)

EVENTS: Final = ApiResource("events.k8s.io/v1", "events", "Event")
