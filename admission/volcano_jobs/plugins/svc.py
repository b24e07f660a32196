"""Plugin ``svc``: every pod has a host name, and every container knows the host names of all pods of the Job."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from admission.volcano_jobs.companions import Companion, job_selector, owned_manifest
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.containers import add_environment, add_volume
from admission.volcano_jobs.plugins.flags import boolean
from admission.volcano_jobs.task_index import IndexPlaceholder, TaskIndex
from queues.api.api_resources import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from queues.api.validation.host_rules import fits_in_a_variable, hosts_variable, size_of_hosts
from queues.api.validation.unsupported import ACTING_FLAGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Svc:
    """Headless Service, NetworkPolicy and ConfigMap of hosts; ``hostname.subdomain`` per pod."""

    name: ClassVar[str] = "svc"
    flags: ClassVar[frozenset[str]] = ACTING_FLAGS["svc"]
    boolean_flags: ClassVar[frozenset[str]] = flags

    publish_not_ready_addresses: bool = False
    disable_network_policy: bool = False
    inject_hosts_env: bool = True

    @classmethod
    def from_flags(cls, flags: Mapping[str, str]) -> Self:
        """The plugin with the written values, else the defaults of Volcano. Raises InvalidDocument."""

        def value(name: str, default: bool) -> bool:
            return boolean(cls.name, name, flags[name]) if name in flags else default

        return cls(
            publish_not_ready_addresses=value("publish-not-ready-addresses", False),
            disable_network_policy=value("disable-network-policy", False),
            inject_hosts_env=value("inject-hosts-env", True),
        )

    def configure_pod(
        self, pod: dict[str, Any], job: JobSpec, _task: TaskSpec, _index: TaskIndex | IndexPlaceholder
    ) -> None:
        """Set host name and subdomain; add ``/etc/volcano`` and ``VC_<TASK>_HOSTS`` / ``VC_<TASK>_NUM``."""
        spec = pod["spec"]
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or job.name
        source = f"{job.name}-svc"
        if self.inject_hosts_env:
            add_environment(
                pod,
                [
                    {"name": key, "valueFrom": {"configMapKeyRef": {"name": source, "key": key}}}
                    for task in job.tasks
                    for key in (hosts_variable(task.name), f"VC_{_upper(task.name)}_NUM")
                    if key != hosts_variable(task.name) or _fit_in_a_variable(job, task)
                ],
            )
        add_volume(
            pod,
            {"name": source, "configMap": {"name": source}},
            {"name": source, "mountPath": "/etc/volcano"},
        )

    def companions(self, job: JobSpec) -> tuple[Companion, ...]:
        """The ConfigMap, which pods refer to, then the Service and the NetworkPolicy."""
        hosts = Companion(
            resource=CONFIG_MAPS,
            name=f"{job.name}-svc",
            manifest=owned_manifest(CONFIG_MAPS, job, f"{job.name}-svc", data=host_files(job)),
            status_entry=("plugin-svc", "svc"),
            follows_scale=True,
        )
        service = Companion(
            resource=SERVICES,
            name=job.name,
            manifest=owned_manifest(
                SERVICES,
                job,
                job.name,
                spec={
                    "clusterIP": "None",
                    "selector": job_selector(job),
                    "publishNotReadyAddresses": self.publish_not_ready_addresses,
                },
            ),
        )
        if self.disable_network_policy:
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
        if _fit_in_a_variable(job, task):
            files[hosts_variable(task.name)] = ",".join(hosts)
        files[f"VC_{_upper(task.name)}_NUM"] = str(len(hosts))
    return files


def _fit_in_a_variable(job: JobSpec, task: TaskSpec) -> bool:
    """Whether the hosts of a task are short enough for the environment."""
    size = size_of_hosts(job.name, task.name, task.replicas, task.hostname, task.subdomain)
    return fits_in_a_variable(task.name, size)


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
