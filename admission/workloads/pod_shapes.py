"""Names for the shapes of pods: pods with equal names are interchangeable, whatever placement reads."""

from functools import lru_cache
from hashlib import blake2b

from admission.facts.pods import PodFact, PodShape
from admission.facts.workloads import WorkloadFact

#: Pod set of a bare pod.
BARE = "pod"

#: Fields of shapes that came later than the first digests that Postgres has.
_ADDED_LATER = ("in_one_island", "rules")


def shape_name(pod: PodFact, fact: WorkloadFact | None = None) -> str:
    """Pod set of a group's member: its task, a digest of what decides where it may go, and its subgroup.

    Members with the same name are interchangeable. ``fact``: the group, which says what subgroups there are.
    """
    shape = f"{pod.task or 'member'}-{_digest(pod.shape)}"
    subgroups = fact.group.subgroups if fact is not None else ()
    labels = dict(pod.labels) if subgroups else {}
    group = next((found for each in subgroups if (found := each.group_of(labels)) is not None), None)
    return shape if group is None else f"{shape}+{group}"


@lru_cache(maxsize=4096)
def _digest(shape: PodShape) -> str:
    """It is part of the names of seats in Postgres and on pods, so its text stays as it was first written."""
    parts = [repr(sorted(shape.takes.items())), repr(shape.nodes)]
    parts += [repr(shape.required_topology), repr(shape.preferred_topology)]
    details = ", ".join(
        f"{name}={value!r}" for name, value in shape.details().items() if value or name not in _ADDED_LATER
    )
    if shape.nodes.also:
        parts.append(repr(shape.nodes.also))
    if details:
        parts.append(f"Placing({details})")
    return blake2b(f"({', '.join(parts)})".encode(), digest_size=5).hexdigest()


def task_of(shape: str) -> str:
    """The task in the name of a shape."""
    return shape.partition("+")[0].rpartition("-")[0]
