"""Plugin ``svc``: every pod has a host name, and every container knows all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from admission.volcano_jobs.companions import CORE, Companion, job_selector, metadata
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.containers import add_environment, add_volume
from admission.volcano_jobs.plugins.flags import boolean


@dataclass(frozen=True, slots=True, kw_only=True)
class Svc:
    """Headless Service, NetworkPolicy and ConfigMap of hosts; ``hostname.subdomain`` per pod."""

    name: ClassVar[str] = "svc"
    flags: ClassVar[frozenset[str]] = frozenset(
        {"publish-not-ready-addresses", "disable-network-policy", "inject-hosts-env"}
    )
    booleans: ClassVar[frozenset[str]] = flags

    publish_not_ready_addresses: bool = False
    disable_network_policy: bool = False
    inject_hosts_env: bool = True

    @classmethod
    def read(cls, flags: Mapping[str, str]) -> Self:
        """From parsed flags. Raises InvalidDocument."""

        def told(name: str, default: bool) -> bool:
            return boolean(cls.name, name, flags[name]) if name in flags else default

        return cls(
            publish_not_ready_addresses=told("publish-not-ready-addresses", False),
            disable_network_policy=told("disable-network-policy", False),
            inject_hosts_env=told("inject-hosts-env", True),
        )

    def dress(self, pod: dict[str, Any], job: JobSpec, _task: TaskSpec, _index: str) -> None:
        """Host name, subdomain, ``/etc/volcano`` and ``VC_<TASK>_HOSTS`` / ``VC_<TASK>_NUM``."""
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
                    for key in (f"VC_{_upper(task.name)}_HOSTS", f"VC_{_upper(task.name)}_NUM")
                ],
            )
        add_volume(
            pod,
            {"name": source, "configMap": {"name": source}},
            {"name": source, "mountPath": "/etc/volcano"},
        )

    def companions(self, job: JobSpec) -> tuple[Companion, ...]:
        """ConfigMap first: pods refer to it."""
        hosts = Companion(
            api=CORE,
            plural="configmaps",
            name=f"{job.name}-svc",
            manifest={
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata(job, f"{job.name}-svc"),
                "data": host_files(job),
            },
            entry=("plugin-svc", "svc"),
            follows=True,
        )
        service = Companion(
            api=CORE,
            plural="services",
            name=job.name,
            manifest={
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata(job, job.name),
                "spec": {
                    "clusterIP": "None",
                    "selector": job_selector(job),
                    "publishNotReadyAddresses": self.publish_not_ready_addresses,
                },
            },
        )
        if self.disable_network_policy:
            return (hosts, service)
        return (hosts, service, _same_job_only(job))


def host_files(job: JobSpec) -> dict[str, str]:
    """``<task>.host``, one host a line, and the variables' values."""
    files: dict[str, str] = {}
    for task in job.tasks:
        hosts = [f"{host}.{subdomain}" for host, subdomain in hosts_of(job, task)]
        files[f"{task.name}.host"] = "\n".join(hosts)
        files[f"VC_{_upper(task.name)}_HOSTS"] = ",".join(hosts)
        files[f"VC_{_upper(task.name)}_NUM"] = str(len(hosts))
    return files


def hosts_of(job: JobSpec, task: TaskSpec) -> list[tuple[str, str]]:
    """(hostname, subdomain) of a task's pods; pods that share a hostname of the template are listed once."""
    subdomain = task.subdomain or job.name
    if task.hostname:
        return [(task.hostname, subdomain)] if task.replicas else []
    return [(job.pod_name(task.name, index), subdomain) for index in range(task.replicas)]


def _same_job_only(job: JobSpec) -> Companion:
    selector = {"matchLabels": job_selector(job)}
    return Companion(
        api="apis/networking.k8s.io/v1",
        plural="networkpolicies",
        name=job.name,
        manifest={
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(job, job.name),
            "spec": {
                "podSelector": selector,
                "ingress": [{"from": [{"podSelector": selector}]}],
                "policyTypes": ["Ingress"],
            },
        },
    )


def _upper(task: str) -> str:
    return task.upper().replace("-", "_")
