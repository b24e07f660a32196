"""Which object of the cluster is meant, and where the API server serves it. Pure."""

from dataclasses import dataclass

from queues.spec.names import BATCH, BATCH_VOLCANO, CORE, SCHEDULING_VOLCANO, TOPOLOGY_VOLCANO


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
