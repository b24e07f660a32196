"""Plugin ``ray``: the containers of a Job start a Ray cluster, reached by a Service for its head.

The plugin ``svc`` comes with it.
"""

from collections.abc import Mapping
from typing import Any

from admission.facts.volcano_jobs import JobSpec, TaskSpec
from admission.volcano_jobs.companions import Companion, job_selector, owned_manifest
from admission.volcano_jobs.plugins.containers import open_port
from admission.volcano_jobs.plugins.svc import hosts_of
from admission.volcano_jobs.task_index import IndexPlaceholder
from queues.api import names
from queues.api.api_resources import SERVICES
from queues.api.validation.plugin_flags import PluginFlags


def configure_pod(
    pod: dict[str, Any],
    job: JobSpec,
    task: TaskSpec,
    _index: IndexPlaceholder,
    flags: PluginFlags,
) -> None:
    """Replace the command of the container that runs Ray."""
    texts, numbers = flags.texts, flags.numbers
    heads = job.task(texts["head"])
    if heads is None or not heads.replicas:
        return
    if task.name == texts["head"]:
        _run(
            pod,
            texts["headContainer"],
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={numbers['port']} "
            f"--dashboard-port={numbers['dashboardPort']} --ray-client-server-port={numbers['clientPort']}",
        )
        for name, number in _ports(flags).items():
            open_port(pod, name, number, only=texts["headContainer"])
    elif task.name == texts["worker"]:
        address = f"{hosts_of(job, heads)[0]}:{numbers['port']}"
        _run(pod, texts["workerContainer"], f"ray start --block --address={address}")


def companions(job: JobSpec, flags: PluginFlags) -> tuple[Companion, ...]:
    """The Service of the head, ``<job>-head-svc``."""
    head = flags.texts["head"]
    if job.task(head) is None:
        return ()
    name = f"{job.name}-head-svc"
    ports = [{"name": each, "port": port, "targetPort": port} for each, port in _ports(flags).items()]
    selector = {**job_selector(job), names.TASK_SPEC: head}
    manifest = owned_manifest(SERVICES, job, name, spec={"selector": selector, "ports": ports})
    return (Companion(resource=SERVICES, name=name, manifest=manifest, status_entry=("plugin-ray", "ray")),)


def _ports(flags: PluginFlags) -> dict[str, int]:
    flag_names = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}
    return {name: flags.numbers[flag] for name, flag in flag_names.items()}


def _run(pod: Mapping[str, Any], name: str, command: str) -> None:
    """Let a container run a command in place of its own."""
    for container in pod["spec"].get("containers") or ():
        if container.get("name") == name:
            container["command"] = ["sh", "-c", command]
            container.pop("args", None)
