"""Metrics of queues, gangs and nodes: those with many series. Worked out and written when they are asked for.

A turn leaves references and single numbers only. The rest runs in a thread next to the event loop, one reading at a
time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from admission.engine.memo import QueueAmounts, QueueBooks
from admission.engine.snapshot import Snapshot
from admission.figures.catalogue import BY_NAME
from admission.figures.cluster_figures import ClusterFigures, ClusterGauge
from admission.figures.device_seconds import DeviceSeconds, DeviceState
from admission.figures.exposition import family, labels_text
from admission.figures.gang_waits import GangWait, GangWaits
from admission.figures.quota_figures import QuotaFigures, quota_figures
from queues.quota.accounts import Account
from queues.quota.budgets import NO_HOURS, BudgetUse
from queues.quota.tree import QueueTree
from queues.resources import scale
from queues.workload import QueueName

#: Seconds for which the figures of nodes and pending workloads are repeated: with many they take longest.
CLUSTER_KEPT: Final = 10.0
#: Gangs that are kept until they are counted; of more, the oldest ones are left out.
MOST_UNCOUNTED: Final = 100_000

Line = tuple[str, float]


class WideMetrics:
    """One for each process. ``note``, ``lead_ends``: on the event loop; ``text``: one call at a time, in any thread."""

    def __init__(
        self,
        clock: Callable[[], float],
        snapshot: Callable[[], Snapshot | None],
        budgets: Callable[[], BudgetUse | None] = lambda: None,
    ) -> None:
        """``clock``: seconds since the epoch; ``snapshot``: what the last turn decided on, None for nothing;
        ``budgets``: what is used of them, None if there are none."""
        self._budgets = budgets
        self._clock = clock
        self._snapshot = snapshot
        self._state: QueueBooks | None = None
        self._uncounted: deque[GangWait] = deque(maxlen=MOST_UNCOUNTED)
        self._waits = GangWaits()
        self._seconds = DeviceSeconds()
        self._gauge = ClusterGauge()
        self._cluster: tuple[float, ClusterFigures] | None = None
        #: Text of the labels, as long as the tree is the same.
        self._labels: tuple[QueueTree, dict[tuple[QueueName, Account], str]] | None = None

    def note(self, state: QueueBooks, waits: Sequence[GangWait]) -> None:
        """A turn has ended."""
        self._state = state
        self._uncounted.extend(waits)
        self._seconds.note(DeviceState(self._clock(), state.tree, state.used, state.deserved))

    def lead_ends(self) -> None:
        """This replica leads no longer: its gauges vanish, its counters stay."""
        self._state = None
        self._cluster = None
        self._seconds.note(DeviceState(self._clock(), None, {}, {}))

    def text(self) -> str:
        """Everything in Prometheus' text format."""
        state = self._state
        while self._uncounted:
            self._waits.add(self._uncounted.popleft())
        self._seconds.sum_up(self._clock())
        if state is None:
            return "".join(self._counters())
        self._waits.keep(state.tree.paths)
        self._seconds.keep(state.tree)
        return "".join([*self._counters(), *self._queues(state), *self._nodes(state)])

    def _counters(self) -> Iterator[str]:
        wait = BY_NAME["muster_gang_wait_seconds"]
        yield self._waits.text(wait.name, wait.help)
        yield _family(
            "muster_queue_device_seconds_total",
            (
                (labels_text(queue=queue, resource=resource, kind=kind), seconds)
                for (queue, resource, kind), seconds in self._seconds.of_queues.items()
            ),
        )
        yield _family(
            "muster_device_seconds_total",
            (
                (labels_text(resource=resource, state=state), seconds)
                for (resource, state), seconds in self._seconds.of_cluster.items()
            ),
        )

    def _queues(self, state: QueueBooks) -> Iterator[str]:
        pending = [
            (labels_text(queue=queue, reason=reason), count)
            for (queue, reason), count in state.pending.items()
        ]
        yield _family("muster_workloads_pending", pending)
        waiting = {queue for (queue, _), count in state.pending.items() if count}
        figures = quota_figures(state.tree, state.used, state.deserved, waiting)
        for name, amounts in _amounts(state, figures):
            yield _family(f"muster_queue_{name}", self._amount_lines(state.tree, amounts))
        yield _family("muster_queue_budget_used_ratio", self._budget_lines(state.tree))
        shares = ((labels_text(queue=queue), share) for queue, share in figures.shares.items())
        yield _family("muster_queue_share_ratio", shares)
        deviations = (("below", figures.below), ("above", figures.above))
        lines = [(labels_text(direction=direction), value) for direction, value in deviations]
        yield _family("muster_fairness_deviation_ratio", lines)

    def _amount_lines(self, tree: QueueTree, amounts: QueueAmounts) -> Iterator[Line]:
        if self._labels is None or self._labels[0] is not tree:
            self._labels = tree, {}
        known = self._labels[1]
        for key, units in amounts.items():
            labels = known.get(key)
            queue, account = key
            if labels is None:
                labels = labels_text(queue=queue, flavor=account.flavor, resource=account.resource)
                known[key] = labels
            whole, rest = divmod(units, _scale(account.resource))
            yield labels, whole if not rest else units / _scale(account.resource)

    def _budget_lines(self, tree: QueueTree) -> Iterator[Line]:
        use, now = self._budgets(), int(self._clock())
        for name, hours in () if use is None else use.hours.items():
            if name in tree.queues and (budget := tree.queues[name].budget) is not None:
                for resource in budget.hours:
                    used, amount = hours.get(resource, NO_HOURS).until(now), budget.amount(resource)
                    yield labels_text(queue=name, resource=resource), used / amount if amount > 0 else 1.0

    def _nodes(self, state: QueueBooks) -> Iterator[str]:
        snapshot = self._snapshot()
        if snapshot is None:
            return
        cluster = self._cluster_figures(snapshot, state)
        for name, seconds in (
            ("muster_queue_longest_wait_seconds", cluster.longest_wait),
            ("muster_gangs_starving", cluster.starving),
        ):
            yield _family(name, ((labels_text(queue=queue), value) for queue, value in seconds.items()))
        free = ((labels_text(resource=resource), value) for resource, value in cluster.free.items())
        yield _family("muster_devices_free", free)
        unusable = (
            (labels_text(resource=resource, why=why), value)
            for (resource, why), value in cluster.unusable.items()
        )
        yield _family("muster_devices_unusable", unusable)
        yield _family("muster_devices_fragmented", [("", cluster.fragmented)])
        largest = ((labels_text(**fit._asdict()), number) for fit, number in cluster.largest.items())
        yield _family("muster_largest_gang_pods", largest)

    def _cluster_figures(self, snapshot: Snapshot, state: QueueBooks) -> ClusterFigures:
        now, kept = self._clock(), self._cluster
        if kept is not None and kept[0] <= now < kept[0] + CLUSTER_KEPT:
            return kept[1]
        figures = self._gauge.figures(snapshot, state.tree, state.used, int(now))
        self._cluster = now, figures
        return figures


_scales: Final[dict[str, int]] = {}


def _scale(resource: str) -> int:
    found = _scales.get(resource)
    if found is None:
        found = _scales[resource] = scale(resource)
    return found


def _amounts(state: QueueBooks, figures: QuotaFigures) -> tuple[tuple[str, QueueAmounts], ...]:
    return (
        ("used", state.used),
        ("deserved", state.deserved),
        ("guarantee", figures.guarantee),
        ("capability", figures.capability),
        ("borrowed", figures.borrowed),
        ("lent", figures.lent),
        ("past_use", state.past_use),
    )


def _family(name: str, lines: Iterable[Line]) -> str:
    metric = BY_NAME[name]
    return family(name, metric.kind, metric.help, lines)
