"""Takes back what ``install`` applied, and first frees what waits, or leaves it, as told.

Users' objects are theirs: definitions that still have objects stay, unless told otherwise.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from admission.kube.client import Client
from admission.kube.documents import PART_OF, Document
from admission.kube.install import ADOPTED, Tell, found_at
from admission.kube.objects import JOBS, PODS, QUEUES, VOLCANO_JOBS
from admission.kube.returning import let_return
from queues.errors import Conflict, MusterError, NotFound, Refused
from queues.spec.crd import OWNER_LABEL
from queues.spec.names import DEFAULT_QUEUE, FINALIZER, GATE, QUEUE_LABEL, RELEASED, ROOT_QUEUE

_SELECTOR: Final = ",".join(f"{key}={value}" for key, value in PART_OF.items())
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
#: Seconds for API servers to forget the policies, and for deleted objects to go.
_PATIENCE: Final = 60.0
#: Seconds for a namespace to go: Kubernetes tries again and again, ever more slowly, until nothing is in it.
_NAMESPACE_PATIENCE: Final = 60.0
#: Nothing may start to wait for so long before all is free: a policy works a moment longer than it exists.
_QUIET: Final = 1.0
_PARALLEL: Final = 32


class Waiting(StrEnum):
    """What becomes of pods and Jobs that wait."""

    FREE = "free"
    LEAVE = "leave"


class StillWaiting(MusterError):
    """{count} pods and Jobs could not be freed within {seconds:g} seconds: {reason}. Run uninstall again."""


class StillThere(MusterError):
    """{path} was deleted and is not gone after {seconds:g} seconds.

    See what holds it (its status, its finalizers), then run uninstall again.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What uninstalling takes away besides its own."""

    namespace: str = "muster-system"
    waiting: Waiting = Waiting.FREE
    #: Delete the definitions with all their objects: every Volcano Job, PodGroup and Queue.
    delete_crds: bool = False


async def uninstall(client: Client, removal: Removal, tell: Tell) -> None:
    """Take everything back. What was interrupted goes on when called again. Raises MusterError."""
    home = removal.namespace
    await let_return(client, tell)
    # Muster itself first: it would make wait, or release, what is being freed.
    await _delete_all(client, f"/apis/apps/v1/namespaces/{home}/deployments", tell)
    for half in ("mutating", "validating"):
        await _delete_all(client, f"{_REGISTRATION}/{half}webhookconfigurations", tell)
    for half in ("mutating", "validating"):
        for suffix in ("policybindings", "policies"):
            await _delete_all(client, f"{_REGISTRATION}/{half}admission{suffix}", tell)
    await _free(client, removal.waiting, tell)
    await _remove_definitions(client, removal, tell)
    for path in (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        f"{_RBAC}/clusterrolebindings",
        f"{_RBAC}/clusterroles",
        f"{_RBAC}/namespaces/{home}/rolebindings",
        f"{_RBAC}/namespaces/{home}/roles",
        f"/apis/policy/v1/namespaces/{home}/poddisruptionbudgets",
        f"/api/v1/namespaces/{home}/services",
        f"/api/v1/namespaces/{home}/secrets",
        f"/api/v1/namespaces/{home}/configmaps",
        f"/api/v1/namespaces/{home}/serviceaccounts",
    ):
        await _delete_all(client, path, tell)
    await _remove_namespace(client, home, tell)


# -- what waits -----------------------------------------------------------------------------------------------


async def _free(client: Client, waiting: Waiting, tell: Tell) -> None:
    """Pods lose the gate and Jobs go on, if told so; finalizers go anyway, or their pods could not."""
    freed: dict[str, set[str]] = {"pods": set(), "jobs": set()}
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE
    quiet_since: float | None = None
    while quiet_since is None or loop.time() - quiet_since < _QUIET:
        left: list[tuple[str, Any]] = []
        async for pod in _items(client, PODS.path(), RELEASED):
            patch = _freed_pod(pod, waiting)
            if patch:
                left.append((_path("/api/v1", "pods", pod), patch))
        if waiting is Waiting.FREE:
            async for job in _items(client, JOBS.path(), QUEUE_LABEL):
                if job["spec"].get("suspend"):
                    left.append((_path("/apis/batch/v1", "jobs", job), _freed_job(job)))
        refused = await _patch_each(client, left, freed)
        quiet_since = None if left else quiet_since or loop.time()
        if refused and loop.time() > deadline:
            raise StillWaiting(count=len(left), seconds=_PATIENCE, reason=refused)
        await asyncio.sleep(0.2)
    await _tell_of_waiting(client, waiting, freed, tell)


async def _patch_each(client: Client, patches: Sequence[tuple[str, Any]], freed: dict[str, set[str]]) -> str:
    """Patch all of them; why some could not be, "" if all could. The guard may be in force a moment longer."""
    slots = asyncio.Semaphore(_PARALLEL)
    reasons: list[str] = []

    async def one(path: str, patch: Any) -> None:
        async with slots:
            try:
                await client.patch(path, patch, kind="json")
                freed[path.split("/")[-2]].add(path)
            except NotFound:
                return
            except (Conflict, Refused) as error:
                reasons.append(str(error))

    await asyncio.gather(*(one(path, patch) for path, patch in patches))
    return reasons[0] if reasons else ""


def _freed_pod(pod: Document, waiting: Waiting) -> list[Document]:
    steps: list[Document] = []
    finalizers = pod["metadata"].get("finalizers") or []
    if FINALIZER in finalizers:
        steps += _without(finalizers.index(FINALIZER), FINALIZER, "/metadata/finalizers")
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]
    if waiting is Waiting.FREE and GATE in gates:
        at = f"/spec/schedulingGates/{gates.index(GATE)}"
        steps += [{"op": "test", "path": f"{at}/name", "value": GATE}, {"op": "remove", "path": at}]
    return steps


def _without(index: int, value: str, path: str) -> list[Document]:
    at = f"{path}/{index}"
    return [{"op": "test", "path": at, "value": value}, {"op": "remove", "path": at}]


def _freed_job(job: Document) -> list[Document]:
    """It goes on, and its pods will not be gated by the template either."""
    steps: list[Document] = [{"op": "add", "path": "/spec/suspend", "value": False}]
    gates = [gate["name"] for gate in job["spec"]["template"]["spec"].get("schedulingGates") or []]
    if GATE in gates:
        at = f"/spec/template/spec/schedulingGates/{gates.index(GATE)}"
        steps += [{"op": "test", "path": f"{at}/name", "value": GATE}, {"op": "remove", "path": at}]
    return steps


async def _tell_of_waiting(
    client: Client, waiting: Waiting, freed: Mapping[str, set[str]], tell: Tell
) -> None:
    if waiting is Waiting.FREE:
        tell(f"freed {len(freed['pods'])} pods and {len(freed['jobs'])} Jobs that waited")
    else:
        tell(
            "What waits goes on waiting. To free a pod, remove its scheduling gate "
            f"{GATE}; to free a Job, set spec.suspend to false."
        )
    async for job in _items(client, JOBS.path(), QUEUE_LABEL):
        gates = job["spec"]["template"]["spec"].get("schedulingGates") or []
        if {"name": GATE} in gates and not job["spec"].get("suspend"):
            where = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
            tell(f"Job {where} runs; pods that replace failed ones of it will be gated: create it again.")
    try:
        jobs = [job async for job in _items(client, VOLCANO_JOBS.path())]
    except NotFound:
        return
    if jobs:
        tell(f"{len(jobs)} Volcano Jobs stay; nobody makes pods for them any more")


# -- definitions ----------------------------------------------------------------------------------------------


async def _remove_definitions(client: Client, removal: Removal, tell: Tell) -> None:
    """Those without objects of users, or all if told so; those of others never."""
    selector = ",".join(f"{key}={value}" for key, value in OWNER_LABEL.items())
    definitions = msgspec.json.decode(await client.get(_CRDS, labelSelector=selector))["items"]
    counts = {one["metadata"]["name"]: await _objects_of(client, one) for one in definitions}
    for definition in definitions:
        name = definition["metadata"]["name"]
        left = counts[name]
        if ADOPTED in (definition["metadata"].get("annotations") or {}):
            tell(f"customresourcedefinition/{name} kept: it was there before Muster")
        elif left and not removal.delete_crds:
            tell(
                f"customresourcedefinition/{name} kept: it has {left} objects (--delete-crds deletes them too)"
            )
        else:
            await client.delete(f"{_CRDS}/{name}")
            await _gone(client, f"{_CRDS}/{name}")
            tell(f"customresourcedefinition/{name} deleted")
    for name in (DEFAULT_QUEUE, ROOT_QUEUE):
        await _remove_first_queue(client, name, counts.get("queues.scheduling.volcano.sh", 0), tell)


async def _objects_of(client: Client, definition: Document) -> int:
    """How many objects of users there are; the queues that come with Muster are none."""
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    count = 0
    async for item in _items(client, path):
        first = item["metadata"]["name"] in (DEFAULT_QUEUE, ROOT_QUEUE) and spec["names"]["kind"] == "Queue"
        count += not first
    return count


async def _remove_first_queue(client: Client, name: str, others: int, tell: Tell) -> None:
    """Only if Muster made it, and no queue is left that needs it."""
    queue = await found_at(client, QUEUES.path(name=name))
    if queue is None or not PART_OF.items() <= (queue["metadata"].get("labels") or {}).items():
        return
    if others:
        tell(f"queue/{name} kept: other queues are left")
        return
    await client.delete(QUEUES.path(name=name))
    tell(f"queue/{name} deleted")


# -- objects --------------------------------------------------------------------------------------------------


async def _delete_all(client: Client, path: str, tell: Tell) -> None:
    """Delete what carries our label, and wait until it is gone."""
    items = msgspec.json.decode(await client.get(path, labelSelector=_SELECTOR))["items"]
    noun = path.rsplit("/", 1)[1]
    # Muster's pods are to be gone as well.
    propagation: Literal["Foreground", "Background"] = "Foreground" if noun == "deployments" else "Background"
    for item in items:
        one = f"{path}/{item['metadata']['name']}"
        try:
            await client.delete(one, propagation=propagation)
            await _gone(client, one)
        except NotFound:
            continue
        tell(f"{noun}/{item['metadata']['name']} deleted")


async def _remove_namespace(client: Client, name: str, tell: Tell) -> None:
    """Only if Muster made it and nothing of others is in it."""
    path = f"/api/v1/namespaces/{name}"
    namespace = await found_at(client, path)
    if namespace is None:
        return
    if not PART_OF.items() <= (namespace["metadata"].get("labels") or {}).items():
        tell(f"namespace/{name} kept: it was there before Muster")
        return
    for where, plural in (
        ("/api/v1", "pods"),
        ("/api/v1", "persistentvolumeclaims"),
        ("/api/v1", "services"),
        ("/api/v1", "secrets"),
        ("/apis/apps/v1", "deployments"),
        ("/apis/apps/v1", "statefulsets"),
        ("/apis/batch/v1", "jobs"),
    ):
        items = [
            item
            async for item in _items(client, f"{where}/namespaces/{name}/{plural}")
            if not item["metadata"].get("deletionTimestamp") and item.get("type") != _TOKEN
        ]
        if items:
            tell(f"namespace/{name} kept: there is {plural}/{items[0]['metadata']['name']} in it")
            return
    await client.delete(path)
    try:
        await _gone(client, path, within=_NAMESPACE_PATIENCE)
    except StillThere as still:
        # Nothing of Muster depends on it any more, and Kubernetes goes on by itself.
        tell(f"namespace/{name} is being deleted: not done after {still.facts['seconds']:g} seconds")
    else:
        tell(f"namespace/{name} deleted")


_TOKEN: Final = "kubernetes.io/service-account-token"


async def _items(client: Client, path: str, selector: str | None = None) -> AsyncIterator[Any]:
    """Everything in a collection, page by page. Raises ApiError."""
    token: str | None = None
    while True:
        answer = await client.get(path, labelSelector=selector, limit=500, **{"continue": token})
        page = msgspec.json.decode(answer)
        for item in page["items"]:
            yield item
        token = page["metadata"].get("continue") or None
        if token is None:
            return


async def _gone(client: Client, path: str, *, within: float = _PATIENCE) -> None:
    """Wait until there is nothing at a path. Raises StillThere."""
    try:
        async with asyncio.timeout(within):
            while await found_at(client, path) is not None:  # noqa: ASYNC110 - only the API server knows
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise StillThere(path=path, seconds=within) from None


def _path(prefix: str, plural: str, item: Document) -> str:
    metadata = item["metadata"]
    return f"{prefix}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
