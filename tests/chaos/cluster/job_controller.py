"""The Job controller of kube-controller-manager, one sync of one Job: pods counted, let go and made."""

import copy
from dataclasses import dataclass
from typing import Final

from queues.api import names
from queues.api.api_resources import JOBS, PODS
from tests.chaos.cluster import requests
from tests.chaos.cluster.store import ObjectStore, Refusal, key_of, time_text
from tests.chaos.history import JOB_CONTROLLER, Document

#: Of pods of Jobs until they are counted.
TRACKING: Final = "batch.kubernetes.io/job-tracking"
ENDED: Final = ("Succeeded", "Failed")


@dataclass(slots=True)
class JobSync:
    """One sync of one Job: pods have been counted and let go, others are still to be made."""

    #: As it was read at the beginning.
    job: Document
    #: The status that is written at the end.
    status: Document
    #: Pods that are wanted.
    active: list[Document]
    #: Completion indexes of pods that are still to be made; None: of a Job that is not Indexed.
    missing: list[int | None]
    #: Pods that have ended were counted. They carry no finalizer any more, so their number must not get lost.
    counts: bool


def begin(store: ObjectStore, job: Document, now: float) -> JobSync | None:
    """Bring the pods of a Job to what its spec says, but for those that are missing. None: the Job is finished."""
    pods = [pod for resource, pod in store.owned_by(job["metadata"]["uid"]) if resource is PODS]
    version = store.version
    status = _counted(store, job, pods)
    counts = store.version != version
    if is_finished(job):
        return None  # pods that ended later are let go, and change nothing any more
    spec = job["spec"]
    active = [pod for pod in pods if _is_active(pod)]
    left = spec["completions"] - status.get("succeeded", 0)
    if status.get("failed", 0) > spec.get("backoffLimit", 6):
        _end(status, "Failed", now)
    elif left <= 0:
        _end(status, "Complete", now)
    wanted = 0 if spec.get("suspend") or is_finished({"status": status}) else min(spec["parallelism"], left)
    if "deletionTimestamp" in job["metadata"]:
        wanted = 0
    for pod in active[wanted:]:
        store.delete(PODS, key_of(pod), JOB_CONTROLLER)
    active = active[:wanted]
    missing: list[int | None] = []
    if not is_finished({"status": status}):
        _tell_suspended(status, spec, now)
        waits = spec.get("podReplacementPolicy") == "Failed"
        ending = [pod for pod in pods if _is_ending(pod)] if waits else []
        missing = _missing(job, [*active, *ending], status, wanted - len(active) - len(ending))
    return JobSync(job, status, active, missing, counts)


def go_on(store: ObjectStore, sync: JobSync, most: int) -> None:
    """Make so many of the pods that are missing."""
    for number, index in enumerate(sync.missing[:most]):
        try:
            sync.active.append(_make(store, sync.job, index, number))
        except Refusal:
            sync.missing.clear()  # the name is taken until the last pod is gone
            break
    del sync.missing[:most]


def end(store: ObjectStore, sync: JobSync) -> None:
    """Write the status, unless the Job was changed since the sync began: that write is refused."""
    now_is = store.find(JOBS, key_of(sync.job))
    if now_is is None or now_is["metadata"]["resourceVersion"] != sync.job["metadata"]["resourceVersion"]:
        return
    ready = sum(pod["status"]["phase"] == "Running" for pod in sync.active)
    status = {**sync.status, "active": len(sync.active), "ready": ready}
    store.replace(JOBS, key_of(sync.job), {**now_is, "status": status}, JOB_CONTROLLER)


def is_finished(job: Document) -> bool:
    """Whether a Job has come to its end."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def _is_active(pod: Document) -> bool:
    return pod["status"]["phase"] not in ENDED and "deletionTimestamp" not in pod["metadata"]


def _is_ending(pod: Document) -> bool:
    return pod["status"]["phase"] not in ENDED and "deletionTimestamp" in pod["metadata"]


def _counted(store: ObjectStore, job: Document, pods: list[Document]) -> Document:
    """The status with the pods that have ended; they carry the finalizer no more."""
    status: Document = copy.deepcopy(job["status"])
    done = _indexes(status)
    for pod in pods:
        held = pod["metadata"].get("finalizers") or ()
        ended = pod["status"]["phase"] in ENDED
        if TRACKING not in held or not (ended or "deletionTimestamp" in pod["metadata"]):
            continue
        if pod["status"]["phase"] == "Succeeded":
            index = _index_of(pod)
            if index is None or index not in done:
                status["succeeded"] = status.get("succeeded", 0) + 1
            if index is not None:
                done.add(index)
        elif ended and "deletionTimestamp" not in pod["metadata"]:
            status["failed"] = status.get("failed", 0) + 1
        if not ended and pod["spec"].get("nodeName"):
            continue  # it counts once its kubelet says how it ended
        left = [each for each in held if each != TRACKING]
        meta = {**pod["metadata"], "finalizers": left}
        if not left:
            del meta["finalizers"]
        store.replace(PODS, key_of(pod), {**pod, "metadata": meta}, JOB_CONTROLLER)
    if job["spec"].get("completionMode") == "Indexed":
        status["completedIndexes"] = ",".join(str(index) for index in sorted(done))
    return status


def _indexes(status: Document) -> set[int]:
    return {int(part) for part in (status.get("completedIndexes") or "").split(",") if part}


def _index_of(pod: Document) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(names.COMPLETION_INDEX)
    return None if text is None else int(text)


def _tell_suspended(status: Document, spec: Document, now: float) -> None:
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    wanted = "True" if spec.get("suspend") else "False"
    known = conditions.get("Suspended")
    if (known is None and wanted == "True") or (known is not None and known["status"] != wanted):
        conditions["Suspended"] = {
            "type": "Suspended",
            "status": wanted,
            "lastTransitionTime": time_text(now),
        }
        status["conditions"] = list(conditions.values())
    if spec.get("suspend"):
        status.pop("startTime", None)
    else:
        status.setdefault("startTime", time_text(now))


def _end(status: Document, kind: str, now: float) -> None:
    others = [each for each in status.get("conditions") or () if each["type"] != kind]
    moment = time_text(now)
    status["conditions"] = [*others, {"type": kind, "status": "True", "lastTransitionTime": moment}]
    status["completionTime"] = moment


def _missing(job: Document, kept: list[Document], status: Document, count: int) -> list[int | None]:
    """Completion indexes of the pods to be made. ``kept``: pods whose indexes are not free."""
    if job["spec"].get("completionMode") != "Indexed":
        return [None] * max(0, count)
    busy = {_index_of(pod) for pod in kept} | _indexes(status)
    free = [index for index in range(job["spec"]["completions"]) if index not in busy]
    return list(free[: max(0, count)])


def _make(store: ObjectStore, job: Document, index: int | None, number: int) -> Document:
    template, name, uid = job["spec"]["template"], job["metadata"]["name"], job["metadata"]["uid"]
    own = template.get("metadata") or {}
    annotations = dict(own.get("annotations") or {})
    labels = {
        **(own.get("labels") or {}),
        names.CONTROLLER_UID: uid,
        "batch.kubernetes.io/job-name": name,
        "job-name": name,
    }
    if index is not None:
        annotations[names.COMPLETION_INDEX] = str(index)
        labels[names.COMPLETION_INDEX] = str(index)
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    meta = {
        "name": f"{name}-{'' if index is None else f'{index}-'}{store.version:x}{number:x}",
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [reference],
        "finalizers": [TRACKING],
    }
    body = {"metadata": meta, "spec": copy.deepcopy(template["spec"])}
    return requests.create(store, PODS, job["metadata"]["namespace"], body, JOB_CONTROLLER)
