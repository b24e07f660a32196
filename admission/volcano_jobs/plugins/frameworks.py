"""Plugins that say in each container's environment which pod it is in, and how frameworks find the other pods.

Those of frameworks bring the plugin ``svc`` with them, by which pods have host names; ``mpi`` also ``ssh``.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from admission.facts.volcano_jobs import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.containers import add_environment, open_port
from admission.volcano_jobs.plugins.svc import hosts_of
from admission.volcano_jobs.task_index import IndexPlaceholder
from queues.api.validation.plugin_flags import PluginFlags

_WAITING: Final = "wait-for-master"
#: TensorFlow's words for what pods do; a flag of that name says which task it is.
_ROLES: Final = ("ps", "worker", "chief", "evaluator")
RANK_ANNOTATION: Final = "hccl/rankIndex"


def add_index(
    pod: dict[str, Any], _job: JobSpec, _task: TaskSpec, index: IndexPlaceholder, _flags: PluginFlags
) -> None:
    """``env``: the pod's index as ``VC_TASK_INDEX`` and the older ``VK_TASK_INDEX``, in init containers too."""
    add_environment(pod, dict.fromkeys(("VK_TASK_INDEX", "VC_TASK_INDEX"), str(index)))


def name_workers(
    pod: dict[str, Any], job: JobSpec, task: TaskSpec, _index: IndexPlaceholder, flags: PluginFlags
) -> None:
    """``mpi``: ``MPI_HOST`` with the hosts of the workers in every container of the master, and a port for ssh."""
    open_port(pod, "mpijob-port", flags.numbers["port"])
    workers = job.task(flags.texts["worker"])
    if task.name == flags.texts["master"] and workers is not None:
        add_environment(pod, {"MPI_HOST": ",".join(map(str, hosts_of(job, workers)))})


def join_process_group(
    pod: dict[str, Any], job: JobSpec, task: TaskSpec, index: IndexPlaceholder, flags: PluginFlags
) -> None:
    """``pytorch``: the environment by which ``torch.distributed`` finds the other processes (``env://``).

    Without a master task there is nothing that the variables could name.
    """
    master, worker, port = flags.texts["master"], flags.texts["worker"], flags.numbers["port"]
    masters, workers = job.task(master), job.task(worker)
    if masters is None or not masters.replicas:
        return
    address = str(hosts_of(job, masters)[0])
    others = pod["spec"].get("initContainers") or ()
    is_waiting = any(container.get("name") == _WAITING for container in others)
    if flags.switches["wait-master-enabled"] and task.name == worker and not is_waiting:
        pod["spec"]["initContainers"] = [_waiting_container(address, flags), *others]
    variables = {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(masters.replicas + (0 if workers is None else workers.replicas)),
    }
    if task.name == master:
        variables["RANK"] = "0"
    elif task.name == worker:
        variables["RANK"] = index.plus(1)
    open_port(pod, "pytorchjob-port", port)
    add_environment(pod, variables)


def _waiting_container(address: str, flags: PluginFlags) -> dict[str, Any]:
    """It ends well once the master listens, and fails when that takes too long."""
    port, timeout = flags.numbers["port"], flags.numbers["wait-master-timeout"]
    script = (
        f"waited=0; until nc -z -w 1 {address} {port}; do "
        f"waited=$((waited + 1)); "
        f'if [ "$waited" -ge {timeout} ]; then echo "{address}:{port} does not answer"; exit 1; fi; '
        f"sleep 1; done"
    )
    return {"name": _WAITING, "image": flags.texts["wait-master-image"], "command": ["sh", "-c", script]}


def describe_cluster(
    pod: dict[str, Any], job: JobSpec, task: TaskSpec, index: IndexPlaceholder, flags: PluginFlags
) -> None:
    """``tensorflow``: ``TF_CONFIG`` with the hosts of each role and the pod's own place.

    A Job of one pod has no other process to find, and gets none.
    """
    tasks = {role: flags.texts[role] for role in _ROLES}
    role = next((role for role, name in tasks.items() if name == task.name), None)
    if role is None or (len(job.tasks) == 1 and task.replicas == 1):
        return
    cluster = {
        role: [f"{host}:{flags.numbers['port']}" for host in hosts_of(job, found)]
        for role, name in tasks.items()
        if (found := job.task(name)) is not None
    }
    written = msgspec.json.encode(cluster).decode()
    value = f'{{"cluster":{written},"task":{{"type":"{role}","index":{index}}}}}'
    add_environment(pod, {"TF_CONFIG": value})


def annotate_rank(
    pod: dict[str, Any], job: JobSpec, task: TaskSpec, index: IndexPlaceholder, flags: PluginFlags
) -> None:
    """``hcclrank``: the rank of a pod among those that use Huawei's collective library, as an annotation.

    The variable ``RANK`` of a container says the rank, also where another plugin wrote it; else the masters come first,
    then the workers.
    """
    rank = _rank_in_environment(pod)
    if rank is None and task.name == flags.texts["master"]:
        rank = str(index)
    if rank is None and task.name == flags.texts["worker"]:
        masters = job.task(flags.texts["master"])
        rank = index.plus(0 if masters is None else masters.replicas)
    if rank is not None:
        pod["metadata"]["annotations"][RANK_ANNOTATION] = rank


def _rank_in_environment(pod: Mapping[str, Any]) -> str | None:
    """The last value of ``RANK``, which is the one that counts, of the first container that has it."""
    for container in pod["spec"].get("containers") or ():
        found = [line.get("value") for line in container.get("env") or () if line.get("name") == "RANK"]
        if found and found[-1]:
            return str(found[-1])
    return None
