"""Rules for Volcano Jobs, those of Volcano's validating webhook among them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from queues.api.names import ROOT_QUEUE
from queues.api.reading.user_values import LABEL, MOST_PODS, SUBDOMAIN
from queues.api.types.volcano_job import NetworkTopology, VolcanoJob, VolcanoTaskSpec
from queues.api.validation.defaults import MAX_RETRY
from queues.api.validation.host_rules import host_violations
from queues.api.validation.known import Known
from queues.api.validation.lifecycle_rules import policy_violations
from queues.api.validation.plugin_flags import PLUGINS, written_flags
from queues.api.validation.pod_rules import annotation_violations, template_violations
from queues.api.validation.violations import NOT_A_LABEL, Violation
from queues.json_values import list_at, value_at
from queues.quota.access import access_refusal
from queues.quota.queue import Queue, path_upwards
from queues.reason_codes import did_you_mean, with_advice
from queues.text_format import excerpt, names_alike

#: Violations after which no further task is looked at.
_ENOUGH = 100

#: What is said of a 0 that counts as absent.
_RETRIES = (
    f"1 or more: 0 counts as {MAX_RETRY}, as in Volcano. For no restart leave its policies RestartJob out"
)
_OF_TASK = f"-1 or 1 and more: 0 counts as {MAX_RETRY}, as in Volcano; -1 is never"
_MINIMUM = "1 or more: 0 counts as the sum of the tasks' minAvailable, as in Volcano"

#: Stands for the suffix that the API server appends to generateName.
_GENERATED = "xxxxx"


def job_violations(job: VolcanoJob, known: Known) -> list[Violation]:
    """Violations of a Job with its defaults filled in."""
    spec = job.spec
    if not spec.tasks:
        return [Violation("spec.tasks", "no task", "at least one task")]
    found = list(_names(job))
    names: set[str] = set()
    for index, task in enumerate(spec.tasks):
        if len(found) >= _ENOUGH:
            return found  # further tasks have as many, and each takes its time
        found += _task(job, task, f"spec.tasks[{index}]", known.levels)
        if task.name in names:
            path = f"spec.tasks[{index}].name"
            found.append(Violation(path, excerpt(task.name), "a name that no other task has"))
        names.add(task.name)
    found += size_warnings(sum(task.replicas for task in spec.tasks), "spec.tasks")
    found += _gang(job)
    found += _plugins(job, names)
    found += host_violations(job)
    found += dependency_violations(
        {task.name: task.depends_on.name if task.depends_on else () for task in spec.tasks}
    )
    found += policy_violations(spec.policies, "spec.policies")
    found += _volumes(job)
    found += network_topology_violations(spec.network_topology, "spec.networkTopology")
    found += queue_reference_violations(spec.queue, known, "spec.queue")
    found += annotation_violations(job.metadata.annotations, "metadata.annotations", known.levels)
    return found


def queue_reference_violations(name: str, known: Known, path: str) -> Iterator[Violation]:
    """Violations of a reference to a queue: it must exist, be open, not be root and have no children."""
    queues = known.queues
    if queues is None:
        return
    queue = queues.get(name)
    if queue is None:
        meant = did_you_mean(names_alike(name, _usable(queues, known)))
        expected = with_advice("the name of a Queue that exists", meant)
        yield Violation(path, excerpt(name), expected, missing=name)
        return
    if any(each.closed for each in path_upwards(queue.name, queues.get)):
        yield Violation(path, f"{excerpt(name)}, which is closed", "a queue that is open")
    if name == ROOT_QUEUE:
        yield Violation(path, excerpt(name), "a queue below root")
        return
    if any(other.parent == name for other in queues.values()):
        below = [each for each in _usable(queues, known) if queues[each].parent == name]
        expected = "a queue without children" + (f", such as {below[0]}" if below else "")
        yield Violation(path, f"{excerpt(name)}, which has queues below it", expected)


def class_reference_violations(spec: Any, known: Known, path: str) -> Iterator[Violation]:
    """The warning about a priority class that a spec names and that does not exist: it waits for that."""
    name, classes = value_at(spec, "priorityClassName"), known.priority_classes
    if classes is not None and isinstance(name, str) and name and name not in classes:
        near = names_alike(name, (each for each in classes if not each.startswith("system-")))
        expected = with_advice("the name of a PriorityClass", did_you_mean(near))
        yield Violation(f"{path}.priorityClassName", excerpt(name), expected, tolerable=True, missing=name)


def _usable(queues: Mapping[str, Queue], known: Known) -> list[str]:
    """Names of queues that hold work and let the namespace use them: of others users are not told."""
    labels, parents = known.namespace_labels or {}, {each.parent for each in queues.values()}
    return sorted(
        name
        for name, queue in queues.items()
        if name not in parents
        and name != ROOT_QUEUE
        and access_refusal(path_upwards(queue.name, queues.get), labels) is None
    )


def size_warnings(pods: int, path: str) -> Iterator[Violation]:
    """The warning about a gang that is never considered for its size. Volcano accepts it."""
    if pods > MOST_PODS:
        yield Violation(path, f"{pods} pods", f"at most {MOST_PODS}", tolerable=True)


def network_topology_violations(topology: NetworkTopology | None, path: str) -> Iterator[Violation]:
    """Violations of a networkTopology: the highest tier is given by number or by name, not both."""
    if topology and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield Violation(path, "highestTierAllowed and highestTierName", "one of them")


def _names(job: VolcanoJob) -> Iterator[Violation]:
    metadata = job.metadata
    name = metadata.name or (metadata.generate_name + _GENERATED if metadata.generate_name else "")
    path = "metadata.name" if metadata.name else "metadata.generateName"
    if not name:
        yield Violation("metadata.name", "nothing", "a name, or generateName")
        return
    if SUBDOMAIN.fullmatch(name) is None:
        yield Violation(path, excerpt(name), NOT_A_LABEL)
        return
    # With svc, a pod's name is its hostname and the Job's name that of the Service: labels without dots.
    pattern = LABEL if "svc" in job.spec.plugins else SUBDOMAIN
    for index, task in enumerate(job.spec.tasks):
        pod = f"{name}-{task.name}-{max(task.replicas - 1, 0)}"
        expected = ""
        if len(pod) > 63:
            expected = f"at most 63 characters in the name of a pod, this has {len(pod)}"
        elif pattern.fullmatch(pod) is None:
            expected = f"the name of a pod: {NOT_A_LABEL}"
        if expected:
            yield Violation(f"spec.tasks[{index}].name", pod, expected)
            return


def _task(
    job: VolcanoJob, task: VolcanoTaskSpec, path: str, levels: Collection[str] | None
) -> Iterator[Violation]:
    if not task.name or LABEL.fullmatch(task.name) is None:
        yield Violation(f"{path}.name", excerpt(task.name), NOT_A_LABEL)
    if task.min_available is not None and task.min_available > task.replicas:
        expected = f"at most {task.replicas}, the task's replicas"
        yield Violation(f"{path}.minAvailable", str(task.min_available), expected)
    yield from policy_violations(task.policies, f"{path}.policies")
    yield from _partitions(task, f"{path}.partitionPolicy")
    yield from template_violations(task.template, f"{path}.template", job.metadata.namespace, levels)


def _partitions(task: VolcanoTaskSpec, path: str) -> Iterator[Violation]:
    policy = task.partition_policy
    if policy is None:
        return
    pods = policy.total_partitions * policy.partition_size
    if task.replicas != pods:
        yield Violation(
            path,
            f"{policy.total_partitions} partitions of {policy.partition_size} pods",
            f"totalPartitions times partitionSize equal to the task's {task.replicas} replicas",
        )
    minimum = policy.min_partitions * policy.partition_size
    if policy.min_partitions and task.min_available not in (None, minimum):
        yield Violation(
            path,
            f"at least {policy.min_partitions} partitions, minAvailable {task.min_available}",
            f"minAvailable equal to minPartitions times partitionSize, {minimum}",
        )
    yield from network_topology_violations(policy.network_topology, f"{path}.networkTopology")


def _gang(job: VolcanoJob) -> Iterator[Violation]:
    replicas = sum(task.replicas for task in job.spec.tasks)
    if job.spec.min_available > replicas:
        expected = f"at most {replicas}, the replicas of all tasks"
        yield Violation("spec.minAvailable", str(job.spec.min_available), expected)
    success = job.spec.min_success
    if success is not None and success > replicas:
        expected = (
            f"at most {replicas}, the replicas of all tasks: the Job would fail when all pods have succeeded"
        )
        yield Violation("spec.minSuccess", str(success), expected, tolerable=True)


def _plugins(job: VolcanoJob, tasks: Collection[str]) -> Iterator[Violation]:
    for name in job.spec.plugins:
        if name not in PLUGINS:
            yield Violation(f"spec.plugins.{name}", excerpt(name), f"one of {', '.join(PLUGINS)}")
    if "mpi" in job.spec.plugins:
        written = written_flags("mpi", job.spec.plugins["mpi"])
        for role in ("master", "worker"):
            task = written.get(role) or role
            if task not in tasks:
                yield Violation("spec.plugins.mpi", f"no task {task}", f"a task {task} for the {role}")


def dependency_violations(needs: Mapping[str, Collection[str]]) -> Iterator[Violation]:
    """Tasks that can never start. ``needs``: of each task the tasks that come before it."""
    for index, name in enumerate(needs):
        for other in needs[name]:
            if other not in needs:
                yield Violation(f"spec.tasks[{index}].dependsOn", excerpt(other), "the name of a task")
    left = {name: set(wanted) & needs.keys() for name, wanted in needs.items()}
    while startable := [name for name, wanted in left.items() if not wanted & left.keys()]:
        for name in startable:
            del left[name]
    if left:
        ring = f"tasks that depend on one another in a cycle: {', '.join(sorted(left))}"
        yield Violation("spec.tasks", ring, "no cycle")


def _volumes(job: VolcanoJob) -> Iterator[Violation]:
    paths: set[str] = set()
    for index, volume in enumerate(job.spec.volumes):
        here = f"spec.volumes[{index}]"
        if not volume.mount_path:
            yield Violation(f"{here}.mountPath", "nothing", "a path")
        elif volume.mount_path in paths:
            yield Violation(f"{here}.mountPath", excerpt(volume.mount_path), "a path of its own")
        elif ":" in volume.mount_path:
            yield Violation(f"{here}.mountPath", excerpt(volume.mount_path), "a path without ':'")
        paths.add(volume.mount_path)
        if volume.volume_claim is None and not volume.volume_claim_name:
            yield Violation(here, "neither volumeClaim nor volumeClaimName", "one of them")
        elif volume.volume_claim is not None and volume.volume_claim_name:
            expected = "volumeClaimName for a claim that exists, or volumeClaim for a new one"
            yield Violation(here, "volumeClaim and volumeClaimName", expected)


def misread_zeros(document: Mapping[str, Any]) -> Iterator[Violation]:
    """Warnings about each 0 for which a default is taken, in a Volcano Job or an object that Jobs are made from, as its
    user wrote it."""
    match document.get("kind"):
        case "Job" | "JobTemplate":
            yield from _zeros_of(document.get("spec"), "spec")
        case "CronJob":
            yield from _zeros_of(value_at(document, "spec", "jobTemplate", "spec"), "spec.jobTemplate.spec")
        case "JobFlow":
            for index, flow in enumerate(list_at(document, "spec", "flows")):
                for field in ("spec", "jobSpec"):
                    yield from _zeros_of(value_at(flow, "patch", field), f"spec.flows[{index}].patch.{field}")


def _zeros_of(spec: Any, path: str) -> Iterator[Violation]:
    if _is_zero(value_at(spec, "maxRetry")):
        yield Violation(f"{path}.maxRetry", "0", _RETRIES, tolerable=True)
    if _is_zero(value_at(spec, "minAvailable")):
        yield Violation(f"{path}.minAvailable", "0", _MINIMUM, tolerable=True)
    for index, task in enumerate(list_at(spec, "tasks")):
        if _is_zero(value_at(task, "maxRetry")):
            yield Violation(f"{path}.tasks[{index}].maxRetry", "0", _OF_TASK, tolerable=True)


def _is_zero(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == 0
