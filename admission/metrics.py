"""Prometheus metrics, read off turn reports.

The only file that knows prometheus_client. Names and units: docs/reference/metrics.md.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from admission.turn_report import TurnReport
from queues.quota.accounts import Account
from queues.resources import PODS, in_bytes, scale
from queues.workload import QueueName

TURN_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WAIT_SECONDS: Final = (
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
    300,
    1800,
    7200,
    43200,
    259200,
)


class Stage(StrEnum):
    """Stages of a gang between its creation and its last binding."""

    #: The object's creation to the commit of its admission.
    ADMITTED = "created_to_admitted"
    #: The commit to the binding of its last pod.
    BOUND = "admitted_to_bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """State of one informer."""

    #: Seconds since the API server was last heard.
    silent_seconds: float
    #: Lists since the start, the first one included.
    lists: int
    objects: int


class Metrics:
    """Sums up turn reports and writes them as text. One per process; nothing is global."""

    def __init__(
        self,
        *,
        requests: Callable[[], Mapping[tuple[str, str], int]] = dict,
        informers: Callable[[], Mapping[str, Watching]] = dict,
    ) -> None:
        """Both are called at each scrape: API requests so far by (verb, code), and informers by name."""
        self._registry = CollectorRegistry()
        self._requests = requests
        self._informers = informers
        self._term: int | None = None
        self._last: TurnReport | None = None
        self._turns = 0
        self._counts = dict.fromkeys(("admit", "adopt", "free", "evict", "drop"), 0)
        self._phases = Histogram(
            "muster_turn_phase_seconds",
            "Time a turn spends in a phase, in seconds.",
            ("phase",),
            buckets=TURN_SECONDS,
            registry=self._registry,
        )
        self._waits = Histogram(
            "muster_gang_stage_seconds",
            "Time a gang spends in a stage on its way to running, in seconds.",
            ("stage",),
            buckets=WAIT_SECONDS,
            registry=self._registry,
        )
        self._registry.register(_Reading(self._families))

    def observe(self, report: TurnReport) -> None:
        """Add one turn. A turn without a decision leaves the gauges as they are."""
        self._turns += 1
        if not report.decide_seconds:
            return
        self._last = report
        for phase in ("freeze", "decide", "apply"):
            self._phases.labels(phase).observe(getattr(report, f"{phase}_seconds"))
        counts = (report.admitted, report.adopted, report.freed, report.evicted, report.dropped)
        for what, count in zip(self._counts, counts, strict=True):
            self._counts[what] += count
        for stage, waits in ((Stage.ADMITTED, report.admitted_after), (Stage.BOUND, report.bound_after)):
            for seconds in waits:
                self._waits.labels(stage.value).observe(max(0.0, seconds))

    def leads(self, term: int | None) -> None:
        """This replica leads from now on in that term. None: it leads no longer, and the gauges of turns vanish."""
        self._term = term
        if term is None:
            self._last = None

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def _families(self) -> Iterator[Metric]:
        yield from self._leadership()
        yield from self._turn_counts()
        yield from self._cluster_io()
        if self._last is not None:
            yield from _pending(self._last)
            yield from _amounts(
                "muster_queue_used", "Use of a queue's subtree, in units of the resource.", self._last.used
            )
            yield from _amounts(
                "muster_queue_deserved",
                "What a queue deserves, in units of the resource.",
                self._last.deserved,
            )
            yield from _amounts(
                "muster_queue_past_use",
                "Decayed average of the use of a queue's subtree, in units of the resource.",
                self._last.past_use,
            )
            yield GaugeMetricFamily(
                "muster_nodes_usable", "Nodes that admissions may use.", value=self._last.nodes_usable
            )

    def _leadership(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "muster_leader", "1 if this replica leads, else 0.", value=self._term is not None
        )
        yield GaugeMetricFamily(
            "muster_term", "Term this replica leads in; 0 if it does not.", value=self._term or 0
        )

    def _turn_counts(self) -> Iterator[Metric]:
        yield CounterMetricFamily("muster_turns", "Turns of this replica.", value=self._turns)
        decisions = CounterMetricFamily(
            "muster_decisions",
            "Decisions of this replica that the ledger took (drop: refused).",
            labels=("what",),
        )
        for what, count in self._counts.items():
            decisions.add_metric((what,), count)
        yield decisions

    def _cluster_io(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "muster_api_requests",
            "Requests to the API server by verb and status code.",
            labels=("verb", "code"),
        )
        for (verb, code), count in sorted(self._requests().items()):
            requests.add_metric((verb, code), count)
        yield requests
        silent = GaugeMetricFamily(
            "muster_informer_silent_seconds", "Seconds since the API server was last heard.", labels=("kind",)
        )
        lists = CounterMetricFamily(
            "muster_informer_lists", "Full lists of an informer, the first one included.", labels=("kind",)
        )
        objects = GaugeMetricFamily("muster_informer_objects", "Objects an informer knows.", labels=("kind",))
        for kind, state in sorted(self._informers().items()):
            silent.add_metric((kind,), state.silent_seconds)
            lists.add_metric((kind,), state.lists)
            objects.add_metric((kind,), state.objects)
        yield from (silent, lists, objects)


class _Reading(Collector):
    """Metrics as they are at the scrape, so that queues that are gone leave no series behind."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


def _pending(report: TurnReport) -> Iterator[Metric]:
    pending = GaugeMetricFamily(
        "muster_workloads_pending", "Waiting workloads by queue and reason.", labels=("queue", "reason")
    )
    for (queue, code), count in sorted(report.pending.items()):
        pending.add_metric((queue, code), count)
    yield pending


def _amounts(name: str, about: str, amounts: Mapping[tuple[QueueName, Account], int]) -> Iterator[Metric]:
    family = GaugeMetricFamily(name, about, labels=("queue", "flavor", "resource"))
    for (queue, account), units in sorted(amounts.items()):
        family.add_metric((queue, account.flavor, account.resource), _base_units(account.resource, units))
    yield family


def _base_units(resource: str, units: int) -> float:
    """Cores, bytes, devices: the base units that Prometheus asks for."""
    if in_bytes(resource) or resource == PODS:
        return float(units)
    return units / scale(resource)
