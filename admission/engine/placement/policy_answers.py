"""What the policies of a workload's queue (``queues.plugins``) say about nodes and flavors for its pods."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from admission.engine.nodes.table import Amounts, Layout, Mask
from admission.engine.trial import Trial
from queues.plugins.guard import read_only
from queues.plugins.interface import MOST_SCORE, PlacementNodes, PodsRequest
from queues.workload import NO_LOAD, FlavorName, NodeLoad, PodSet, Workload


def flavors_to_try(trial: Trial, workload: Workload, sets: Sequence[PodSet]) -> tuple[FlavorName, ...]:
    """Flavors of the queue that all of these pod sets may use, in the order to try; empty: none.

    For a queue with flavors: one without uses any node.
    """
    queue, growth = workload.queue, trial.layout.growth
    policy, listed = trial.tree.policies(queue).flavors_by, trial.tree.flavors(queue)
    answers = [policy.order(_request(workload, pods), listed, growth) for pods in sets]
    if len(answers) == 1:
        return answers[0]
    return tuple(flavor for flavor in answers[0] if all(flavor in each for each in answers[1:]))


def filtered(trial: Trial, workload: Workload, pods: PodSet) -> Mask:
    """(N,) nodes that the placement of the queue, which has a filter, lets these pods use."""
    policy = trial.tree.policies(workload.queue).placement
    return policy.filter(_request(workload, pods), _nodes(trial))


def scored(trial: Trial, workload: Workload, pods: PodSet, wished: Amounts | None) -> Amounts:
    """(N,) scores by the placement of the queue, which has them, below those of preferred affinity if there is any."""
    policy = trial.tree.policies(workload.queue).placement
    score = policy.score(_request(workload, pods), _nodes(trial))
    return score if wished is None else wished * (MOST_SCORE + 1) + score


def _request(workload: Workload, pods: PodSet) -> PodsRequest:
    return PodsRequest(queue=workload.queue, priority=workload.priority, pods=pods, hints=workload.hints)


def _nodes(trial: Trial) -> PlacementNodes:
    layout, table = trial.layout, trial.table
    labels, loads = _described(layout)
    return PlacementNodes(
        layout.names,
        labels,
        layout.flavors,
        table.resources,
        read_only(table.allocatable),
        read_only(trial.free),
        loads,
    )


@lru_cache(maxsize=2)
def _described(layout: Layout) -> tuple[tuple[Mapping[str, str], ...], tuple[NodeLoad, ...]]:
    """Labels and loads of the nodes, which nobody who gets them can change."""
    labels = tuple(MappingProxyType(layout.labels.of(column)) for column in range(len(layout.names)))
    return labels, tuple(layout.loads.get(name, NO_LOAD) for name in layout.names)
