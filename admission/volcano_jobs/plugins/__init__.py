"""Job plugins: what a Job asks to be added to its pods, and the objects it needs beside them.

They act in a fixed order, the one of ``ORDER``, whatever order the Job names them in: names first, then keys
(ssh writes the hosts that svc gives), then indices. Volcano's own order is random.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol, Self

from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.env import Env
from admission.volcano_jobs.plugins.flags import parse
from admission.volcano_jobs.plugins.ssh import Ssh
from admission.volcano_jobs.plugins.svc import Svc


class Plugin(Protocol):
    """One plugin with its flags read."""

    name: ClassVar[str]
    #: Flags it acts on; those of ``booleans`` may be written without a value.
    flags: ClassVar[frozenset[str]]
    booleans: ClassVar[frozenset[str]]

    @classmethod
    def read(cls, flags: Mapping[str, str]) -> Self:
        """From parsed flags. Raises InvalidDocument."""
        ...

    def dress(self, pod: dict[str, Any], job: JobSpec, task: TaskSpec, index: str) -> None:
        """Change a pod that is being made; ``index`` is text that stands for the pod's index."""
        ...

    def companions(self, job: JobSpec) -> tuple[Companion, ...]:
        """Objects that must exist before the pods."""
        ...


ORDER: Final[tuple[type[Plugin], ...]] = (Svc, Ssh, Env)

KNOWN: Final = frozenset(plugin.name for plugin in ORDER)


def plugins_of(job: JobSpec) -> tuple[Plugin, ...]:
    """The Job's plugins that are acted on, in order. Raises InvalidDocument for a flag's bad value."""
    return tuple(
        plugin.read(parse(job.plugins[plugin.name], booleans=plugin.booleans))
        for plugin in ORDER
        if plugin.name in job.plugins
    )


def unsupported_plugins(job: JobSpec) -> tuple[str, ...]:
    """Plugins and flags that the Job names and that are not acted on, as field paths."""
    found = [f"spec.plugins.{name}" for name in sorted(job.plugins) if name not in KNOWN]
    for plugin in ORDER:
        unknown = parse(job.plugins.get(plugin.name, ()), booleans=plugin.booleans).keys() - plugin.flags
        found += [f"spec.plugins.{plugin.name} --{flag}" for flag in sorted(unknown)]
    return tuple(found)
