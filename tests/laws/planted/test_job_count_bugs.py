"""The law of the pods that a Job still gets can fail: each rule put back to an older form breaks recorded lives.

The lives are of Jobs under the job controller of Kubernetes, recorded by ``tests/kube/jobs/test_job_counts.py`` with
``MUSTER_RECORD_JOB_HISTORIES=FILE``, which holds the rules to the real one.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from admission.facts.pods import PodFact
from admission.facts.workloads import JobCounts
from admission.workloads import ended_seats, job_counts, state
from admission.workloads.kinds import batch_job
from admission.workloads.seats import SeatMap
from tests.kube.support.job_histories import other_indexes
from tests.kube.support.job_records import read
from tests.kube.support.seated_jobs import SeatedJob

LIVES: Final = Path(__file__).with_name("job_lives.jsonl").read_text().splitlines()


def wrong_in(line: str) -> Iterator[str]:
    """What is wrong with what Muster says in one life."""
    seed, rests = read(line)
    directed, before = seed % 2 == 1, frozenset[str]()
    draw = random.Random(seed)
    seated = [SeatedJob(nodes=1 if seed % 4 == 3 else 2, directed=directed, draw=draw)]
    if not directed:
        seated.append(SeatedJob(nodes=2, directed=False, draw=draw, in_job_set=True))
    for seen in rests:
        yield seen.disagreement()
        yield other_indexes(seen, set(before))
        yield from (each.wrong_at_rest(seen) for each in seated)
        before = frozenset(pod.uid for pod in seen.active)


@dataclass(frozen=True)
class Bug:
    """Attributes of modules, each replaced by something wrong."""

    about: str
    attributes: Sequence[tuple[Any, str, Any]]

    def __str__(self) -> str:
        return self.about


def everywhere(name: str, wrong: Any) -> list[tuple[Any, str, Any]]:
    """A function of ``job_counts``, wherever it is used."""
    return [(module, name, wrong) for module in (job_counts, ended_seats, batch_job) if hasattr(module, name)]


_at_a_time, _to_come, _with_ended = (
    job_counts.pods_at_a_time,
    job_counts.indexes_to_come,
    job_counts.with_ended,
)
_counts = batch_job._counts


def _by_number(counts: JobCounts, active: int) -> int:
    return _at_a_time(replace(counts, over=None), active)


def _without_queues(counts: JobCounts, active: int) -> int:
    return (
        counts.parallelism if counts.completions is None and not counts.ends else _at_a_time(counts, active)
    )


def _without_ends(counts: JobCounts, active: int) -> int:
    return _at_a_time(replace(counts, ends=False), active)


def _without_failed(job: Any, parallelism: int) -> JobCounts:
    status = msgspec.structs.replace(job.status, failed_indexes=None)
    return _counts(msgspec.structs.replace(job, status=status), parallelism)


def _lowest_indexes(counts: JobCounts, active: Collection[int]) -> tuple[int, ...]:
    """Counted from the active ones on, as if indexes ended in their order."""
    first = max(active, default=-1) + 1
    count = _at_a_time(counts, 0) - len(active)
    return tuple(range(first, min(first + count, counts.completions or 0))) if counts.over is not None else ()


def _with_forgotten(counts: JobCounts, pods: Sequence[PodFact]) -> JobCounts:
    """An index that succeeded stays so, though its Job lost it and got it again."""
    return _with_ended(counts, [replace(pod, uncounted=True) for pod in pods])


BUGS = [
    Bug("indexes that failed for good still get a pod", [(batch_job, "_counts", _without_failed)]),
    Bug("only the number of pods that succeeded counts", everywhere("pods_at_a_time", _by_number)),
    Bug("a work queue goes on after its first success", everywhere("pods_at_a_time", _without_queues)),
    Bug("a Job that succeeds or fails as a whole goes on", everywhere("pods_at_a_time", _without_ends)),
    Bug("pods count once the status counts them", everywhere("with_ended", lambda counts, pods: counts)),
    Bug("an index that runs anew has succeeded", everywhere("with_ended", _with_forgotten)),
    Bug("indexes end in their order", everywhere("indexes_to_come", _lowest_indexes)),
    Bug("Jobs of a JobSet keep all seats", [(state, "with_child_jobs", lambda inputs: inputs)]),
    Bug("pods sit in the seats of their indexes", [(SeatMap, "is_by_index", lambda place: True)]),
]


@pytest.mark.parametrize("line", LIVES, ids=lambda line: f"life {read(line)[0]}")
def test_what_muster_says_holds_in_recorded_lives(line: str) -> None:
    assert not list(filter(None, wrong_in(line)))


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_rule_put_back_to_an_older_form_is_wrong_in_one(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, wrong in bug.attributes:
        monkeypatch.setattr(owner, name, wrong)
    assert any(wrong for line in LIVES for wrong in wrong_in(line))
