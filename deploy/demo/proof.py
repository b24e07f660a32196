"""Proof that a gang got its seats together, from the watch of all pods."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from deploy.demo.examples import ExampleWorkload, gpus_of
from deploy.local.history import Moment
from queues.errors import MusterError

_ENDED: Final = ("Succeeded", "Failed")


class GangTorn(MusterError):
    """{gang}: pod {pod} was bound to {node} when only {free} of the {needed} GPUs that the gang has there were
    free. Its seats were not all there."""


class GangIncomplete(MusterError):
    """{gang}: {bound} of its {pods} pods were ever bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Times that show that a gang got its seats together."""

    pods: int
    #: Seconds from the moment at which all seats were free and its pods existed to its first bound pod.
    delay: float
    #: Seconds from its first bound pod to its last one.
    spread: float
    #: Watch events that the proof read.
    events: int


def prove_whole(workload: ExampleWorkload, moments: Sequence[Moment], gpus_per_node: int) -> Proof:
    """Check that every seat of the gang was free when its first pod was bound. Raises GangTorn, GangIncomplete."""
    own = [moment for moment in moments if moment.node and workload.owns(moment.name)]
    seats = {moment.name: (moment.node or "", gpus_of(moment.pod)) for moment in own}
    if len(seats) < workload.pods:
        raise GangIncomplete(gang=workload.key, bound=len(seats), pods=workload.pods)
    first = own[0]
    before = moments[: moments.index(first)]
    taken, freed = _used(before, workload)
    needed: Counter[str] = Counter()
    for node, gpus in seats.values():
        needed[node] += gpus
    for node, gpus in needed.items():
        if (free := gpus_per_node - taken[node]) < gpus:
            raise GangTorn(gang=workload.key, pod=first.name, node=node, free=free, needed=gpus)
    ready = [freed[node] for node in needed if node in freed]
    if workload.kind == "podgroup":  # its user creates its pods
        ready += [moment.at for moment in before if moment.kind == "ADDED" and workload.owns(moment.name)]
    bound = {moment.name: moment.at for moment in reversed(own)}
    return Proof(
        pods=len(seats),
        delay=first.at - max(ready, default=first.at),
        spread=max(bound.values()) - first.at,
        events=len(moments),
    )


def _used(moments: Sequence[Moment], workload: ExampleWorkload) -> tuple[Counter[str], dict[str, float]]:
    """GPUs that other workloads use on each node after these moments, and when each node last got some back."""
    holding: dict[str, tuple[str, int]] = {}
    freed: dict[str, float] = {}
    for moment in moments:
        if moment.kind == "DELETED" or moment.phase in _ENDED:
            node, gpus = holding.pop(moment.name, ("", 0))
            if gpus:
                freed[node] = moment.at
        elif moment.node and not workload.owns(moment.name):
            holding[moment.name] = (moment.node, gpus_of(moment.pod))
    taken: Counter[str] = Counter()
    for node, gpus in holding.values():
        taken[node] += gpus
    return taken, freed
