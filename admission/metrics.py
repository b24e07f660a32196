"""Prometheus metrics, read off turn reports.

The only file that knows prometheus_client. Names, labels and help are those of ``admission.figures.catalogue``, which
docs/reference/metrics.md is written from. What has many series is written by ``admission.figures.queue_metrics``.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from admission.engine.snapshot import Snapshot
from admission.figures.catalogue import BY_NAME, Kind
from admission.figures.queue_metrics import WideMetrics
from admission.kube.watch.informers import InformerState
from admission.kube.webhook.validity import Validity
from admission.turn_report import EvictionCost, TurnReport
from admission.world.nodes import NodeHealth
from queues.quota.budgets import BudgetUse

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


#: Statuses of the API server.
_REFUSED, _CONFLICT, _THROTTLED, _SERVER_ERROR = 400, 409, 429, 500


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """What is asked for at each scrape about the processes and connections of this replica."""

    #: Answers of the API server by (verb, resource, code); code 0: none came. And requests that were sent again.
    answers: Callable[[], Mapping[tuple[str, str, int], int]] = dict
    retries: Callable[[], Mapping[str, int]] = dict
    #: By role: whether the process next to this one serves.
    serving: Callable[[], Mapping[str, bool]] = dict
    #: By role and certificate: when it is valid.
    certificates: Callable[[], Mapping[tuple[str, str], Validity]] = dict
    #: What the last turn of this replica decided on; None if it does not lead.
    snapshot: Callable[[], Snapshot | None] = _nothing
    #: What is used of budgets; None if no queue has one, or another replica leads.
    budgets: Callable[[], BudgetUse | None] = _nothing
    #: Seconds of the event loop's longest block.
    longest_block: Callable[[], float] = float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFigures:
    """What a leader knows besides its turns. As it is by default if another replica leads."""

    #: By name.
    informers: Mapping[str, InformerState] = field(default_factory=dict)
    #: Seconds for which each history has outlived its retention.
    retention_lag: Mapping[str, float] = field(default_factory=dict)
    #: Jobs whose pods are to be listed before their seats are given back.
    unlisted_jobs: int = 0
    node_health: NodeHealth | None = None
    #: By AdmissionCheck: when requests were made that have no answer for longer than it says.
    silent_checks: Mapping[str, Sequence[int]] = field(default_factory=dict)


class Metrics:
    """Sums up turn reports and writes them as text. One per process; nothing is global."""

    def __init__(
        self,
        *,
        process: ProcessFigures = ProcessFigures(),
        leader: Callable[[], LeaderFigures] = LeaderFigures,
    ) -> None:
        """Both are asked at each scrape."""
        self._registry = CollectorRegistry()
        self._process = process
        self._leader = leader
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
        self._phases = self._histogram("muster_turn_phase_seconds", TURN_SECONDS)
        self._waits = self._histogram("muster_gang_stage_seconds", WAIT_SECONDS)
        self._dry_runs = self._histogram("muster_dry_run_seconds", TURN_SECONDS)
        self._transactions = self._histogram("muster_transaction_seconds", TURN_SECONDS)
        self._registry.register(_Reading(self._families))
        self._wide = WideMetrics(time.time, process.snapshot, process.budgets)
        #: One, so that a reading that is no longer waited for has ended before the next one begins.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        #: When (of the monotonic clock) the last turn ended.
        self._turned_at: float | None = None

    def observe(self, report: TurnReport) -> None:
        """Add one turn. A turn without a decision leaves the gauges as they are."""
        self._turns += 1
        self._turned_at = time.monotonic()
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
        if report.books is not None:
            self._wide.note(report.books, report.waits)
        for stage, times in report.stages.items():
            for seconds in times:
                self._waits.labels(stage.value).observe(max(0.0, seconds))

    def leads(self, term: int | None) -> None:
        """This replica leads from now on in that term. None if it leads no longer: the gauges of turns vanish."""
        self._term = term
        self._turned_at = time.monotonic()
        if term is None:
            self._wide.lead_ends()
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

    def observe_transaction(self, outcome: str, seconds: float) -> None:
        """A transaction of the leading process has ended."""
        self._transactions.labels(outcome).observe(seconds)

    async def written(self) -> bytes:
        """Everything in Prometheus' text format. What takes long is written in a thread: the loop goes on."""
        wide = asyncio.get_running_loop().run_in_executor(self._thread, self._wide.text)
        return generate_latest(self._registry) + (await wide).encode()

    def text(self) -> bytes:
        """The same, all in this thread."""
        return generate_latest(self._registry) + self._wide.text().encode()

    def _histogram(self, name: str, buckets: tuple[float, ...]) -> Histogram:
        metric = BY_NAME[name]
        return Histogram(name, metric.help, metric.labels, buckets=buckets, registry=self._registry)

    def _families(self) -> Iterator[Metric]:
        leader = self._leader()
        yield from self._leadership()
        yield from self._turn_counts(leader)
        yield from self._servers()
        yield from _informer_states(leader.informers)
        if self._last is not None:
            yield _single("muster_nodes_usable", self._last.nodes_usable)
        if leader.node_health is not None:
            yield from _of_nodes(leader.node_health)

    def _leadership(self) -> Iterator[Metric]:
        yield _single("muster_leader", self._term is not None)
        yield _single("muster_term", self._term or 0)
        yield _family("muster_terms_ended_total", {(error,): n for error, n in sorted(self._ended.items())})
        yield _single("muster_loop_block_seconds", self._process.longest_block())

    def _turn_counts(self, leader: LeaderFigures) -> Iterator[Metric]:
        yield _single("muster_turns_total", self._turns)
        yield _single("muster_turns_put_off_total", self._put_off)
        yield _single("muster_decisions_failed_total", self._failed_decisions + self._failed_in_term)
        if self._term is not None:
            yield _single("muster_workloads_set_aside", self._set_aside)
            yield _single("muster_jobs_unlisted", leader.unlisted_jobs)
            silent = {(check,): len(asked) for check, asked in sorted(leader.silent_checks.items())}
            yield _family("muster_check_requests_silent", silent)
            if self._turned_at is not None:
                yield _single("muster_turn_age_seconds", max(0.0, time.monotonic() - self._turned_at))
        lag = {(history,): seconds for history, seconds in sorted(leader.retention_lag.items())}
        yield _family("muster_retention_lag_seconds", lag)
        yield _family("muster_decisions_total", {(what,): count for what, count in self._counts.items()})
        evictions = sorted(self._evictions.items())
        yield _family("muster_evictions_total", {(code,): each.admissions for code, each in evictions})
        yield _family("muster_lost_device_seconds_total", {(code,): each.lost for code, each in evictions})

    def _servers(self) -> Iterator[Metric]:
        serving = sorted(self._process.serving().items())
        yield _family("muster_serving_process_up", {(role,): is_open for role, is_open in serving})
        certificates = dict(sorted(self._process.certificates().items()))
        ends = {labels: valid.ends for labels, valid in certificates.items()}
        yield _family("muster_certificate_expiry_timestamp_seconds", ends)
        lifetimes = {labels: valid.ends - valid.begins for labels, valid in certificates.items()}
        yield _family("muster_certificate_lifetime_seconds", lifetimes)
        answers = sorted(self._process.answers().items())
        requests, writes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for (verb, resource, code), count in answers:
            requests[verb, str(code)] += count
            if verb not in ("GET", "WATCH"):
                writes[resource, _outcome(code)] += count
        yield _family("muster_api_requests_total", requests)
        yield _family("muster_api_writes_total", writes)
        retries = sorted(self._process.retries().items())
        yield _family("muster_api_retries_total", {(resource,): count for resource, count in retries})


class _Reading(Collector):
    """Metrics as they are at the scrape, so that what is gone leaves no series behind."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


def _family(name: str, values: Mapping[Any, float]) -> Metric:
    """One metric of the catalogue; ``values`` by the values of the labels, as a tuple."""
    metric = BY_NAME[name]
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family: Metric = kind(metric.base_name, metric.help, labels=metric.labels)
    for key, value in values.items():
        family.add_metric(key, value)  # type: ignore[attr-defined]
    return family


def _single(name: str, value: float) -> Metric:
    """A metric without labels."""
    return _family(name, {(): value})


def _outcome(code: int) -> str:
    """What became of a request, by the status of its answer; 0: none came."""
    if code == 0 or code >= _SERVER_ERROR:
        return "unavailable"
    if code < _REFUSED:
        return "ok"
    return {_CONFLICT: "conflict", _THROTTLED: "throttled"}.get(code, "refused")


def _informer_states(informers: Mapping[str, InformerState]) -> Iterator[Metric]:
    for name in ("silent_seconds", "lists", "objects", "unreadable"):
        states = {(informer,): getattr(state, name) for informer, state in sorted(informers.items())}
        yield _family(f"muster_informer_{name}{'_total' if name == 'lists' else ''}", states)


def _of_nodes(health: NodeHealth) -> Iterator[Metric]:
    yield _family("muster_devices_faulty", {(why,): count for why, count in sorted(health.faults.items())})
    yield _single("muster_nodes_faulty", health.nodes)
    closed = {(phase,): count for phase, count in sorted(health.closed.items())}
    yield _family("muster_nodes_closed", closed)
