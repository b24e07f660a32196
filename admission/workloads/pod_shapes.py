"""What makes pods of a workload alike: their shape has a name, made from everything that placement reads."""

from functools import lru_cache
from hashlib import blake2b

from admission.facts import Placing, PodFact, WorkloadFact
from queues.resources import Resources
from queues.workload import NodeFilter

#: Pod set of a bare pod.
BARE = "pod"


def shape_name(pod: PodFact, fact: WorkloadFact | None = None) -> str:
    """Pod set of a group's member: its task, a digest of what decides where it may go, and its subgroup.

    Members with the same name are interchangeable. ``fact``: the group, which says what subgroups there are.
    """
    digest = _digest(pod.takes, pod.nodes, pod.required_topology, pod.preferred_topology, pod.placing)
    shape = f"{pod.task or 'member'}-{digest}"
    subgroups = fact.subgroups if fact is not None else ()
    labels = dict(pod.labels) if subgroups else {}
    group = next((found for each in subgroups if (found := each.group_of(labels)) is not None), None)
    return shape if group is None else f"{shape}+{group}"


@lru_cache(maxsize=4096)
def _digest(
    takes: Resources, nodes: NodeFilter, required: str | None, preferred: str | None, placing: Placing
) -> str:
    more = () if placing == Placing() else (placing,)
    shape = repr((sorted(takes.items()), nodes, required, preferred, *more))
    return blake2b(shape.encode(), digest_size=5).hexdigest()


def task_of(shape: str) -> str:
    """The task in the name of a shape."""
    return shape.partition("+")[0].rpartition("-")[0]
