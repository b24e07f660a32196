"""Host names that plugin ``svc`` writes: how long they are, and where they are too long. Pure."""

from collections.abc import Iterator
from typing import Final

from queues.api.types.volcano_job import VolcanoJob
from queues.api.validation.defaults import NEED_SVC
from queues.api.validation.violations import Violation
from queues.json_values import text_at

#: Bytes of one variable of a process, ``NAME=value`` and its end: Linux starts no process with a longer one.
LONGEST_VARIABLE: Final = 131_072
#: Bytes of all keys and values of a ConfigMap: the API server takes no more.
LARGEST_CONFIG_MAP: Final = 1024 * 1024
#: Plugins that write hosts: those of frameworks bring ``svc`` with them.
_WITH_HOSTS: Final = frozenset({"svc", *NEED_SVC})


def hosts_variable(task: str) -> str:
    """The variable with the hosts of a task."""
    return f"VC_{task.upper().replace('-', '_')}_HOSTS"


def fits_in_a_variable(task: str, size: int) -> bool:
    """Whether hosts of a task, of so many bytes, can be given to a process in its environment."""
    return len(hosts_variable(task)) + len("=") + size + 1 <= LONGEST_VARIABLE


def host_violations(job: VolcanoJob) -> Iterator[Violation]:
    """What is wrong with the hosts of a Job's pods: too many for its ConfigMap, or for the environment (a warning)."""
    if not _WITH_HOSTS & job.spec.plugins.keys():
        return
    in_all = 0
    flags = " ".join(job.spec.plugins.get("svc", ()))
    for index, task in enumerate(job.spec.tasks):
        name = task.name
        hostname, subdomain = (text_at(task.template, "spec", field) for field in ("hostname", "subdomain"))
        size = size_of_hosts(job.metadata.name, name, task.replicas, hostname, subdomain)
        fits = fits_in_a_variable(name, size)
        in_all += size * (2 if fits else 1) + 3 * len(hosts_variable(name))
        if not fits and "inject-hosts-env=false" not in flags:
            yield Violation(
                f"spec.tasks[{index}].replicas",
                f"{task.replicas} pods with {size} bytes of host names",
                f"at most {LONGEST_VARIABLE} bytes in one variable: containers get no {hosts_variable(name)}. Read "
                f"/etc/volcano/{name}.host, and say so by the flag --inject-hosts-env=false of plugin svc",
                tolerable=True,
            )
    if in_all > LARGEST_CONFIG_MAP:
        yield Violation(
            "spec.plugins.svc",
            f"{in_all} bytes of host names",
            f"at most {LARGEST_CONFIG_MAP}, which a ConfigMap takes: fewer pods, or shorter names of the Job and its "
            "tasks (the flag --inject-hosts-env=false does not shorten /etc/volcano)",
        )


def size_of_hosts(job: str, task: str, replicas: int, hostname: str, subdomain: str) -> int:
    """Bytes of the hosts of a task, with what separates them. ``hostname`` and ``subdomain``: of its template."""
    domain = len(".") + len(subdomain or job)
    if hostname or not replicas:
        return len(hostname) + domain if replicas else 0
    return replicas * (len(f"{job}-{task}-") + domain + len(",")) - 1 + _digits_below(replicas)


def _digits_below(count: int) -> int:
    """Digits of all numbers from 0 up to one less than this."""
    digits, first = 0, 1
    while first < count or first == 1:
        digits += (min(count, 10 * first) - (first if first > 1 else 0)) * len(str(first))
        first *= 10
    return digits
