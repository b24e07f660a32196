"""Plugin ``ray``: the containers of a Job start a Ray cluster, reached by a Service for its head."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from admission.volcano_jobs.companions import Companion, job_selector, owned_manifest
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.containers import open_port
from admission.volcano_jobs.plugins.flags import port
from admission.volcano_jobs.plugins.svc import hosts_of
from admission.volcano_jobs.task_index import IndexPlaceholder, TaskIndex
from queues.api import names
from queues.api.api_resources import SERVICES
from queues.api.validation.unsupported import ACTING_FLAGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """Commands of the head and of the workers, and the Service ``<job>-head-svc``. The plugin ``svc`` comes with it."""

    name: ClassVar[str] = "ray"
    flags: ClassVar[frozenset[str]] = ACTING_FLAGS["ray"]
    boolean_flags: ClassVar[frozenset[str]] = frozenset()

    head: str = "head"
    head_container: str = "head"
    worker: str = "worker"
    worker_container: str = "worker"
    port: int = 6379
    dashboard_port: int = 8265
    client_port: int = 10001

    @classmethod
    def from_flags(cls, flags: Mapping[str, str]) -> Self:
        """The plugin with the written values, else the defaults of Volcano. Raises InvalidDocument."""
        return cls(
            head=flags.get("head") or "head",
            head_container=flags.get("headContainer") or "head",
            worker=flags.get("worker") or "worker",
            worker_container=flags.get("workerContainer") or "worker",
            port=port(cls.name, "port", flags, 6379),
            dashboard_port=port(cls.name, "dashboardPort", flags, 8265),
            client_port=port(cls.name, "clientPort", flags, 10001),
        )

    def configure_pod(
        self, pod: dict[str, Any], job: JobSpec, task: TaskSpec, _index: TaskIndex | IndexPlaceholder
    ) -> None:
        """Replace the command of the container that runs Ray."""
        heads = job.task(self.head)
        if heads is None or not heads.replicas:
            return
        if task.name == self.head:
            _run(
                pod,
                self.head_container,
                f"ray start --head --block --dashboard-host=0.0.0.0 --port={self.port} "
                f"--dashboard-port={self.dashboard_port} --ray-client-server-port={self.client_port}",
            )
            for name, number in self._ports().items():
                open_port(pod, name, number, only=self.head_container)
        elif task.name == self.worker:
            address = f"{hosts_of(job, heads)[0]}:{self.port}"
            _run(pod, self.worker_container, f"ray start --block --address={address}")

    def companions(self, job: JobSpec) -> tuple[Companion, ...]:
        """The Service of the head."""
        if job.task(self.head) is None:
            return ()
        name = f"{job.name}-head-svc"
        ports = [
            {"name": each, "port": number, "targetPort": number} for each, number in self._ports().items()
        ]
        selector = {**job_selector(job), names.TASK_SPEC: self.head}
        manifest = owned_manifest(SERVICES, job, name, spec={"selector": selector, "ports": ports})
        return (
            Companion(resource=SERVICES, name=name, manifest=manifest, status_entry=("plugin-ray", "ray")),
        )

    def _ports(self) -> dict[str, int]:
        return {"gcs": self.port, "dashboard": self.dashboard_port, "client-server": self.client_port}


def _run(pod: Mapping[str, Any], name: str, command: str) -> None:
    """Let a container run a command in place of its own."""
    for container in pod["spec"].get("containers") or ():
        if container.get("name") == name:
            container["command"] = ["sh", "-c", command]
            container.pop("args", None)
