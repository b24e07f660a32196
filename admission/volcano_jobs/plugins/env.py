"""Plugin ``env``: every container has its pod's index in an environment variable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.containers import add_environment
from admission.volcano_jobs.task_index import IndexPlaceholder, TaskIndex
from queues.api.validation.unsupported import ACTING_FLAGS


@dataclass(frozen=True, slots=True)
class Env:
    """``VC_TASK_INDEX`` and the older ``VK_TASK_INDEX``, in init containers too. No flags."""

    name: ClassVar[str] = "env"
    flags: ClassVar[frozenset[str]] = ACTING_FLAGS["env"]
    boolean_flags: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def from_flags(cls, _flags: Mapping[str, str]) -> Self:
        """The plugin has no flags."""
        return cls()

    def configure_pod(
        self, pod: dict[str, Any], _job: JobSpec, _task: TaskSpec, index: TaskIndex | IndexPlaceholder
    ) -> None:
        """Add the two variables to every container."""
        add_environment(
            pod, [{"name": name, "value": str(index)} for name in ("VK_TASK_INDEX", "VC_TASK_INDEX")]
        )

    def companions(self, _job: JobSpec) -> tuple[Companion, ...]:
        """The plugin needs no objects."""
        return ()
