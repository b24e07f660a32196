"""What the other components of a cluster do, in the fake cluster: each call is one look at everything."""

import copy

from queues.api import names
from tests.fakes.fake_cluster import FakeCluster, JobSync
from tests.fakes.fake_objects import ENDED, GPU, Document, gpus_of, index_of, is_up, owner_of, time_text
from tests.node_affinity import pinned_nodes


def control_jobs(cluster: FakeCluster, most: int = 1000) -> None:
    """The job controller and the garbage collector look once at everything. ``most``: pods that a sync of the job
    controller makes until the next look, when it goes on; its Job is not read again before it is over."""
    for pod in list(cluster.objects["pods"].values()):
        owner = owner_of(pod)
        gone = owner is not None and not any(owner in cluster.objects[kind] for kind in ("jobs", "vcjobs"))
        if gone and "deletionTimestamp" not in pod["metadata"]:
            cluster.delete_pod(pod["metadata"]["uid"])
        elif pod["spec"].get("nodeName", "") not in {"", *cluster.objects["nodes"]}:
            cluster.delete_pod(pod["metadata"]["uid"], grace=0)
    for uid in list(cluster.objects["jobs"]):
        sync = cluster.syncs.pop(uid, None) or _begun(cluster, uid)
        if sync is not None:
            _go_on(cluster, uid, sync, most)
    for uid in cluster.syncs.keys() - cluster.objects["jobs"].keys():
        _go_on(cluster, uid, cluster.syncs.pop(uid), most)


def _begun(cluster: FakeCluster, uid: str) -> JobSync | None:
    """A sync of one Job: pods are counted and let go. None: the Job is finished."""
    job = cluster.objects["jobs"][uid]
    if any(condition["type"] == "Complete" for condition in job["status"].get("conditions", ())):
        return None
    pods = [pod for pod in cluster.objects["pods"].values() if owner_of(pod) == uid]
    done = _count(cluster, uid, pods)
    job = copy.deepcopy(cluster.objects["jobs"][uid])
    spec, status = job["spec"], job["status"]
    active = [
        pod
        for pod in pods
        if pod["status"]["phase"] not in ENDED and "deletionTimestamp" not in pod["metadata"]
    ]
    left = spec["completions"] - status.get("succeeded", 0)
    excess = len(active) if spec["suspend"] or left <= 0 else len(active) - min(spec["parallelism"], left)
    for pod in active[len(active) - excess :] if excess > 0 else ():
        cluster.delete_pod(pod["metadata"]["uid"])
        active.remove(pod)
    ending = [
        pod
        for pod in cluster.objects["pods"].values()
        if owner_of(pod) == uid
        and pod["status"]["phase"] not in ENDED
        and "deletionTimestamp" in pod["metadata"]
        and spec.get("podReplacementPolicy") == "Failed"
    ]
    busy = {index_of(pod) for pod in (*active, *ending)} | done
    missing: list[int | None] = []
    for _ in range(max(0, -excess - len(ending)) if not spec["suspend"] and left > 0 else 0):
        index = next(index for index in range(spec["completions"]) if index not in busy)
        indexed = spec["completionMode"] == "Indexed"
        busy |= {index} if indexed else set()
        missing.append(index if indexed else None)
    status["conditions"] = _suspension(status.get("conditions", []), suspend=spec["suspend"], now=cluster.now)
    if left <= 0:
        status["conditions"] = [{"type": "Complete", "status": "True"}]
    status["active"] = len(active) + len(missing)
    return JobSync(job, missing)


def _go_on(cluster: FakeCluster, uid: str, sync: JobSync, most: int) -> None:
    """Pods are made, and the status is written after the last one, unless the Job is another one by then."""
    for number, index in enumerate(sync.missing[:most]):
        _job_pod(cluster, uid, sync.job, index, number)
    del sync.missing[:most]
    if sync.missing:
        cluster.syncs[uid] = sync
        return
    now_is = cluster.objects["jobs"].get(uid)
    if now_is is not None and now_is["metadata"]["generation"] == sync.job["metadata"]["generation"]:
        cluster.change("jobs", uid, {"status": sync.job["status"]})


def _count(cluster: FakeCluster, uid: str, pods: list[Document]) -> set[int | None]:
    """Write how many pods have succeeded; what is done."""
    job = cluster.objects["jobs"][uid]
    status = copy.deepcopy(job["status"])
    done = set(status.get("done", ()))
    for pod in pods:
        if pod["status"]["phase"] in ENDED and pod["metadata"]["uid"] not in cluster.counted:
            cluster.counted.add(pod["metadata"]["uid"])
            if pod["status"]["phase"] == "Succeeded":
                index = index_of(pod)
                if index not in done or job["spec"]["completionMode"] != "Indexed":
                    status["succeeded"] = status.get("succeeded", 0) + 1
                done.add(index)
    status["done"] = sorted(done, key=str)
    if job["spec"]["completionMode"] == "Indexed":
        status["completedIndexes"] = ",".join(
            str(index) for index in sorted(each for each in done if each is not None)
        )
    cluster.change("jobs", uid, {"status": status})
    return done


def _suspension(conditions: list[Document], *, suspend: bool, now: int) -> list[Document]:
    """The conditions of a Job, with that of its suspension."""
    known = next((each for each in conditions if each["type"] == "Suspended"), None)
    if (known is not None and known["status"] == str(suspend)) or (known is None and not suspend):
        return conditions
    others = [each for each in conditions if each is not known]
    return [
        *others,
        {"type": "Suspended", "status": str(suspend), "lastTransitionTime": time_text(now)},
    ]


def _job_pod(cluster: FakeCluster, uid: str, job: Document, index: int | None, number: int) -> Document:
    template = job["spec"]["template"]
    meta = template.get("metadata") or {}
    labels, annotations = dict(meta.get("labels") or {}), dict(meta.get("annotations") or {})
    if index is not None:
        annotations[names.COMPLETION_INDEX] = str(index)
    gated = labels.get(names.RELEASED) != "true"
    labels.setdefault(names.RELEASED, "false")
    name = job["metadata"]["name"]
    labels[names.CONTROLLER_UID] = uid
    owner = {"apiVersion": "batch/v1", "kind": "Job", "uid": uid, "controller": True, "name": name}
    pod = cluster.add_pod(
        f"{job['metadata']['name']}-{cluster.versions}-{number}",
        copy.deepcopy(template["spec"]),
        labels,
        annotations,
        gated=gated,
        owners=[owner],
    )
    return cluster.objects["pods"][pod]


def schedule(cluster: FakeCluster) -> None:
    """The scheduler tries every pod that waits for it."""
    for uid, pod in list(cluster.objects["pods"].items()):
        spec = pod["spec"]
        if "nodeName" in spec or "schedulingGates" in spec or pod["status"]["phase"] in ENDED:
            continue
        place = next((name for name in _allowed(cluster, spec) if _fits(cluster, name, spec)), None)
        if place is not None:
            cluster.change("pods", uid, {"spec": {"nodeName": place}, "status": {"conditions": None}})
        elif not pod["status"].get("conditions"):
            refusal = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": time_text(cluster.now),
            }
            cluster.change("pods", uid, {"status": {"conditions": [refusal]}})


def preempt(cluster: FakeCluster, uid: str) -> None:
    """The scheduler takes a bound pod away for another one: it says so first."""
    why = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    cluster.change("pods", uid, {"status": {"conditions": [why]}})
    cluster.preempted[uid] = cluster.objects["pods"][uid]["metadata"]["name"]
    cluster.delete_pod(uid)


def _allowed(cluster: FakeCluster, spec: Document) -> list[str]:
    pins = pinned_nodes(spec)
    return [
        name
        for name, node in sorted(cluster.objects["nodes"].items())
        if (not pins or name in pins) and is_up(node) and not node["spec"].get("unschedulable")
    ]


def _fits(cluster: FakeCluster, node: str, spec: Document) -> bool:
    allocatable = int(cluster.objects["nodes"][node]["status"]["allocatable"][GPU])
    return cluster.gpus_on(node) + gpus_of(spec) <= allocatable


def run_pods(cluster: FakeCluster) -> None:
    """Kubelets of nodes that live: start what is bound, let go what is to go."""
    for uid, pod in list(cluster.objects["pods"].items()):
        node = cluster.objects["nodes"].get(pod["spec"].get("nodeName", ""))
        if node is None or not is_up(node):
            continue
        if "deletionTimestamp" in pod["metadata"]:
            cluster.remove("pods", uid)
        elif pod["status"]["phase"] == "Pending":
            _start(cluster, uid, pod)


def _start(cluster: FakeCluster, uid: str, pod: Document) -> None:
    if pod["metadata"]["name"].startswith(tuple(cluster.unpullable)):
        if "containerStatuses" not in pod["status"]:
            waiting = {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
            status = {"conditions": _true(cluster, "PodScheduled"), "containerStatuses": [waiting]}
            cluster.change("pods", uid, {"status": status})
        return
    conditions = _true(cluster, "PodScheduled", "Ready")
    cluster.change("pods", uid, {"status": {"phase": "Running", "conditions": conditions}})


def _true(cluster: FakeCluster, *kinds: str) -> list[Document]:
    moment = time_text(cluster.now)
    return [{"type": kind, "status": "True", "lastTransitionTime": moment} for kind in kinds]
