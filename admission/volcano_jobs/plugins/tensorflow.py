"""Plugin ``tensorflow``: the variable ``TF_CONFIG``, by which TensorFlow's strategies find the other processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec

from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.containers import add_environment
from admission.volcano_jobs.plugins.flags import port
from admission.volcano_jobs.plugins.svc import hosts_of
from admission.volcano_jobs.task_index import IndexPlaceholder, TaskIndex
from queues.api.validation.unsupported import ACTING_FLAGS

#: In TensorFlow's words; a flag of that name says which task it is.
_ROLES = ("ps", "worker", "chief", "evaluator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensorflow:
    """``TF_CONFIG`` with the hosts of each role and the pod's own place. The plugin ``svc`` comes with it."""

    name: ClassVar[str] = "tensorflow"
    flags: ClassVar[frozenset[str]] = ACTING_FLAGS["tensorflow"]
    boolean_flags: ClassVar[frozenset[str]] = frozenset()

    #: Role → task.
    tasks: Mapping[str, str]
    port: int = 2222

    @classmethod
    def from_flags(cls, flags: Mapping[str, str]) -> Self:
        """The plugin with the written values, else the defaults of Volcano. Raises InvalidDocument."""
        return cls(
            tasks={role: flags.get(role) or role for role in _ROLES},
            port=port(cls.name, "port", flags, 2222),
        )

    def configure_pod(
        self, pod: dict[str, Any], job: JobSpec, task: TaskSpec, index: TaskIndex | IndexPlaceholder
    ) -> None:
        """Add the variable to every container. A Job of one pod has no other process to find, and gets none."""
        role = next((role for role, name in self.tasks.items() if name == task.name), None)
        if role is None or (len(job.tasks) == 1 and task.replicas == 1):
            return
        cluster = {
            role: [f"{host}:{self.port}" for host in hosts_of(job, found)]
            for role, name in self.tasks.items()
            if (found := job.task(name)) is not None
        }
        written = msgspec.json.encode(cluster).decode()
        value = f'{{"cluster":{written},"task":{{"type":"{role}","index":{index}}}}}'
        add_environment(pod, [{"name": "TF_CONFIG", "value": value}])

    def companions(self, _job: JobSpec) -> tuple[Companion, ...]:
        """The plugin needs no objects of its own."""
        return ()
