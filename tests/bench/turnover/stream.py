"""Kueue's generator as ``batch/v1`` Jobs with pods: how many end a second, and how much of the quota they use.

30 queues in 5 cohorts, each with a quota of 20 CPUs; what one queue does not use, the others of its cohort may. Jobs of
one pod ask for 1, 5 or 20 CPUs and run for 200, 500 or 1,000 ms: 100 in each queue, in the proportions, with the
priorities and in the order of Kueue's scalability test. There are more nodes than the quota needs.

Jobs a second: all Jobs, divided by the seconds from the first submission until the last Job was seen to be Complete.

Use of the quota: a Job uses its CPUs from the moment when it was seen to be resumed (``suspend: false``) until it was
seen to be Complete or, evicted, suspended again. The share is the average of what all Jobs use, divided by the quota of
all queues, from the first such moment to the last one at which Jobs that wait ask for as much as the whole quota;
later there is not enough work. A Job waits from its submission, and from its eviction, until it is resumed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from queues.api.api_resources import JOBS, PRIORITY_CLASSES, QUEUES, ApiResource
from tests.bench import report
from tests.bench.documents import GANG, NAMESPACE, Document, pod_spec, running
from tests.bench.mark import Mark
from tests.bench.rounds import Scene, scene
from tests.bench.turnover.decision_log import DecisionLog
from tests.bench.turnover.recorded_load import PodRecord, Record, WorkloadRecord
from tests.bench.turnover.recorded_round import RecordedRound, play_recorded
from tests.bench.turnover.timeline import Span, Window, last_moment_with, share_in_use

COHORTS: Final = 5
QUEUES_EACH: Final = 6
#: CPUs of each queue.
QUOTA: Final = 20
TOTAL: Final = COHORTS * QUEUES_EACH * QUOTA
#: Of 128 CPUs.
_NODES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs of one size, in each queue."""

    name: str
    #: Of a hundred Jobs.
    percent: int
    #: Milliseconds between two of them in Kueue's test: here they only give the order.
    every: int
    cpus: int
    #: Seconds.
    runs: float
    priority: int


SMALL = JobClass(name="small", percent=70, every=100, cpus=1, runs=0.2, priority=50)
MEDIUM = JobClass(name="medium", percent=20, every=500, cpus=5, runs=0.5, priority=100)
LARGE = JobClass(name="large", percent=10, every=1200, cpus=20, runs=1.0, priority=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """One Job of the stream."""

    queue: str
    kind: JobClass


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    """What one round was like."""

    played: RecordedRound
    seconds: float
    submitting_seconds: float
    #: The time in which there was enough work.
    window: Window
    use: float
    #: The same by the ledger: from the commit of an admission until its seats are given back.
    held: float
    evictions: int
    #: Seconds of each Job from one stage to the next.
    stages: Mapping[str, list[float]]

    @property
    def jobs_per_second(self) -> float:
        return len(self.played.record.workloads) / self.seconds


def stream(per_queue: int) -> list[QueuedJob]:
    """All Jobs in the order of Kueue's generator, in which each class of each queue comes at its own pace."""
    coming = [
        ((number + 1) * kind.every, cohort, queue, kind)
        for cohort in range(COHORTS)
        for queue in range(QUEUES_EACH)
        for kind in (SMALL, MEDIUM, LARGE)
        for number in range(per_queue * kind.percent // 100)
    ]
    coming.sort(key=lambda each: each[:3])
    return [QueuedJob(queue=_queue(cohort, queue), kind=kind) for _, cohort, queue, kind in coming]


def play(per_queue: int) -> StreamFigures:
    """Play one round on a control plane of its own."""
    jobs = stream(per_queue)
    with scene(_NODES) as on:
        _make_priority_classes(on)
        _make_queues(on)
        return figures(jobs, _played(on, jobs, queued=True))


def without_admission(per_queue: int) -> float:
    """The same Jobs a second without queues, and so without a quota: as fast as the control plane can be."""
    with scene(_NODES, admitted=False) as on:
        _make_priority_classes(on)
        workloads = _played(on, stream(per_queue), queued=False).record.workloads
    begun = min(each.submitted for each in workloads)
    return len(workloads) / (max(each.finished or begun for each in workloads) - begun)


def figures(jobs: list[QueuedJob], played: RecordedRound) -> StreamFigures:
    """The figures of a round with these Jobs."""
    record, log = played.record, played.log
    pairs = list(zip(jobs, record.workloads, strict=True))
    begun = min(each.submitted for each in record.workloads)
    enough = last_moment_with((span for pair in pairs for span in _waits(*pair)), TOTAL)
    if enough is None:
        raise RuntimeError("there was never enough work for the whole quota")
    window = Window(start=min(each.resumed[0] for each in record.workloads), end=enough)
    held = (span for number, job in enumerate(jobs) for span in _holds(job, number, log))
    return StreamFigures(
        played=played,
        seconds=max(each.finished or begun for each in record.workloads) - begun,
        submitting_seconds=max(each.submitted for each in record.workloads) - begun,
        window=window,
        use=share_in_use((span for pair in pairs for span in _uses(*pair)), TOTAL, window),
        held=share_in_use(held, TOTAL, window),
        evictions=sum(len(each.evicted) for each in record.workloads),
        stages=_stages(record, log),
    )


def table(rounds: Iterable[StreamFigures]) -> str:
    """What each round was like, and where its Jobs spent their time."""
    return "\n".join(
        f"{one.jobs_per_second:.1f} jobs/s, {one.use:.1%} of the quota in use during {one.window.seconds:.1f} s "
        f"(by the ledger {one.held:.1%}); submitted within {one.submitting_seconds:.1f} s, "
        f"{one.evictions} evictions, Muster {one.played.memory_mb:.0f} MB\n"
        + one.played.spent("Job")
        + report.stages(one.stages)
        for one in rounds
    )


def marks(rounds: Iterable[StreamFigures]) -> list[Mark]:
    """Medians over the rounds."""
    rounds = list(rounds)
    speed, use = median(one.jobs_per_second for one in rounds), median(one.use for one in rounds)
    return [
        Mark(
            name="Kueue's generator with pods", reached=speed, unit="jobs/s", must=55, aim=100, upwards=True
        ),
        Mark(
            name="Kueue's generator with pods: quota in use",
            reached=use * 100,
            unit="%",
            must=72,
            aim=80,
            upwards=True,
        ),
    ]


def _uses(job: QueuedJob, record: WorkloadRecord) -> Iterator[Span]:
    """Times in which a Job may have its pod."""
    assert record.finished is not None
    for start, end in zip(record.resumed, [*record.evicted, record.finished], strict=False):
        yield Span(start=start, end=end, amount=job.kind.cpus)


def _waits(job: QueuedJob, record: WorkloadRecord) -> Iterator[Span]:
    """Times in which it may not. A Job that was suspended too late ends without being resumed."""
    assert record.finished is not None
    for start, end in zip(
        [record.submitted, *record.evicted], [*record.resumed, record.finished], strict=False
    ):
        yield Span(start=start, end=end, amount=job.kind.cpus)


def _holds(job: QueuedJob, number: int, log: DecisionLog) -> Iterator[Span]:
    """Times in which the ledger has seats of a Job. It may hold the last ones still."""
    freed = [*log.freed[number], float("inf")]
    for start, end in zip(log.admitted[number], freed, strict=False):
        yield Span(start=start, end=end, amount=job.kind.cpus)


def _stages(record: Record, log: DecisionLog) -> dict[str, list[float]]:
    """Of Jobs that were never evicted."""
    pods: dict[int, PodRecord] = {pod.gang: pod for pod in record.pods}
    found: dict[str, list[float]] = {}
    for number, job in enumerate(record.workloads):
        pod = pods[number]
        if job.evicted or len(log.admitted[number]) != 1 or not log.freed[number]:
            continue
        [admitted], freed = log.admitted[number], log.freed[number][0]
        moments = (
            ("submitted, admitted", job.submitted, admitted),
            ("admitted, resumed", admitted, job.resumed[0]),
            ("resumed, pod made", job.resumed[0], pod.created),
            ("pod made, bound", pod.created, pod.bound),
            ("bound, running", pod.bound, pod.running),
            ("running, pod ended", pod.running, pod.ended),
            ("pod ended, Job complete", pod.ended, job.finished),
            ("pod ended, seats given back", pod.ended, freed),
            ("admitted, seats given back", admitted, freed),
        )
        for name, start, end in moments:
            if start is not None and end is not None:
                found.setdefault(name, []).append(end - start)
    return found


def _played(on: Scene, jobs: list[QueuedJob], *, queued: bool) -> RecordedRound:
    documents = [_job(number, job, queued=queued) for number, job in enumerate(jobs)]
    return play_recorded(on, JOBS.path(NAMESPACE), documents)


def _make_queues(on: Scene) -> None:
    with on.cluster.client() as api:
        for cohort in range(COHORTS):
            api.create(QUEUES.path(), _queue_document(f"c{cohort}", "root", QUEUES_EACH * QUOTA))
            for queue in range(QUEUES_EACH):
                api.create(QUEUES.path(), _queue_document(_queue(cohort, queue), f"c{cohort}", QUOTA))


def _make_priority_classes(on: Scene) -> None:
    with on.cluster.client() as api:
        for kind in (SMALL, MEDIUM, LARGE):
            document = _document(PRIORITY_CLASSES, kind.name, value=kind.priority)
            api.create(PRIORITY_CLASSES.path(), document)


def _queue(cohort: int, queue: int) -> str:
    return f"c{cohort}-q{queue}"


def _queue_document(name: str, parent: str, cpus: int) -> Document:
    """It may borrow all that its cohort has."""
    limits = {"deserved": {"cpu": str(cpus)}, "capability": {"cpu": str(QUEUES_EACH * QUOTA)}}
    return _document(QUEUES, name, spec={"parent": parent, **limits})


def _job(number: int, job: QueuedJob, *, queued: bool) -> Document:
    labels = {"muster.dev/queue-name": job.queue} if queued else {}
    spec = {**pod_spec({"cpu": str(job.kind.cpus)}), "priorityClassName": job.kind.name}
    template = {"metadata": running(job.kind.runs), "spec": spec}
    return _document(JOBS, GANG.format(number), labels, spec={"template": template})


def _document(resource: ApiResource, name: str, labels: Mapping[str, str] = {}, **content: Any) -> Document:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
