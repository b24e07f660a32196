"""Job plugins: what a Job asks to be added to its pods, and the objects that the pods need for it.

Plugins act in the order of ``PLUGINS``, whatever order the Job names them in: names first, then keys (ssh writes
the hosts that svc gives), frameworks, and what reads their ranks. Volcano's own order is random. A new plugin is two
functions here, and its flags in ``queues.api.validation.plugin_flags``.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from admission.facts.volcano_jobs import JobSpec, TaskSpec
from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.plugins import frameworks, ray, ssh, svc
from admission.volcano_jobs.task_index import IndexPlaceholder
from queues.api.validation.plugin_flags import PluginFlags

#: Changes the manifest of a pod in place.
ConfigurePod = Callable[[dict[str, Any], JobSpec, TaskSpec, IndexPlaceholder, PluginFlags], None]
#: Objects that must exist before the pods.
CompanionsOf = Callable[[JobSpec, PluginFlags], tuple[Companion, ...]]

PLUGINS: Final[dict[str, tuple[ConfigurePod, CompanionsOf | None]]] = {
    "svc": (svc.configure_pod, svc.companions),
    "ssh": (ssh.configure_pod, ssh.companions),
    "env": (frameworks.add_index, None),
    "mpi": (frameworks.name_workers, None),
    "pytorch": (frameworks.join_process_group, None),
    "tensorflow": (frameworks.describe_cluster, None),
    "ray": (ray.configure_pod, ray.companions),
    "hcclrank": (frameworks.annotate_rank, None),
}


class JobPlugin(NamedTuple):
    """A plugin of one Job, with its flags read."""

    job: JobSpec
    name: str
    flags: PluginFlags

    def configure_pod(self, pod: dict[str, Any], task: TaskSpec, index: IndexPlaceholder) -> None:
        """Change the manifest of a pod in place."""
        configure, _ = PLUGINS[self.name]
        configure(pod, self.job, task, index, self.flags)

    def companions(self) -> tuple[Companion, ...]:
        """Objects that must exist before the pods."""
        _, companions = PLUGINS[self.name]
        return () if companions is None else companions(self.job, self.flags)


def plugins_of(job: JobSpec) -> tuple[JobPlugin, ...]:
    """The Job's plugins that Muster has, in the order in which they act. Raises InvalidDocument for a bad flag."""
    return tuple(
        JobPlugin(job, name, PluginFlags.of(name, job.plugins[name]))
        for name in PLUGINS
        if name in job.plugins
    )
