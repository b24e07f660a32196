"""What follows from a snapshot: devices that nothing can use, the largest gangs that fit, and gangs that starve."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from admission.engine.nodes.demand import ACCELERATORS
from admission.engine.nodes.devices import devices_of
from admission.engine.nodes.fragmentation import FragmentationGauge
from admission.engine.nodes.table import Amounts, NodeTable
from admission.engine.snapshot import Snapshot
from queues.quota.accounts import Account
from queues.quota.tree import QueueTree
from queues.resources import WHOLE
from queues.workload import NO_FLAVOR, QueueName, Workload

#: Stands for the whole cluster among the levels of topologies.
CLUSTER: Final = "cluster"


class Fit(NamedTuple):
    """A kind of gang: its devices, and the topology level with one domain that must have room for it."""

    resource: str
    level: str
    #: ``device``: pods with one device each; ``node``: pods with all devices of a node.
    pods: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFigures:
    """Amounts are in devices."""

    #: What is free on usable nodes, by resource.
    free: Mapping[str, float] = field(default_factory=dict)
    #: Devices of nodes that take no pods, by resource and why not.
    unusable: Mapping[tuple[str, str], float] = field(default_factory=dict)
    #: What is free and no typical pod could use, over all resources.
    fragmented: float = 0.0
    #: Pods of the largest gang that fits, as far as devices decide.
    largest: Mapping[Fit, int] = field(default_factory=dict)
    #: Seconds that the workload which waits longest has waited, by queue.
    longest_wait: Mapping[QueueName, int] = field(default_factory=dict)
    #: Gangs within what their queue deserves that have waited longer than ``starvation.clearAfter``.
    starving: Mapping[QueueName, int] = field(default_factory=dict)


class ClusterGauge:
    """Works the figures out, and keeps what depends only on which nodes there are. Mutable."""

    def __init__(self) -> None:
        self._fragmentation: FragmentationGauge | None = None

    def figures(
        self,
        snapshot: Snapshot,
        tree: QueueTree,
        used: Mapping[tuple[QueueName, Account], int],
        now: int,
    ) -> ClusterFigures:
        """The figures of a snapshot. ``now``: seconds since the epoch."""
        table = snapshot.nodes
        usable = table.layout.usable
        free = np.where(usable, np.maximum(table.allocatable - table.used, 0), 0)
        rows = {
            name: row
            for row, name in enumerate(table.resources)
            if name in ACCELERATORS and table.allocatable[row].any()
        }
        waits, starving = _waits(snapshot, tree, used, now)
        return ClusterFigures(
            free={name: int(free[row].sum()) / WHOLE for name, row in rows.items()},
            unusable=_unusable(table, rows),
            fragmented=self._fragmented(snapshot, free),
            largest=dict(_largest(table, rows, free)),
            longest_wait=waits,
            starving=starving,
        )

    def _fragmented(self, snapshot: Snapshot, free: Amounts) -> float:
        table, typical = snapshot.nodes, snapshot.typical
        gauge = self._fragmentation
        if gauge is None or not gauge.is_for(typical, table):
            devices = devices_of(table.resources, table.allocatable, table.layout.links)
            gauge = self._fragmentation = FragmentationGauge.over(typical, table, devices)
        return 0.0 if gauge is None else gauge.lost(free) / WHOLE


def _unusable(table: NodeTable, rows: Mapping[str, int]) -> dict[tuple[str, str], float]:
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for column in np.flatnonzero(~table.layout.usable).tolist():
        for name, row in rows.items():
            if units := int(table.allocatable[row, column]):
                found[name, table.layout.why_not[column] or "unknown"] += units / WHOLE
    return dict(found)


def _largest(table: NodeTable, rows: Mapping[str, int], free: Amounts) -> Iterator[tuple[Fit, int]]:
    """Exact for gangs whose pods ask for one device, or for all of a node, as far as devices decide."""
    levels = {key: chain[index] for key, (chain, index) in sorted(table.layout.levels.items())}
    for name, row in rows.items():
        whole = free[row] // WHOLE
        empty = ((whole > 0) & (whole * WHOLE == table.allocatable[row]) & (table.used[row] <= 0)).astype(
            np.int64
        )
        for pods, fitting in (("device", whole), ("node", empty)):
            yield Fit(name, CLUSTER, pods), int(fitting.sum())
            for key, level in levels.items():
                yield Fit(name, key, pods), int(level.sums(fitting).max(initial=0))


def _waits(
    snapshot: Snapshot, tree: QueueTree, used: Mapping[tuple[QueueName, Account], int], now: int
) -> tuple[dict[QueueName, int], dict[QueueName, int]]:
    longest: dict[QueueName, int] = {}
    starving: Counter[QueueName] = Counter()
    #: None if nothing is cleared, or if nothing is admitted at all.
    bounds: dict[QueueName, int | None] = {}
    for workload in snapshot.pending.values():
        queue = workload.queue
        if workload.obstacle is not None or not tree.usable(queue):
            continue
        since = workload.waiting_since or workload.created
        waited = max(0, now - since) if since else 0
        if waited > longest.get(queue, -1):
            longest[queue] = waited
        if queue not in bounds:
            stopped = tree.paused(queue) is not None or tree.budget_spent(queue) is not None
            bounds[queue] = None if stopped else tree.policy(queue).clear_after
        bound = bounds[queue]
        if bound is None or waited <= bound or workload.minimum < 2 or not workload.preempts:
            continue
        starving[queue] += _is_deserved(workload, tree, used)
    return longest, {queue: count for queue, count in starving.items() if count}


def _is_deserved(workload: Workload, tree: QueueTree, used: Mapping[tuple[QueueName, Account], int]) -> bool:
    """Whether its queue would use no more than it deserves with the workload, over all flavors.

    Queues above do not matter: what siblings have borrowed there is what the workload may get back.
    """
    queue = workload.queue
    accounts = ((Account(NO_FLAVOR, resource), units) for resource, units in workload.asks().items())
    return all(
        used.get((queue, account), 0) + units <= tree.deserved(queue, account) for account, units in accounts
    )
