"""Rules for Volcano Jobs, with the wording of Volcano's validating webhook where it has one."""

from collections.abc import Collection, Iterator, Mapping

from queues.api.model import excerpt
from queues.api.names import ROOT_QUEUE
from queues.api.reading.user_values import LABEL, MOST_PODS, SUBDOMAIN
from queues.api.types.volcano_job import NetworkTopology, VolcanoJob, VolcanoTaskSpec
from queues.api.validation.host_rules import host_violations
from queues.api.validation.lifecycle_rules import policy_violations
from queues.api.validation.pod_rules import annotation_violations, template_violations
from queues.api.validation.violations import NOT_A_LABEL, Violation
from queues.quota.queue import Queue, path_upwards

#: Job plugins that Volcano knows.
PLUGINS = ("env", "svc", "ssh", "mpi", "pytorch", "tensorflow", "ray", "hcclrank")

#: Violations after which no further task is looked at.
_ENOUGH = 100

#: Stands for the suffix that the API server appends to generateName.
_GENERATED = "xxxxx"


def job_violations(
    job: VolcanoJob, queues: Mapping[str, Queue] | None, levels: Collection[str] | None
) -> list[Violation]:
    """Violations of a Job with its defaults filled in.

    ``queues``: the queues that exist; ``levels``: the node label keys that are topology levels. None if not known:
    references to them are then not checked.
    """
    spec = job.spec
    if not spec.tasks:
        return [Violation("spec.tasks", "no task", "at least one task", "No task specified in job spec")]
    found = list(_names(job))
    names: set[str] = set()
    for index, task in enumerate(spec.tasks):
        if len(found) >= _ENOUGH:
            return found  # further tasks have as many, and each takes its time
        found += _task(job, task, f"spec.tasks[{index}]", levels)
        if task.name in names:
            path, wording = f"spec.tasks[{index}].name", f" duplicated task name {task.name};"
            found.append(Violation(path, excerpt(task.name), "a name that no other task has", wording))
        names.add(task.name)
    found += size_warnings(sum(task.replicas for task in spec.tasks), "spec.tasks")
    found += _gang(job, " job 'minAvailable' should not be greater than total replicas in tasks;")
    found += _plugins(job, names)
    found += host_violations(job)
    found += _dependencies(job, names)
    found += policy_violations(spec.policies, "spec.policies")
    found += _volumes(job)
    found += network_topology_violations(spec.network_topology, "spec.networkTopology")
    found += queue_reference_violations(spec.queue, queues, "spec.queue")
    found += annotation_violations(job.metadata.annotations, "metadata.annotations", levels)
    return found


def queue_reference_violations(
    name: str, queues: Mapping[str, Queue] | None, path: str, *, what: str = "job"
) -> Iterator[Violation]:
    """Violations of a reference to a queue: it must exist, be open, not be root and have no children."""
    if queues is None:
        return
    queue = queues.get(name)
    if queue is None:
        lead = " unable to find job queue: " if what == "job" else "unable to find queue: "
        wording = f'{lead}queues.scheduling.volcano.sh "{name}" not found;'
        yield Violation(path, excerpt(name), "the name of a Queue that exists", wording, missing=name)
        return
    if any(each.closed for each in path_upwards(queue.name, queues.get)):
        wording = f" can only submit {what} to queue with state `Open`, queue `{name}` status is `Closed`;"
        yield Violation(path, excerpt(name), "a queue that is open", wording)
    if name == ROOT_QUEUE:
        yield Violation(path, excerpt(name), "a queue below root", f" can not submit {what} to root queue;")
        return
    children = sum(1 for other in queues.values() if other.parent == name)
    if children:
        wording = f" can only submit {what} to leaf queue, queue `{name}` has {children} child queues;"
        yield Violation(path, excerpt(name), "a queue without children", wording)


def size_warnings(pods: int, path: str) -> Iterator[Violation]:
    """The warning about a gang that is never considered for its size. Volcano accepts it."""
    if pods > MOST_PODS:
        yield Violation(path, f"{pods} pods", f"at most {MOST_PODS}", tolerable=True)


def network_topology_violations(
    topology: NetworkTopology | None, path: str, lead: str = ""
) -> Iterator[Violation]:
    """Violations of a networkTopology: the highest tier is given by number or by name, not both."""
    wording = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
    if topology and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield Violation(path, "highestTierAllowed and highestTierName", "one of them", lead + wording)


def _names(job: VolcanoJob) -> Iterator[Violation]:
    metadata = job.metadata
    name = metadata.name or (metadata.generate_name + _GENERATED if metadata.generate_name else "")
    path = "metadata.name" if metadata.name else "metadata.generateName"
    if not name:
        yield Violation("metadata.name", "nothing", "a name, or generateName")
        return
    if SUBDOMAIN.fullmatch(name) is None:
        wording = f"create job with name {name} validate failed [{NOT_A_LABEL}]"
        yield Violation(path, excerpt(name), NOT_A_LABEL, wording)
        return
    # With svc, a pod's name is its hostname and the Job's name that of the Service: labels without dots.
    pattern = LABEL if "svc" in job.spec.plugins else SUBDOMAIN
    for index, task in enumerate(job.spec.tasks):
        pod = f"{name}-{task.name}-{max(task.replicas - 1, 0)}"
        if len(pod) > 63:
            why = f"must be no more than 63 characters, {pod} has {len(pod)}"
        elif pattern.fullmatch(pod) is None:
            why = NOT_A_LABEL
        else:
            continue
        yield Violation(
            f"spec.tasks[{index}].name", pod, why, f"create pod with name {pod} validate failed [{why}];"
        )
        return


def _task(
    job: VolcanoJob, task: VolcanoTaskSpec, path: str, levels: Collection[str] | None
) -> Iterator[Violation]:
    if not task.name or LABEL.fullmatch(task.name) is None:
        yield Violation(f"{path}.name", excerpt(task.name), NOT_A_LABEL, f" [{NOT_A_LABEL}];")
    if task.min_available is not None and task.min_available > task.replicas:
        wording = (
            f" 'minAvailable' is greater than 'replicas' in task: {task.name}, job: {job.metadata.name};"
        )
        yield _minimum_of_task(task, path, wording)
    yield from policy_violations(task.policies, f"{path}.policies")
    yield from _partitions(task, f"{path}.partitionPolicy")
    yield from template_violations(task.template, f"{path}.template", job.metadata.namespace, levels)


def _minimum_of_task(task: VolcanoTaskSpec, path: str, wording: str) -> Violation:
    expected = f"at most {task.replicas}, the task's replicas"
    return Violation(f"{path}.minAvailable", str(task.min_available), expected, wording)


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


def _gang(job: VolcanoJob, wording: str) -> Iterator[Violation]:
    replicas = sum(task.replicas for task in job.spec.tasks)
    if job.spec.min_available > replicas:
        expected = f"at most {replicas}, the replicas of all tasks"
        yield Violation("spec.minAvailable", str(job.spec.min_available), expected, wording)
    success = job.spec.min_success
    if success is not None and success > replicas:
        expected = (
            f"at most {replicas}, the replicas of all tasks: the Job would fail when all pods have succeeded"
        )
        yield Violation("spec.minSuccess", str(success), expected, tolerable=True)


def _plugins(job: VolcanoJob, tasks: Collection[str]) -> Iterator[Violation]:
    for name in job.spec.plugins:
        if name not in PLUGINS:
            wording = f" unable to find job plugin: {name};"
            yield Violation(f"spec.plugins.{name}", excerpt(name), f"one of {', '.join(PLUGINS)}", wording)
    if "mpi" in job.spec.plugins:
        for role in ("master", "worker"):
            task = _flag_value(job.spec.plugins["mpi"], role) or role
            if task not in tasks:
                wording = f"The specified mpi {role} task was not found"
                yield Violation(
                    "spec.plugins.mpi", f"no task {task}", f"a task {task} for the {role}", wording
                )


def _flag_value(arguments: Collection[str], name: str) -> str | None:
    """The value of ``--name=value`` or ``--name value`` among a plugin's arguments; None if the flag is absent."""
    words = [word for argument in arguments for word in argument.split()]
    for index, word in enumerate(words):
        key, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and key == name:
            return value if equals else words[index + 1] if index + 1 < len(words) else ""
    return None


def _dependencies(job: VolcanoJob, names: Collection[str]) -> Iterator[Violation]:
    needs = {task.name: set(task.depends_on.name) for task in job.spec.tasks if task.depends_on}
    wording = " job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);"
    for index, task in enumerate(job.spec.tasks):
        for name in needs.get(task.name, ()):
            if name not in names:
                yield Violation(
                    f"spec.tasks[{index}].dependsOn", excerpt(name), "the name of a task", wording
                )
    ready = {name for name in names if name not in needs}
    while next_ready := {name for name, wanted in needs.items() if name not in ready and wanted <= ready}:
        ready |= next_ready
    cyclic = {name for name in needs if name not in ready and needs[name] <= set(names)}
    if cyclic:
        ring = f"tasks that depend on one another in a cycle: {', '.join(sorted(cyclic))}"
        yield Violation("spec.tasks", ring, "no cycle", wording)


def _volumes(job: VolcanoJob) -> Iterator[Violation]:
    paths: set[str] = set()
    for index, volume in enumerate(job.spec.volumes):
        here = f"spec.volumes[{index}]"
        if not volume.mount_path:
            yield Violation(f"{here}.mountPath", "nothing", "a path", " mountPath is required;")
        elif volume.mount_path in paths:
            wording = f" duplicated mountPath: {volume.mount_path};"
            yield Violation(f"{here}.mountPath", excerpt(volume.mount_path), "a path of its own", wording)
        elif ":" in volume.mount_path:
            yield Violation(f"{here}.mountPath", excerpt(volume.mount_path), "a path without ':'")
        paths.add(volume.mount_path)
        if volume.volume_claim is None and not volume.volume_claim_name:
            wording = " either VolumeClaim or VolumeClaimName must be specified;"
            yield Violation(here, "neither volumeClaim nor volumeClaimName", "one of them", wording)
        elif volume.volume_claim is not None and volume.volume_claim_name:
            wording = (
                "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
                "If you want to create a new PVC, you do not need to specify VolumeClaimName"
            )
            yield Violation(here, "volumeClaim and volumeClaimName", "one of them", wording)
