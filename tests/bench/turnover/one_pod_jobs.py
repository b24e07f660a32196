"""Volcano Jobs of one pod, thousands at once: how many end a second, beside the same pods posted directly.

Each pod asks for one GPU and runs for a second; there are GPUs for all of them. Volcano publishes 42 such Jobs a second
on 8 cores, with its webhook. Pods that are posted directly are counted until the last one is bound.
"""

from dataclasses import dataclass
from typing import Final

from tests.bench.documents import GANG, GPU, Form, pod_spec, running, volcano_job
from tests.bench.mark import Mark
from tests.bench.rounds import Shape, play, scene
from tests.bench.turnover.recorded_round import RecordedRound, play_recorded

#: GPUs of a node.
_GPUS: Final = 8
#: Seconds.
_RUNS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePodFigures:
    """What it was like."""

    played: RecordedRound
    #: From the first submission until the last Job was seen to be Completed, and until the last pod was bound.
    seconds: float
    bound_seconds: float
    posted_pods_per_second: float

    @property
    def count(self) -> int:
        return len(self.played.record.workloads)


def play_jobs(count: int) -> OnePodFigures:
    """Play one round of so many Jobs, and one of so many pods, each on a control plane of its own."""
    nodes = -(-count // _GPUS)
    template = {"metadata": running(_RUNS), "spec": pod_spec({GPU: "1"})}
    documents = [volcano_job(GANG.format(number), 1, template) for number in range(count)]
    with scene(nodes) as on:
        played = play_recorded(on, Form.VOLCANO_JOB.collection, documents)
    record = played.record
    begun = min(each.submitted for each in record.workloads)
    posted = play(Form.PODS, Shape(nodes=nodes, gangs=count, size=1))
    return OnePodFigures(
        played=played,
        seconds=max(each.finished or begun for each in record.workloads) - begun,
        bound_seconds=max(each.bound or begun for each in record.pods) - begun,
        posted_pods_per_second=posted.pods_per_second,
    )


def table(figures: OnePodFigures) -> str:
    """The rates, and where the processor time went."""
    return (
        f"{figures.count:,} Jobs of one pod: all Completed after {figures.seconds:.1f} s, "
        f"{figures.count / figures.seconds:.1f} jobs/s; bound {figures.count / figures.bound_seconds:.1f} pods/s, "
        f"posted directly {figures.posted_pods_per_second:.1f} pods/s\n" + figures.played.spent("Job")
    )


def marks(figures: OnePodFigures) -> list[Mark]:
    """What the leader takes. The rate is printed beside that of the pods."""
    return [
        Mark(
            name="Jobs of one pod: peak memory",
            reached=figures.played.memory_mb,
            unit="MB",
            must=500,
            aim=300,
            upwards=False,
        ),
    ]
