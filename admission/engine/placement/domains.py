"""What is to be placed where: the levels that pods ask for, the domains of a level to try, and the nodes of a request.

Where other members of the pods are seated already, only the domain that they are in counts.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.table import Amounts, Chain, Layout, Mask
from admission.engine.placement.pod_rules import kept_free
from admission.engine.placement.policy_answers import filtered, scored
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.plan import Reason
from queues.plugins.interface import PlacementPolicy
from queues.workload import NodeName, PodSet, QueueName, Workload


def levels_of(pods: PodSet) -> list[str]:
    """Label keys of the levels that the pods of one set ask for among themselves."""
    own = pods.required_topology or pods.preferred_topology
    return [*([own] if own else []), *(part.level for part in pods.partitions if part.level)]


def chain_of(layout: Layout, keys: Sequence[str]) -> Chain | None:
    """The first topology that has all these levels."""
    for chain in layout.chains:
        if {level.key for level in chain}.issuperset(keys):
            return chain
    return None


def unknown_level(layout: Layout, keys: Sequence[str]) -> Reason | None:
    """The first of these levels that no topology has; None if all are known."""
    for key in keys:
        if key not in layout.levels:
            known = sorted({level.key for chain in layout.chains for level in chain})
            return reasons.unknown_level(key, known)
    return None


def domains_to_try(
    layout: Layout, key: str, required: bool, room: Amounts, pods: int, seated: Sequence[NodeName]
) -> Iterator[Mask | None]:
    """Masks of the domains of a level to try, the best first: the one of seated members, else the tightest.

    If the level is only preferred, the wider levels follow, and at last None for anywhere. ``room``: (N,) pods that
    each node takes. ``seated``: nodes of members that have seats.
    """
    chain, at = layout.levels[key]
    columns = [layout.position[node] for node in seated if node in layout.position]
    for index in range(at, at - 1 if required else -1, -1):
        level = chain[index]
        if columns:
            domain = int(level.of[columns[0]])
            if domain >= 0 and (not required or all(level.of[column] == domain for column in columns)):
                yield np.equal(level.of, domain)
            continue
        holds = level.sums(room)
        fitting = np.flatnonzero(holds >= pods)
        for domain in fitting[np.argsort(holds[fitting], kind="stable")].tolist():
            yield np.equal(level.of, domain)
    if not required:
        yield None


def not_in_one_domain(layout: Layout, key: str, seated: Sequence[NodeName]) -> Reason | None:
    """Why no pod can join the seated ones: they are not in one domain of the level. None if they are."""
    level = layout.level(key)
    domains = sorted({int(level.of[layout.position[node]]) for node in seated if node in layout.position})
    if not domains or (len(domains) == 1 and domains[0] >= 0):
        return None
    return reasons.scattered(key, [level.domains[domain] for domain in domains if domain >= 0])


def renumber(layout: Layout, pods: PodSet, seats: Sequence[Seat]) -> list[Seat]:
    """Seats of one pod set without parts, numbered along the topology: neighbours by number are neighbours there."""
    chain = chain_of(layout, levels_of(pods)) or layout.chains[0]

    def place(seat: Seat) -> tuple[int, ...]:
        column = layout.position[seat.node]
        return (*(int(level.of[column]) for level in chain), column)

    ordinals = sorted(seat.ordinal for seat in seats)
    return [
        replace(seat, ordinal=ordinal)
        for seat, ordinal in zip(sorted(seats, key=place), ordinals, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class PodSetRequest:
    """Ordinals of one pod set that need seats, and the nodes of its seated members."""

    pods: PodSet
    ordinals: Sequence[int]
    seated: Mapping[int, NodeName]
    #: Nodes of seated members of the pod sets that are placed together with this one.
    companion_nodes: Sequence[NodeName] = ()


@dataclass(frozen=True, slots=True, eq=False)
class NodeScope:
    """Nodes that may be used by a workload, in a trial."""

    trial: Trial
    workload: Workload
    #: (N,)
    mask: Mask
    #: Equal keys stand for equal masks in this trial; None if there is no key for the mask.
    cache_key: Hashable = None
    #: (N,) cost of a pod on each node; None if all cost the same.
    cost: Amounts | None = None
    #: The queue of the workload, and how it places workloads.
    queue: QueueName = field(init=False)
    placement: PlacementPolicy = field(init=False)

    def __post_init__(self) -> None:
        queue = self.workload.queue
        object.__setattr__(self, "queue", queue)
        object.__setattr__(self, "placement", self.trial.tree.policies(queue).placement)

    def narrowed(self, mask: Mask) -> "NodeScope":
        """These nodes as far as they are in the mask."""
        return replace(self, mask=self.mask & mask, cache_key=None)

    def score(self, pods: PodSet) -> Amounts | None:
        """(N,) nodes with the highest are taken first: by preferred affinity, then as the placement says.

        None if nothing is preferred.
        """
        wished = self.trial.layout.score(pods.prefers)
        return scored(self.trial, self.workload, pods, wished) if self.placement.scores else wished

    def usable(self, pods: PodSet) -> Mask:
        """(N,) nodes that the pods may use."""
        mask = self.mask & self.trial.layout.allowed(pods.nodes)
        if self.placement.filters:
            mask &= filtered(self.trial, self.workload, pods)
        if pods.ports:
            mask &= self.trial.ports.free(pods.ports)
        if (kept := kept_free(self.trial, pods)) is not None:
            mask &= kept
        return mask

    def pods_per_node(self, pods: PodSet) -> Amounts:
        """(N,) how many of these pods each node takes."""
        room = self.trial.room_for(pods, self.usable(pods))
        if pods.attached:
            room = np.minimum(room, self.trial.ports.attachable(pods.attached))
        return np.minimum(room, 1) if pods.ports else room
