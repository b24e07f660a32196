"""Plugin ``svc``: every pod has a host name, and every container knows the host names of all pods of the Job."""

from typing import Any, NamedTuple

from admission.facts.volcano_jobs import JobSpec, TaskSpec
from admission.volcano_jobs.companions import Companion, job_selector, owned_manifest
from admission.volcano_jobs.plugins.containers import add_environment, add_volume
from admission.volcano_jobs.task_index import IndexPlaceholder
from queues.api.api_resources import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from queues.api.validation.host_rules import fits_in_a_variable, hosts_variable, size_of_hosts
from queues.api.validation.plugin_flags import PluginFlags


def configure_pod(
    pod: dict[str, Any],
    job: JobSpec,
    _task: TaskSpec,
    _index: IndexPlaceholder,
    flags: PluginFlags,
) -> None:
    """Set host name and subdomain; add ``/etc/volcano`` and ``VC_<TASK>_HOSTS`` / ``VC_<TASK>_NUM``."""
    spec = pod["spec"]
    spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
    spec["subdomain"] = spec.get("subdomain") or job.name
    source = f"{job.name}-svc"
    if flags.switches["inject-hosts-env"]:
        variables = [
            variable
            for task in job.tasks
            for variable in (*_hosts_variables(job, task), f"VC_{_upper(task.name)}_NUM")
        ]
        references = {key: {"configMapKeyRef": {"name": source, "key": key}} for key in variables}
        add_environment(pod, references)
    volume = {"name": source, "configMap": {"name": source}}
    add_volume(pod, volume, {"name": source, "mountPath": "/etc/volcano"})


def companions(job: JobSpec, flags: PluginFlags) -> tuple[Companion, ...]:
    """The ConfigMap, which pods refer to, then the headless Service and the NetworkPolicy."""
    name = f"{job.name}-svc"
    hosts = Companion(
        resource=CONFIG_MAPS,
        name=name,
        manifest=owned_manifest(CONFIG_MAPS, job, name, data=host_files(job)),
        status_entry=("plugin-svc", "svc"),
        follows_scale=True,
    )
    spec = {
        "clusterIP": "None",
        "selector": job_selector(job),
        "publishNotReadyAddresses": flags.switches["publish-not-ready-addresses"],
    }
    manifest = owned_manifest(SERVICES, job, job.name, spec=spec)
    service = Companion(resource=SERVICES, name=job.name, manifest=manifest)
    if flags.switches["disable-network-policy"]:
        return (hosts, service)
    return (hosts, service, _network_policy(job))


class PodHost(NamedTuple):
    """Where a pod of a Job is reached by its peers; written as ``name.subdomain``."""

    name: str
    subdomain: str

    def __str__(self) -> str:
        return f"{self.name}.{self.subdomain}"


def host_files(job: JobSpec) -> dict[str, str]:
    """Data of the ConfigMap: ``<task>.host`` with one host a line, and the values of the variables.

    Hosts that are too long for a variable are in the file only: no container would start with it.
    """
    files: dict[str, str] = {}
    for task in job.tasks:
        hosts = [str(host) for host in hosts_of(job, task)]
        files[f"{task.name}.host"] = "\n".join(hosts)
        files |= dict.fromkeys(_hosts_variables(job, task), ",".join(hosts))
        files[f"VC_{_upper(task.name)}_NUM"] = str(len(hosts))
    return files


def _hosts_variables(job: JobSpec, task: TaskSpec) -> tuple[str, ...]:
    """The variable with the hosts of a task; (): they are too long for the environment."""
    size = size_of_hosts(job.name, task.name, task.replicas, task.hostname, task.subdomain)
    return (hosts_variable(task.name),) if fits_in_a_variable(task.name, size) else ()


def hosts_of(job: JobSpec, task: TaskSpec) -> list[PodHost]:
    """Hosts of a task's pods. Pods that have one hostname, from their template, are listed once."""
    subdomain = task.subdomain or job.name
    if task.hostname:
        return [PodHost(task.hostname, subdomain)] if task.replicas else []
    return [PodHost(job.pod_name(task.name, index), subdomain) for index in range(task.replicas)]


def _network_policy(job: JobSpec) -> Companion:
    """Pods of the Job accept connections from pods of the same Job only."""
    selector = {"matchLabels": job_selector(job)}
    spec = {
        "podSelector": selector,
        "ingress": [{"from": [{"podSelector": selector}]}],
        "policyTypes": ["Ingress"],
    }
    manifest = owned_manifest(NETWORK_POLICIES, job, job.name, spec=spec)
    return Companion(resource=NETWORK_POLICIES, name=job.name, manifest=manifest)


def _upper(task: str) -> str:
    return task.upper().replace("-", "_")
