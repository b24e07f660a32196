"""Gangs of whole nodes that come and go: how much of a cluster that has always too much to do they use.

Volcano Jobs of 1 to 8 nodes, all their GPUs, are submitted at once to 100 nodes of 8 GPUs. Each pod runs for 5
seconds.

Utilisation: the node-seconds in which a pod was seen to run (phase Running until Succeeded), divided by the nodes times
the seconds of the window. The window is from the first moment at which a pod was seen to run to the last one at which
gangs without a pod ask for as many nodes as there are; later there is not enough work.

A turnover is what happens on one node between the end of a gang's pod and the start of the next gang's.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from tests.bench import report
from tests.bench.documents import GANG, GPU, Form, pod_spec, running, volcano_job
from tests.bench.mark import Mark
from tests.bench.rounds import scene
from tests.bench.turnover.decision_log import DecisionLog
from tests.bench.turnover.recorded_load import PodRecord, Record
from tests.bench.turnover.recorded_round import RecordedRound, play_recorded
from tests.bench.turnover.timeline import Span, Window, last_moment_with, share_in_use

NODES: Final = 100
#: Nodes of a gang.
SMALLEST, LARGEST = 1, 8
#: Seconds that each pod runs.
RUNS: Final = 5.0
_SEED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MixFigures:
    """What one round was like."""

    played: RecordedRound
    #: The time in which there was enough work.
    window: Window
    utilisation: float
    #: Seconds of each turnover in the window by stage.
    turnovers: Mapping[str, list[float]]


def sizes(seconds: float) -> list[int]:
    """Nodes of each gang, as many of each size: enough work for so long on all nodes, and then once more for all."""
    wanted = (seconds / RUNS + 1) * NODES
    gangs = list(range(SMALLEST, LARGEST + 1))
    gangs *= round(wanted / sum(gangs))
    random.Random(_SEED).shuffle(gangs)
    return gangs


def play(seconds: float) -> MixFigures:
    """Play one round on a control plane of its own."""
    gangs = sizes(seconds)
    template = {"metadata": running(RUNS), "spec": pod_spec({GPU: "8"})}
    documents = [volcano_job(GANG.format(number), size, template) for number, size in enumerate(gangs)]
    with scene(NODES) as on:
        return figures(gangs, play_recorded(on, Form.VOLCANO_JOB.collection, documents))


def figures(gangs: list[int], played: RecordedRound) -> MixFigures:
    """The figures of a round with gangs of so many nodes each."""
    record = played.record
    runs = [
        Span(start=pod.running, end=pod.ended)
        for pod in record.pods
        if pod.running is not None and pod.ended is not None
    ]
    enough = last_moment_with(_waits(gangs, record), NODES)
    if enough is None:
        raise RuntimeError("there was never enough work for all nodes")
    window = Window(start=min(span.start for span in runs), end=enough)
    return MixFigures(
        played=played,
        window=window,
        utilisation=share_in_use(runs, NODES, window),
        turnovers=turnovers(record.pods, played.log, window),
    )


def turnovers(pods: Iterable[PodRecord], log: DecisionLog, window: Window) -> dict[str, list[float]]:
    """Seconds of each stage of each turnover that ends in the window.

    A stage that was over before the one ahead of it has taken less than nothing: seats of pods that have ended are
    given to the next gang before those of their last pod are back.
    """
    by_node: dict[str, list[PodRecord]] = {}
    for pod in sorted(pods, key=lambda pod: pod.running or 0.0):
        by_node.setdefault(pod.node, []).append(pod)
    last_end: dict[int, float] = {}
    for pod in pods:
        last_end[pod.gang] = max(last_end.get(pod.gang, 0.0), pod.ended or 0.0)
    found: dict[str, list[float]] = {}
    for before, after in (pair for of_node in by_node.values() for pair in pairwise(of_node)):
        if after.running is None or not window.start <= after.running <= window.end:
            continue
        for name, start, end in _stages(before, after, last_end, log):
            if start is not None and end is not None:
                found.setdefault(name, []).append(end - start)
    return found


def _stages(
    before: PodRecord, after: PodRecord, last_end: Mapping[int, float], log: DecisionLog
) -> Iterator[tuple[str, float | None, float | None]]:
    freed, admitted = (next(iter(of), None) for of in (log.freed[before.gang], log.admitted[after.gang]))
    yield "the pod's end, its gang's", before.ended, last_end[before.gang]
    yield "the gang's end, seats given back", last_end[before.gang], freed
    yield "seats given back, next admitted", freed, admitted
    yield "admitted, pod made", admitted, after.created
    yield "pod made, bound", after.created, after.bound
    yield "bound, running", after.bound, after.running
    yield "the pod's end, next admitted", before.ended, admitted
    yield "all: the pod's end, next running", before.ended, after.running
    yield "beside: how long a pod runs", after.running, after.ended


def table(rounds: Iterable[MixFigures]) -> str:
    """What each round was like, and how long the turnovers took."""
    return "\n".join(
        f"{one.utilisation:.1%} of the nodes ran {len(one.played.record.workloads)} gangs during "
        f"{one.window.seconds:.1f} s, Muster {one.played.memory_mb:.0f} MB\n"
        + one.played.spent("gang")
        + report.stages(one.turnovers)
        for one in rounds
    )


def marks(rounds: Iterable[MixFigures]) -> list[Mark]:
    """The median over the rounds."""
    reached = median(one.utilisation for one in rounds) * 100
    name = f"gangs of {SMALLEST} to {LARGEST} whole nodes that run {RUNS:g} s: nodes in use"
    return [Mark(name=name, reached=reached, unit="%", must=84, aim=88, upwards=True)]


def _waits(gangs: list[int], record: Record) -> Iterator[Span]:
    """Until a gang has its first pod."""
    made: dict[int, float] = {}
    for pod in record.pods:
        made[pod.gang] = min(made.get(pod.gang, pod.created), pod.created)
    for number, size in enumerate(gangs):
        yield Span(start=record.workloads[number].submitted, end=made[number], amount=size)
