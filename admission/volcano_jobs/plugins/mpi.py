"""Plugin ``mpi``: the master of a Job knows the hosts of its workers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.containers import add_environment, open_port
from admission.volcano_jobs.plugins.flags import port
from admission.volcano_jobs.plugins.svc import hosts_of
from admission.volcano_jobs.task_index import IndexPlaceholder, TaskIndex
from queues.api.validation.unsupported import ACTING_FLAGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpi:
    """``MPI_HOST``, and a port for ssh. The plugins ``svc`` and ``ssh`` come with it."""

    name: ClassVar[str] = "mpi"
    flags: ClassVar[frozenset[str]] = ACTING_FLAGS["mpi"]
    boolean_flags: ClassVar[frozenset[str]] = frozenset()

    master: str = "master"
    worker: str = "worker"
    port: int = 22

    @classmethod
    def from_flags(cls, flags: Mapping[str, str]) -> Self:
        """The plugin with the written values, else the defaults of Volcano. Raises InvalidDocument."""
        return cls(
            master=flags.get("master") or "master",
            worker=flags.get("worker") or "worker",
            port=port(cls.name, "port", flags, 22),
        )

    def configure_pod(
        self, pod: dict[str, Any], job: JobSpec, task: TaskSpec, _index: TaskIndex | IndexPlaceholder
    ) -> None:
        """Name the workers in every container of the master."""
        open_port(pod, "mpijob-port", self.port)
        workers = job.task(self.worker)
        if task.name == self.master and workers is not None:
            hosts = ",".join(map(str, hosts_of(job, workers)))
            add_environment(pod, [{"name": "MPI_HOST", "value": hosts}])

    def companions(self, _job: JobSpec) -> tuple[Companion, ...]:
        """The plugin needs no objects of its own."""
        return ()
