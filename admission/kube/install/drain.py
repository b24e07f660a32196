"""Pods without an owner that are on their way out when Muster is taken away: it gets the time to make them again.

Only Muster knows how, and which of them it deleted itself: that is in its database. The cluster shows no more than
that such a pod is being deleted, and then another one of its name.

What waits when Muster is removed: freed or left, as the administrator chose.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from admission.kube.install.server_side_apply import Tell, found_at, items_of
from queues.api.api_resources import JOBS, PODS, VOLCANO_JOBS, ApiResource, Document
from queues.api.flavor_tolerations import TOLERATIONS_AT, own_tolerations
from queues.api.json_patch import Step, escaped, expect
from queues.api.names import (
    ADMISSION_ID,
    FINALIZER,
    FLAVOR_TOLERATIONS,
    GATE,
    MEMBER_OF,
    QUEUE_LABEL,
    RELEASED,
)
from queues.api.node_affinity import unpinned
from queues.api.types.workload_kind import WorkloadKindSpec
from queues.errors import ApiRefused, Conflict, MusterError, NotFound

_MEMBER_AT = f"/annotations/{escaped(MEMBER_OF)}"


def without_members(document: Document) -> Iterator[Step]:
    """The steps by which the templates of an operator's object no longer say that Muster resumed it."""
    yield from _without_members(document.get("spec"), "/spec", f"/{document['metadata']['uid']}/")


def _without_members(value: Any, at: str, uid: str) -> Iterator[Step]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _without_members(each, f"{at}/{index}", uid)
    if not isinstance(value, Mapping):
        return
    annotations, labels = value.get("annotations"), value.get("labels")
    said = annotations.get(MEMBER_OF) if isinstance(annotations, Mapping) else None
    if isinstance(said, str) and uid in said:
        yield expect(at + _MEMBER_AT, said)
        yield {"op": "remove", "path": at + _MEMBER_AT}
        if isinstance(labels, Mapping) and QUEUE_LABEL in labels:
            yield {"op": "remove", "path": f"{at}/labels/{escaped(QUEUE_LABEL)}"}
    for key, each in value.items():
        yield from _without_members(each, f"{at}/{escaped(key)}", uid)


def without_directions(template: Document, at: str) -> Iterator[Step]:
    """The steps by which the pods of a Job's template, which is at a place, are of no admission and tied to no node."""
    metadata, spec = template.get("metadata") or {}, template["spec"]
    admission = (metadata.get("annotations") or {}).get(ADMISSION_ID)
    if admission is None:
        return
    where = f"{at}/metadata/annotations/{escaped(ADMISSION_ID)}"
    yield expect(where, admission)
    yield {"op": "remove", "path": where}
    if RELEASED in (metadata.get("labels") or {}):
        yield {"op": "remove", "path": f"{at}/metadata/labels/{escaped(RELEASED)}"}
    if spec.get("affinity"):
        yield {"op": "add", "path": f"{at}/spec/affinity", "value": unpinned(spec["affinity"])}
    if FLAVOR_TOLERATIONS in metadata["annotations"]:
        yield {"op": "remove", "path": f"{at}/metadata/annotations/{escaped(FLAVOR_TOLERATIONS)}"}
        own = own_tolerations(spec, metadata["annotations"])
        yield {"op": "add", "path": f"{at}{TOLERATIONS_AT}", "value": own}


#: Seconds for their grace periods: of most pods 30.
_GRACE: Final = 60.0
#: Seconds for Muster to see that one is gone, and to make it again.
_ECHO: Final = 10.0

Place = tuple[str, str]


async def let_return(client: Client, tell: Tell) -> None:
    """Wait until nothing without an owner is being deleted and what was deleted is there again, within limits."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _GRACE
    left: dict[Place, str] = {}
    while loop.time() < until and (going := await _going(client)):
        if not left:
            tell(
                f"waiting for {len(going)} pods without an owner that are being deleted: Muster may make them again"
            )
        left |= going
        await asyncio.sleep(0.2)
    until = loop.time() + (_ECHO if left else 0)
    while left and loop.time() < until:
        left = {place: uid for place, uid in left.items() if not await _is_back(client, place, uid)}
        await asyncio.sleep(0.2)
    for namespace, name in sorted(left):
        tell(
            f"pod {namespace}/{name} was deleted and is not there again: its user did it, or no Muster runs."
            " If Muster did it, how to make it again is in its database, in table recreations."
        )


async def _going(client: Client) -> dict[Place, str]:
    """Pods that had a seat, are being deleted, and have no controller: uid by (namespace, name)."""
    pods = msgspec.json.decode(await client.get(PODS.path(), labelSelector=f"{RELEASED}=true"))["items"]
    return {
        (meta["namespace"], meta["name"]): meta["uid"]
        for meta in (pod["metadata"] for pod in pods)
        if meta.get("deletionTimestamp")
        and (meta.get("annotations") or {}).get(ADMISSION_ID)
        and not any(owner.get("controller") for owner in meta.get("ownerReferences") or ())
    }


async def _is_back(client: Client, place: Place, uid: str) -> bool:
    """Whether there is a pod of its name again."""
    pod = await found_at(client, PODS.path(*place))
    return pod is not None and pod["metadata"]["uid"] != uid


#: Seconds for API servers to forget the policies.
_PATIENCE: Final = 60.0
#: Nothing may start to wait for so long before all is free: a policy works a moment longer than it exists.
_QUIET: Final = 1.0
_PARALLEL: Final = 32
_BUILT_IN: Final = ("pods", "jobs")


class DrainMode(StrEnum):
    """What becomes of pods and Jobs that wait."""

    FREE = "free"
    LEAVE = "leave"


class StillWaiting(MusterError):
    """{count} pods and Jobs could not be freed within {seconds:g} seconds: {reason}. Run uninstall again."""


async def free_or_leave(
    client: Client, waiting: DrainMode, kinds: Sequence[WorkloadKindSpec], tell: Tell
) -> None:
    """With ``DrainMode.FREE`` pods lose the gate, and Jobs and objects of ``kinds`` go on. Finalizers go in any case:
    what carries them would stay."""
    freed: dict[str, set[str]] = defaultdict(set)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE
    quiet_since: float | None = None
    while quiet_since is None or loop.time() - quiet_since < _QUIET:
        left: list[tuple[str, Any]] = []
        async for pod in items_of(client, PODS.path(), RELEASED):
            patch = _freed_pod(pod, waiting)
            if patch:
                left.append((_path(PODS, pod), patch))
        async for job in items_of(client, JOBS.path()):
            if patch := _freed_job(job, waiting):
                left.append((_path(JOBS, job), patch))
        if waiting is DrainMode.FREE:
            left += [each async for each in _suspended_objects(client, kinds)]
        refused = await _patch_each(client, left, freed)
        quiet_since = None if left else quiet_since or loop.time()
        if refused and loop.time() > deadline:
            raise StillWaiting(count=len(left), seconds=_PATIENCE, reason=refused)
        await asyncio.sleep(0.2)
    await _tell_of_waiting(client, waiting, freed, tell)


async def _suspended_objects(
    client: Client, kinds: Sequence[WorkloadKindSpec]
) -> AsyncIterator[tuple[str, Any]]:
    """Objects of other projects' kinds that wait, with the patches that resume them."""
    for description in kinds:
        at = "/" + "/".join(description.suspend)
        for resource in (*description.suspended_with, description.resource):
            try:
                async for item in items_of(client, resource.path(), QUEUE_LABEL):
                    if is_suspended(item, description.suspend):
                        resumed = {"op": "replace", "path": at, "value": False}
                        yield _path(resource, item), [*without_members(item), resumed]
            except NotFound:
                continue


def is_suspended(document: Document, path: Sequence[str]) -> bool:
    """Whether the field that suspends an object is set."""
    found: Any = document
    for field in path:
        found = found.get(field) if isinstance(found, Mapping) else None
    return found is True


async def _patch_each(client: Client, patches: Sequence[tuple[str, Any]], freed: dict[str, set[str]]) -> str:
    """Patch all of them; why some could not be, "" if all could. The policies may be in force a moment longer."""
    slots = asyncio.Semaphore(_PARALLEL)
    reasons: list[str] = []

    async def one(path: str, patch: Any) -> None:
        async with slots:
            try:
                await client.patch(path, patch, kind="json")
                freed[path.split("/")[-2]].add(path)
            except NotFound:
                return
            except (Conflict, ApiRefused) as error:
                reasons.append(str(error))

    await asyncio.gather(*(one(path, patch) for path, patch in patches))
    return reasons[0] if reasons else ""


def _freed_pod(pod: Document, waiting: DrainMode) -> list[Document]:
    steps = _removal("/metadata/finalizers", pod["metadata"].get("finalizers") or [], FINALIZER)
    if waiting is DrainMode.FREE:
        steps += _ungated("/spec", pod["spec"])
    return steps


def _freed_job(job: Document, waiting: DrainMode) -> list[Document]:
    """One that waits goes on, and its template neither gates its pods nor ties them to the nodes of an admission
    before."""
    metadata = job["metadata"]
    steps = _removal("/metadata/finalizers", metadata.get("finalizers") or [], FINALIZER)
    is_queued = QUEUE_LABEL in (metadata.get("labels") or {})
    if waiting is not DrainMode.FREE or not is_queued or not job["spec"].get("suspend"):
        return steps
    resumed = {"op": "add", "path": "/spec/suspend", "value": False}
    at, template = "/spec/template", job["spec"]["template"]
    return [*steps, resumed, *_ungated(f"{at}/spec", template["spec"]), *without_directions(template, at)]


def _ungated(path: str, spec: Document) -> list[Document]:
    gates = [gate["name"] for gate in spec.get("schedulingGates") or []]
    return _removal(f"{path}/schedulingGates", gates, GATE, "/name")


def _removal(path: str, present: Sequence[str], value: str, key: str = "") -> list[Document]:
    """Steps that remove a value from a list; none if it is not there. ``key``: where its items have the value."""
    if value not in present:
        return []
    at = f"{path}/{present.index(value)}"
    return [{"op": "test", "path": f"{at}{key}", "value": value}, {"op": "remove", "path": at}]


async def _tell_of_waiting(
    client: Client, waiting: DrainMode, freed: Mapping[str, set[str]], tell: Tell
) -> None:
    if waiting is DrainMode.FREE:
        tell(f"freed {len(freed['pods'])} pods and {len(freed['jobs'])} Jobs that waited")
        others = {plural: len(paths) for plural, paths in sorted(freed.items()) if plural not in _BUILT_IN}
        if others:
            tell("freed " + ", ".join(f"{count} {plural}" for plural, count in others.items()))
    else:
        tell(
            "What waits goes on waiting. To free a pod, remove its scheduling gate "
            f"{GATE}; to free a Job, set spec.suspend to false."
        )
    async for job in items_of(client, JOBS.path(), QUEUE_LABEL):
        gates = job["spec"]["template"]["spec"].get("schedulingGates") or []
        if {"name": GATE} in gates and not job["spec"].get("suspend"):
            where = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
            tell(f"Job {where} runs; pods that replace failed ones of it will be gated: create it again.")
    try:
        jobs = [job async for job in items_of(client, VOLCANO_JOBS.path())]
    except NotFound:
        return
    if jobs:
        tell(f"{len(jobs)} Volcano Jobs stay; no controller makes pods for them any more")


def _path(resource: ApiResource, item: Document) -> str:
    metadata = item["metadata"]
    return resource.path(metadata["namespace"], metadata["name"])
