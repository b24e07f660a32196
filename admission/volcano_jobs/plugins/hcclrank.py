"""Plugin ``hcclrank``: the rank of a pod among those that use Huawei's collective library, as an annotation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.task_index import IndexPlaceholder, TaskIndex
from queues.api.validation.unsupported import ACTING_FLAGS

RANK_ANNOTATION: Final = "hccl/rankIndex"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hcclrank:
    """The variable ``RANK`` of a container says the rank, also where another plugin wrote it; else the masters come
    first, then the workers."""

    name: ClassVar[str] = "hcclrank"
    flags: ClassVar[frozenset[str]] = ACTING_FLAGS["hcclrank"]
    boolean_flags: ClassVar[frozenset[str]] = frozenset()

    master: str = "master"
    worker: str = "worker"

    @classmethod
    def from_flags(cls, flags: Mapping[str, str]) -> Self:
        """The plugin with the written values, else the defaults of Volcano."""
        return cls(master=flags.get("master") or "master", worker=flags.get("worker") or "worker")

    def configure_pod(
        self, pod: dict[str, Any], job: JobSpec, task: TaskSpec, index: TaskIndex | IndexPlaceholder
    ) -> None:
        """Annotate the pod."""
        rank = _said(pod)
        if rank is None and task.name == self.master:
            rank = str(index)
        if rank is None and task.name == self.worker:
            masters = job.task(self.master)
            rank = index.plus(0 if masters is None else masters.replicas)
        if rank is not None:
            pod["metadata"]["annotations"][RANK_ANNOTATION] = rank

    def companions(self, _job: JobSpec) -> tuple[Companion, ...]:
        """The plugin needs no objects."""
        return ()


def _said(pod: Mapping[str, Any]) -> str | None:
    """The last value of ``RANK``, which is the one that counts, of the first container that has it."""
    for container in pod["spec"].get("containers") or ():
        found = [line.get("value") for line in container.get("env") or () if line.get("name") == "RANK"]
        if found and found[-1]:
            return str(found[-1])
    return None
