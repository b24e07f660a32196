"""Job plugins: what a Job asks to be added to its pods, and the objects that the pods need for it.

Plugins act in the order of ``PLUGINS``, whatever order the Job names them in: names first, then keys (ssh writes
the hosts that svc gives), frameworks, and what reads their ranks. Volcano's own order is random. A new plugin is one
module, its class in ``PLUGINS``, and its flags in ``queues.api.validation.unsupported``.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol, Self

from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.env import Env
from admission.volcano_jobs.plugins.flags import parse
from admission.volcano_jobs.plugins.hcclrank import Hcclrank
from admission.volcano_jobs.plugins.mpi import Mpi
from admission.volcano_jobs.plugins.pytorch import Pytorch
from admission.volcano_jobs.plugins.ray import Ray
from admission.volcano_jobs.plugins.ssh import Ssh
from admission.volcano_jobs.plugins.svc import Svc
from admission.volcano_jobs.plugins.tensorflow import Tensorflow
from admission.volcano_jobs.task_index import IndexPlaceholder, TaskIndex


class Plugin(Protocol):
    """One plugin with its flags read."""

    name: ClassVar[str]
    #: Flags that the plugin acts on.
    flags: ClassVar[frozenset[str]]
    #: Flags that may be written without a value.
    boolean_flags: ClassVar[frozenset[str]]

    @classmethod
    def from_flags(cls, flags: Mapping[str, str]) -> Self:
        """The plugin with these values of its flags. Raises InvalidDocument."""
        ...

    def configure_pod(
        self, pod: dict[str, Any], job: JobSpec, task: TaskSpec, index: TaskIndex | IndexPlaceholder
    ) -> None:
        """Change the manifest of a pod in place."""
        ...

    def companions(self, job: JobSpec) -> tuple[Companion, ...]:
        """Objects that must exist before the pods."""
        ...


PLUGINS: Final[tuple[type[Plugin], ...]] = (
    *(Svc, Ssh, Env),
    *(Mpi, Pytorch, Tensorflow, Ray),
    Hcclrank,
)

_NAMES: Final = frozenset(plugin.name for plugin in PLUGINS)


def plugins_of(job: JobSpec) -> tuple[Plugin, ...]:
    """The Job's plugins that Muster has, in the order in which they act. Raises InvalidDocument for a bad flag."""
    return tuple(
        plugin.from_flags(parse(job.plugins[plugin.name], boolean_flags=plugin.boolean_flags))
        for plugin in PLUGINS
        if plugin.name in job.plugins
    )


def unsupported_plugins(job: JobSpec) -> tuple[str, ...]:
    """Plugins and flags of the Job that are not acted on, as field paths."""
    found = [f"spec.plugins.{name}" for name in sorted(job.plugins) if name not in _NAMES]
    for plugin in PLUGINS:
        written = parse(job.plugins.get(plugin.name, ()), boolean_flags=plugin.boolean_flags)
        unknown = sorted(written.keys() - plugin.flags)
        found += [f"spec.plugins.{plugin.name} --{flag}" for flag in unknown]
    return tuple(found)
