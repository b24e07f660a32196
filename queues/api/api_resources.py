"""Where the API server keeps each kind of object that Muster reads, writes, installs or removes: one table. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from queues.api.names import (
    AUTOSCALING_REQUESTS,
    BATCH,
    BATCH_VOLCANO,
    BUS_VOLCANO,
    CORE,
    FLOW_VOLCANO,
    KOORDINATOR_SCHEDULING,
    MUSTER,
    PART_OF_LABEL,
    SCHEDULING_VOLCANO,
    TOPOLOGY_VOLCANO,
)
from queues.errors import UnusableName

Document = dict[str, Any]

#: What a name may be that is one segment of a URL path; API servers decode escapes before they look for slashes.
_SEGMENT: Final = re.compile(r"(?!\.\.?\Z)[^\x00-\x20/%?#\x7f]+")
#: Characters of a name in a message.
_SHOWN: Final = 100

#: On everything that ``muster install`` applies, so that ``muster uninstall`` finds it again.
PART_OF: Final = {PART_OF_LABEL: "muster"}
PART_OF_SELECTOR: Final = f"{PART_OF_LABEL}=muster"


@dataclass(frozen=True, slots=True)
class ApiResource:
    """One kind of object, and where it is served."""

    #: ``v1`` or ``group/version``.
    api_version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """API group. Empty: the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """Version in its group."""
        return self.api_version.rpartition("/")[2]

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """URL path: of all, of a namespace's, of one object, of a subresource of it.

        Raises UnusableName: a name that users wrote would lead to another object, with the rights of Muster.
        """
        for each in (namespace, name):
            if each and not _SEGMENT.fullmatch(each):
                raise UnusableName(found=each[:_SHOWN])
        parts = ["/apis" if self.group else "/api", self.api_version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)

    def document(
        self, name: str, namespace: str = "", labels: Mapping[str, str] = {}, **content: Any
    ) -> Document:
        """An object that Muster makes, with the label by which it is found again."""
        place = {"namespace": namespace} if namespace else {}
        metadata = {"name": name, **place, "labels": {**PART_OF, **labels}}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **content}

    def rule(self, operations: Sequence[str]) -> Document:
        """The rule of a webhook or of an admission policy that is about it."""
        return {
            "apiGroups": [self.group],
            "apiVersions": [self.version],
            "resources": [self.plural],
            "operations": list(operations),
        }


_REGISTRATION: Final = "admissionregistration.k8s.io/v1"
_RBAC: Final = "rbac.authorization.k8s.io/v1"

_APPS: Final = "apps/v1"
#: Dynamic resource allocation.
_DEVICES: Final = "resource.k8s.io/v1"

# ── what waits, and what it runs on ─────────────────────────────────────────────────────────────────────────────

PODS: Final = ApiResource(CORE, "pods", "Pod")
NODES: Final = ApiResource(CORE, "nodes", "Node", namespaced=False)
JOBS: Final = ApiResource(BATCH, "jobs", "Job")
VOLCANO_JOBS: Final = ApiResource(BATCH_VOLCANO, "jobs", "Job")
VOLCANO_CRON_JOBS: Final = ApiResource(BATCH_VOLCANO, "cronjobs", "CronJob")
JOB_FLOWS: Final = ApiResource(FLOW_VOLCANO, "jobflows", "JobFlow")
JOB_TEMPLATES: Final = ApiResource(FLOW_VOLCANO, "jobtemplates", "JobTemplate")
POD_GROUPS: Final = ApiResource(SCHEDULING_VOLCANO, "podgroups", "PodGroup")
QUEUES: Final = ApiResource(SCHEDULING_VOLCANO, "queues", "Queue", namespaced=False)
FLAVORS: Final = ApiResource(MUSTER, "resourceflavors", "ResourceFlavor", namespaced=False)
TOPOLOGIES: Final = ApiResource(MUSTER, "topologies", "Topology", namespaced=False)
RESERVATIONS: Final = ApiResource(MUSTER, "reservations", "Reservation", namespaced=False)
NODE_DRAINS: Final = ApiResource(MUSTER, "nodedrains", "NodeDrain", namespaced=False)
WORKLOAD_KINDS: Final = ApiResource(MUSTER, "workloadkinds", "WorkloadKind", namespaced=False)
ADMISSION_CHECKS: Final = ApiResource(MUSTER, "admissionchecks", "AdmissionCheck", namespaced=False)
CHECK_REQUESTS: Final = ApiResource(MUSTER, "checkrequests", "CheckRequest")
HYPERNODES: Final = ApiResource(TOPOLOGY_VOLCANO, "hypernodes", "HyperNode", namespaced=False)
#: What node agents report, one for each node: Koordinator's kind.
DEVICES: Final = ApiResource(KOORDINATOR_SCHEDULING, "devices", "Device", namespaced=False)
COMMANDS: Final = ApiResource(BUS_VOLCANO, "commands", "Command")
BUDGETS: Final = ApiResource("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
RESOURCE_QUOTAS: Final = ApiResource(CORE, "resourcequotas", "ResourceQuota")
LIMIT_RANGES: Final = ApiResource(CORE, "limitranges", "LimitRange")
RUNTIME_CLASSES: Final = ApiResource("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False)
DEVICE_CLASSES: Final = ApiResource(_DEVICES, "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_SLICES: Final = ApiResource(_DEVICES, "resourceslices", "ResourceSlice", namespaced=False)
CLAIM_TEMPLATES: Final = ApiResource(_DEVICES, "resourceclaimtemplates", "ResourceClaimTemplate")
RESOURCE_CLAIMS: Final = ApiResource(_DEVICES, "resourceclaims", "ResourceClaim")
PRIORITY_CLASSES: Final = ApiResource(
    "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False
)
POD_TEMPLATES: Final = ApiResource(CORE, "podtemplates", "PodTemplate")
PROVISIONING_REQUESTS: Final = ApiResource(
    AUTOSCALING_REQUESTS, "provisioningrequests", "ProvisioningRequest"
)
EVENTS: Final = ApiResource("v1", "events", "Event")
LEASES: Final = ApiResource("coordination.k8s.io/v1", "leases", "Lease")

# ── what stands next to a Job's pods, and what Muster installs ───────────────────────────────────────────────────

NAMESPACES: Final = ApiResource(CORE, "namespaces", "Namespace", namespaced=False)
SERVICES: Final = ApiResource(CORE, "services", "Service")
SECRETS: Final = ApiResource(CORE, "secrets", "Secret")
CONFIG_MAPS: Final = ApiResource(CORE, "configmaps", "ConfigMap")
SERVICE_ACCOUNTS: Final = ApiResource(CORE, "serviceaccounts", "ServiceAccount")
VOLUME_CLAIMS: Final = ApiResource(CORE, "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES: Final = ApiResource(CORE, "persistentvolumes", "PersistentVolume", namespaced=False)
CSI_NODES: Final = ApiResource("storage.k8s.io/v1", "csinodes", "CSINode", namespaced=False)
STORAGE_CLASSES: Final = ApiResource("storage.k8s.io/v1", "storageclasses", "StorageClass", namespaced=False)
NETWORK_POLICIES: Final = ApiResource("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy")
DEPLOYMENTS: Final = ApiResource(_APPS, "deployments", "Deployment")
STATEFUL_SETS: Final = ApiResource(_APPS, "statefulsets", "StatefulSet")
REPLICA_SETS: Final = ApiResource(_APPS, "replicasets", "ReplicaSet")
DAEMON_SETS: Final = ApiResource(_APPS, "daemonsets", "DaemonSet")
REPLICATION_CONTROLLERS: Final = ApiResource(CORE, "replicationcontrollers", "ReplicationController")
CRON_JOBS: Final = ApiResource(BATCH, "cronjobs", "CronJob")
LEADER_WORKER_SETS: Final = ApiResource("leaderworkerset.x-k8s.io/v1", "leaderworkersets", "LeaderWorkerSet")
CRDS: Final = ApiResource(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
API_SERVICES: Final = ApiResource("apiregistration.k8s.io/v1", "apiservices", "APIService", namespaced=False)
ROLES: Final = ApiResource(_RBAC, "roles", "Role")
ROLE_BINDINGS: Final = ApiResource(_RBAC, "rolebindings", "RoleBinding")
CLUSTER_ROLES: Final = ApiResource(_RBAC, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = ApiResource(
    _RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)


def _pair(plural: str, kind: str) -> tuple[ApiResource, ApiResource]:
    """The mutating and the validating kind, in the order in which the API server calls them."""
    mutating, validating = (
        ApiResource(_REGISTRATION, f"{half.lower()}{plural}", f"{half}{kind}", namespaced=False)
        for half in ("Mutating", "Validating")
    )
    return mutating, validating


WEBHOOK_CONFIGURATIONS: Final = _pair("webhookconfigurations", "WebhookConfiguration")
POLICIES: Final = _pair("admissionpolicies", "AdmissionPolicy")
POLICY_BINDINGS: Final = _pair("admissionpolicybindings", "AdmissionPolicyBinding")

#: Every kind above.
ALL: Final = (
    *(each for each in tuple(globals().values()) if isinstance(each, ApiResource)),
    *WEBHOOK_CONFIGURATIONS,
    *POLICIES,
    *POLICY_BINDINGS,
)

_BY_KIND: Final = {(resource.api_version, resource.kind): resource for resource in ALL}


def path_of(document: Document) -> str:
    """Where the API server has the object of a document."""
    metadata = document["metadata"]
    resource = _BY_KIND[document["apiVersion"], document["kind"]]
    return resource.path(metadata.get("namespace"), metadata["name"])


def resource_of(api_version: str, kind: str) -> ApiResource | None:
    """Where objects of a kind are; None if Muster does not use the kind."""
    return _BY_KIND.get((api_version, kind))


def api_service_name(api_version: str) -> str:
    """``v1.read.muster.dev`` for ``read.muster.dev/v1``: the name of the APIService of a group and version."""
    group, _, version = api_version.partition("/")
    return f"{version}.{group}"


def named(document: Document) -> str:
    """``clusterrole/muster``, as kubectl names it."""
    return f"{document['kind'].lower()}/{document['metadata']['name']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """One object of the cluster."""

    resource: ApiResource
    #: "" for cluster-scoped ones.
    namespace: str = ""
    name: str
    uid: str

    @property
    def path(self) -> str:
        """Where the API server serves it."""
        return self.resource.path(self.namespace, self.name)
