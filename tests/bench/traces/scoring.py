"""One week under one set of rules, judged by an independent scorer."""

import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from queues.quota.queue import Queue, QueuePolicy
from tests.bench.simulate import gang_trace, report, rules
from tests.bench.simulate.gangs import Segment, Simulation
from tests.bench.traces.weeks import Week

_HOUR: Final = 3600
_DAY: Final = 86_400

FULL: Final = "everything"
NO_PREEMPTION: Final = "no preemption at all"


def _with(**rule: Any) -> Queue:
    return replace(rules.DEFAULT, policy=QueuePolicy(**rule))


#: What is switched off, and how root says so.
ABLATIONS: Final[Mapping[str, Queue]] = {
    FULL: rules.DEFAULT,
    "no clearing for starved gangs": _with(clear_after=rules.NEVER_SECONDS),
    "clearing after 4 h": _with(clear_after=4 * _HOUR),
    "no reclaim of lent quota": _with(reclaim="never"),
    "reclaim from gangs at once": _with(max_protection=0),
    "spread instead of pack": replace(rules.DEFAULT, placement="spread"),
    "inside a queue by arrival alone": replace(rules.DEFAULT, order="fifo"),
    "inside a queue strictly by arrival": replace(rules.DEFAULT, order="strict-fifo"),
    "protected for ten minutes after the start": _with(min_run_time=600),
    NO_PREEMPTION: rules.NO_PREEMPTION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One week under one set of rules, in hours and shares."""

    case: str
    violations: Mapping[str, int]
    util_eff: float
    gang_p95_hours: float
    share_dev: float
    worst_tenant: float
    mean_wait_hours: float
    wasted: float
    evictions: int
    #: Of one job in any 24 hours.
    evictions_in_a_day: int
    #: The wait of any gang before its first start.
    longest_gang_wait_hours: float
    seconds: float
    decisions_per_second: float


def play(week: Week, root: Queue) -> Score:
    """Simulate one week and judge the schedule."""
    folder = week.folder()
    case = gang_trace.load(folder)
    outcome = Simulation(case, rules.under(root, case.queues)).run()
    rows = [
        {"id": each.job, "start_s": each.start, "end_s": each.end, "nodes": ";".join(each.nodes)}
        for each in outcome.segments
    ]
    found = _scorer(week.scorer).score(folder, rows)
    figures = report.summary(outcome)
    submitted = {job.workload.name: job.submitted for job in case.jobs if job.workload.minimum > 1}
    return Score(
        case=week.name,
        violations=found["violations"],
        util_eff=float(found["util_eff"]),
        gang_p95_hours=found["gang_wait_p95"] / _HOUR,
        share_dev=float(found["share_dev"]),
        worst_tenant=float(found["worst_tenant"]),
        mean_wait_hours=found["wait_mean"] / _HOUR,
        wasted=float(found["wasted"]),
        evictions=outcome.evicted.total(),
        evictions_in_a_day=evictions_in_a_day(outcome.segments),
        longest_gang_wait_hours=longest_wait(outcome.segments, submitted) / _HOUR,
        seconds=outcome.seconds,
        decisions_per_second=figures["decisions_per_second"],
    )


def evictions_in_a_day(segments: Iterable[Segment]) -> int:
    """How often one job was evicted in any 24 hours at most. Every segment of a job but the last ends so."""
    ends: dict[str, list[int]] = {}
    for each in segments:
        ends.setdefault(each.job, []).append(each.end)
    most = 0
    for of_job in ends.values():
        evicted = sorted(of_job)[:-1]
        most = max(most, *(sum(end - _DAY < each <= end for each in evicted) for end in (*evicted, 0)))
    return most


def longest_wait(segments: Iterable[Segment], submitted: Mapping[str, int]) -> int:
    """Seconds from when any of these jobs was submitted to its first start, at most."""
    first: dict[str, int] = {}
    for each in segments:
        if each.job in submitted:
            first[each.job] = min(each.start, first.get(each.job, each.start))
    return max((start - submitted[job] for job, start in first.items()), default=0)


def _scorer(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("score", path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
