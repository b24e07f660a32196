"""A test's own namespace in a cluster where the admission policies are in force, used by several users."""

import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import PRIORITY_CLASSES
from queues.errors import ApiError, ApiRefused
from tests.kube.support.cluster_objects import batch_job, becomes, exists, pod

MUSTER = "system:serviceaccount:muster-system:muster"
QUEUED = {"muster.dev/queue-name": "team-a"}
GATE = [{"name": "muster.dev/admission"}]


_numbers = itertools.count(1)


class GuardedNamespace:
    """A namespace of the test's own, used by several users."""

    def __init__(self, namespace: str, cluster: LocalCluster) -> None:
        self.namespace = namespace
        self._cluster = cluster
        self._clients: dict[str, Client] = {}

    async def as_user(self, user: str) -> Client:
        if user not in self._clients:
            # Everything is allowed by RBAC: whatever is refused here, a policy refused.
            kubeconfig = self._cluster.kubeconfig_for(user, ("system:masters",))
            self._clients[user] = await Client.connect(kubeconfig)
        return self._clients[user]

    def path(self, resource: str, name: str = "") -> str:
        prefix = "/apis/batch/v1" if resource == "jobs" else "/api/v1"
        return f"{prefix}/namespaces/{self.namespace}/{resource}" + (f"/{name}" if name else "")

    async def create(self, resource: str, document: Mapping[str, Any], *, by: str = "alice") -> Any:
        answer = await (await self.as_user(by)).create(self.path(resource), document)
        return msgspec.json.decode(answer)

    async def patch(
        self, resource: str, name: str, patch: Any, *, by: str = "alice", kind: Any = "merge"
    ) -> Any:
        answer = await (await self.as_user(by)).patch(self.path(resource, name), patch, kind=kind)
        return msgspec.json.decode(answer)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


async def policies_are_in_force(client: Client) -> None:
    """The API server notices new policies after a moment; probes are dry runs, so nothing is left behind."""
    pods, jobs = "/api/v1/namespaces/default/pods", "/apis/batch/v1/namespaces/default/jobs"

    async def waits(path: str, document: Any, sign: bytes) -> bool:
        return sign in await client.create(path, document, dry_run=True)

    async def refused(path: str, document: Any) -> bool:
        try:
            await client.create(path, document, dry_run=True)
        except ApiRefused:
            return True
        return False

    await becomes(lambda: waits(pods, pod("probe", labels=QUEUED), b"muster.dev/admission"))
    await becomes(lambda: waits(pods, pod("probe", schedulerName="volcano"), b"muster.dev/admission"))
    await becomes(lambda: waits(jobs, batch_job("probe", labels=QUEUED), b'"suspend":true'))
    await becomes(lambda: waits(jobs, batch_job("probe", schedulerName="volcano"), b'"suspend":true'))
    await becomes(lambda: refused(pods, pod("probe", labels={"muster.dev/released": "true"})))
    await becomes(lambda: refused(jobs, signed_job()))


def signed_job() -> dict[str, Any]:
    """A Job whose template says that its pods are released."""
    return batch_job("probe", labels=QUEUED, template_labels={"muster.dev/released": "true"})


async def guarded_namespace_in(
    cluster: LocalCluster, metadata: dict[str, Any], prefix: str = "policies"
) -> AsyncIterator[GuardedNamespace]:
    """A new namespace, while the test lasts."""
    guarded = GuardedNamespace(f"{prefix}-{next(_numbers)}", cluster)
    admin = await guarded.as_user("admin")
    namespace = {"metadata": {"name": guarded.namespace, **metadata}}
    await admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **namespace})
    await becomes(lambda: exists(admin, guarded.path("serviceaccounts", "default")))
    yield guarded
    await guarded.close()


async def pod_of(guarded: GuardedNamespace, job: str) -> Any:
    """The pod of a Job, once there is one."""
    client = await guarded.as_user("admin")
    found: list[Any] = []

    async def created() -> bool:
        answer = await client.get(guarded.path("pods"), labelSelector=f"job-name={job}")
        found[:] = msgspec.json.decode(answer)["items"]
        return bool(found)

    await becomes(created)
    return found[0]


async def priority_class(guarded: GuardedNamespace) -> str:
    """A class that preempts, once the API server knows it."""
    name = f"high-{guarded.namespace}"
    alice = await guarded.as_user("alice")
    await alice.create(PRIORITY_CLASSES.path(), PRIORITY_CLASSES.document(name, value=1000))

    async def is_known() -> bool:
        try:
            await alice.create(guarded.path("pods"), pod("a", priorityClassName=name), dry_run=True)
        except ApiError:
            return False
        return True

    await becomes(is_known)
    return name
