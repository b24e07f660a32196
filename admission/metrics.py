"""Prometheus metrics, read off turn reports.

The only file that knows prometheus_client. Names and units: docs/reference/metrics.md.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from admission.node_recovery.figures import NodeHealth
from admission.turn_report import EvictionCost, TurnReport
from queues.resources import PODS, in_bytes, scale

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
    #: Objects that cannot be read as they are now.
    unreadable: int = 0


class Metrics:
    """Sums up turn reports and writes them as text. One per process; nothing is global."""

    def __init__(
        self,
        *,
        requests: Callable[[], Mapping[tuple[str, str], int]] = dict,
        informers: Callable[[], Mapping[str, Watching]] = dict,
        longest_block: Callable[[], float] = float,
        retention_lag: Callable[[], Mapping[str, float]] = dict,
        unlisted_jobs: Callable[[], int] = int,
        node_health: Callable[[], NodeHealth | None] = lambda: None,
    ) -> None:
        """All are called at each scrape: API requests so far by (verb, code), informers by name, seconds of the
        event loop's longest block, seconds for which each history has outlived its retention, Jobs of which the pods
        are to be listed before their seats are given back, and the health of nodes; None: another replica looks."""
        self._registry = CollectorRegistry()
        self._requests = requests
        self._informers = informers
        self._longest_block = longest_block
        self._retention_lag = retention_lag
        self._unlisted_jobs = unlisted_jobs
        self._node_health = node_health
        self._evictions: dict[str, EvictionCost] = {}
        self._term: int | None = None
        self._last: TurnReport | None = None
        self._turns = 0
        self._set_aside = 0
        #: Decisions that failed in earlier terms, and in this one so far.
        self._failed_decisions = self._failed_in_term = 0
        self._ended: Counter[str] = Counter()
        self._put_off = 0
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
        self._dry_runs = Histogram(
            "muster_dry_run_seconds",
            "Time the API server takes for a dry run of a pod template, in seconds, by its outcome.",
            ("outcome",),
            buckets=TURN_SECONDS,
            registry=self._registry,
        )
        self._registry.register(_Reading(self._families))

    def observe(self, report: TurnReport) -> None:
        """Add one turn. A turn without a decision leaves the gauges as they are."""
        self._turns += 1
        self._set_aside = report.set_aside
        self._failed_in_term = report.failed_decisions
        if not report.decide_seconds:
            return
        self._last = report
        for phase in ("freeze", "decide", "apply"):
            self._phases.labels(phase).observe(getattr(report, f"{phase}_seconds"))
        counts = (report.admitted, report.adopted, report.freed, report.evicted, report.dropped)
        for what, count in zip(self._counts, counts, strict=True):
            self._counts[what] += count
        for code, each in report.evictions.items():
            before = self._evictions.get(code, EvictionCost())
            self._evictions[code] = EvictionCost(before.admissions + each.admissions, before.lost + each.lost)
        for stage, waits in ((Stage.ADMITTED, report.admitted_after), (Stage.BOUND, report.bound_after)):
            for seconds in waits:
                self._waits.labels(stage.value).observe(max(0.0, seconds))

    def leads(self, term: int | None) -> None:
        """This replica leads from now on in that term. None: it leads no longer, and the gauges of turns vanish."""
        self._term = term
        if term is None:
            self._last = None
            self._set_aside = 0
            self._failed_decisions += self._failed_in_term
            self._failed_in_term = 0

    def ended(self, failure: BaseException) -> None:
        """An error ended a term of this replica."""
        self._ended[type(failure).__name__] += 1

    def put_off(self) -> None:
        """Postgres could not serve a turn."""
        self._put_off += 1

    def observe_dry_run(self, outcome: str, seconds: float) -> None:
        """The API server was asked what it makes of a pod template."""
        self._dry_runs.labels(outcome).observe(seconds)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def _families(self) -> Iterator[Metric]:
        yield from self._leadership()
        yield from self._turn_counts()
        yield from self._cluster_io()
        if self._last is not None:
            yield from _of_turn(self._last)
        if (health := self._node_health()) is not None:
            yield from _of_nodes(health)

    def _leadership(self) -> Iterator[Metric]:
        leads = self._term is not None
        yield _family(GaugeMetricFamily, "muster_leader", "1 if this replica leads, else 0.", {(): leads})
        about = "Term this replica leads in; 0 if it does not."
        yield _family(GaugeMetricFamily, "muster_term", about, {(): self._term or 0})
        about = "Terms of this replica that an error ended, by the error's name."
        ended = {(error,): count for error, count in sorted(self._ended.items())}
        yield _family(CounterMetricFamily, "muster_terms_ended", about, ended, "error")
        about = "Longest time in the last 5 minutes for which the event loop stood still, in seconds."
        yield _family(GaugeMetricFamily, "muster_loop_block_seconds", about, {(): self._longest_block()})

    def _turn_counts(self) -> Iterator[Metric]:
        yield _family(CounterMetricFamily, "muster_turns", "Turns of this replica.", {(): self._turns})
        about = "Turns that were put off because Postgres could not serve them."
        yield _family(CounterMetricFamily, "muster_turns_put_off", about, {(): self._put_off})
        about = "Attempts of this replica to decide a turn that raised an error."
        failed = self._failed_decisions + self._failed_in_term
        yield _family(CounterMetricFamily, "muster_decisions_failed", about, {(): failed})
        if self._term is not None:
            about = "Workloads set aside because a step of the turn fails on them."
            yield _family(GaugeMetricFamily, "muster_workloads_set_aside", about, {(): self._set_aside})
            about = "Jobs of which the pods are to be listed before their seats are given back."
            yield _family(GaugeMetricFamily, "muster_jobs_unlisted", about, {(): self._unlisted_jobs()})
        about = "Seconds for which the oldest rows of a history have outlived their retention."
        lag = {(history,): seconds for history, seconds in sorted(self._retention_lag().items())}
        yield _family(GaugeMetricFamily, "muster_retention_lag_seconds", about, lag, "history")
        about = "Decisions of this replica that the ledger took (drop: refused)."
        counts = {(what,): count for what, count in self._counts.items()}
        yield _family(CounterMetricFamily, "muster_decisions", about, counts, "what")

        about = "Admissions that were evicted, by reason."
        evicted = {(code,): each.admissions for code, each in sorted(self._evictions.items())}
        yield _family(CounterMetricFamily, "muster_evictions", about, evicted, "reason")
        about = "Device-seconds of work that evictions cost, by reason."
        lost = {(code,): each.lost for code, each in sorted(self._evictions.items())}
        yield _family(CounterMetricFamily, "muster_lost_device_seconds", about, lost, "reason")

    def _cluster_io(self) -> Iterator[Metric]:
        about = "Requests to the API server by verb and status code."
        requests = dict(sorted(self._requests().items()))
        yield _family(CounterMetricFamily, "muster_api_requests", about, requests, "verb", "code")
        informers = sorted(self._informers().items())
        for kind, name, about in (
            (GaugeMetricFamily, "silent_seconds", "Seconds since the API server was last heard."),
            (CounterMetricFamily, "lists", "Full lists of an informer, the first one included."),
            (GaugeMetricFamily, "objects", "Objects an informer knows."),
            (GaugeMetricFamily, "unreadable", "Objects that cannot be read as they are now."),
        ):
            states = {(informer,): getattr(state, name) for informer, state in informers}
            yield _family(kind, f"muster_informer_{name}", about, states, "kind")


class _Reading(Collector):
    """Metrics as they are at the scrape, so that queues that are gone leave no series behind."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    about: str,
    values: Mapping[Any, float],
    *labels: str,
) -> Metric:
    """One metric; ``values`` by the values of the labels, as a tuple."""
    family = kind(name, about, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _of_turn(report: TurnReport) -> Iterator[Metric]:
    about = "Waiting workloads by queue and reason."
    pending = dict(sorted(report.pending.items()))
    yield _family(GaugeMetricFamily, "muster_workloads_pending", about, pending, "queue", "reason")
    for name, about, amounts in (
        ("used", "Use of a queue's subtree,", report.used),
        ("deserved", "What a queue deserves,", report.deserved),
        ("past_use", "Decayed average of the use of a queue's subtree,", report.past_use),
    ):
        values = {
            (queue, account.flavor, account.resource): _base_units(account.resource, units)
            for (queue, account), units in sorted(amounts.items())
        }
        labels = ("queue", "flavor", "resource")
        yield _family(
            GaugeMetricFamily, f"muster_queue_{name}", f"{about} in units of the resource.", values, *labels
        )
    about = "Nodes that admissions may use."
    yield _family(GaugeMetricFamily, "muster_nodes_usable", about, {(): report.nodes_usable})


def _of_nodes(health: NodeHealth) -> Iterator[Metric]:
    about = "Unhealthy devices, by what is wrong."
    faults = {(reason,): count for reason, count in sorted(health.faults.items())}
    yield _family(GaugeMetricFamily, "muster_devices_faulty", about, faults, "reason")
    about = "Nodes with unhealthy devices."
    yield _family(GaugeMetricFamily, "muster_nodes_faulty", about, {(): health.nodes})
    figures = health.figures
    for name, about, value in (
        ("faults", "Nodes that became faulty.", figures.faults),
        ("repairs", "Nodes that came back without a fault.", figures.repairs),
        ("repair_seconds", "Seconds from fault to return, over all repairs.", figures.repair_seconds),
        ("healthy_seconds", "Seconds without a fault, over all nodes.", figures.healthy_seconds),
        ("recovery_attempts", "Recoveries that were begun.", figures.attempts),
        ("recoveries_failed", "Recoveries that were given up.", figures.failures),
    ):
        yield _family(CounterMetricFamily, f"muster_node_{name}", about, {(): value})


def _base_units(resource: str, units: int) -> float:
    """Cores, bytes, devices: the base units that Prometheus asks for."""
    if in_bytes(resource) or resource == PODS:
        return float(units)
    return units / scale(resource)
