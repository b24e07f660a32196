"""``python -m tests.bench``: see docs/reference/benchmarks.md."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from tests.bench import faults, flood, policies, report, requests, restart
from tests.bench.agents import part as agents
from tests.bench.documents import Form
from tests.bench.engine import CASES
from tests.bench.history import retention
from tests.bench.mark import Mark
from tests.bench.model_objects import ClusterSize
from tests.bench.rounds import Figures, Shape, play
from tests.bench.traces import expected_start
from tests.bench.turnover import mix, one_pod_jobs, stream

Rounds = dict[str, list[Figures]]
_Round = TypeVar("_Round")
#: They take long, and much room on the disk.
_ONLY_IF_ASKED = frozenset({"retention", "one-pod"})
#: That ask the read API in part ``readers``.
_CLIENTS = 200


def main() -> int:
    """Exit code 1: something that must hold does not."""
    options = _options()
    shape = Shape(nodes=options.nodes or 1000, gangs=options.gangs)
    benchmarks: dict[str, Callable[[Shape, int], tuple[Rounds, list[Mark]]]] = {
        "volcano": _volcano,
        "jobs": _jobs,
        "latency": _latency,
        "requests": _requests,
        "readers": _readers,
        "stream": lambda _shape, pairs: _stream(options.per_queue, pairs),
        "mix": lambda _shape, pairs: _mix(options.seconds, pairs),
        "one-pod": lambda _shape, _pairs: _one_pod(options.one_pod_jobs),
        "agent": lambda _shape, _pairs: ({}, agents.play(options.agents, seconds=60)),
        "faults": lambda shape, _pairs: ({}, faults.play(shape.nodes, gangs=20)),
        "policies": lambda _shape, pairs: _policies(options.policy_pods, pairs),
        "engine": _engine,
        "expected-start": lambda _shape, _pairs: ({}, expected_start.coverage(traces=options.traces)),
        "page": lambda _shape, _pairs: ({}, _page()),
        "restart": lambda _shape, _pairs: _restart(options),
        "flood": lambda _shape, _pairs: _flood(options.flood_jobs, options.logs),
        "retention": lambda _shape, _pairs: _retention(options),
    }
    marks: list[Mark] = []
    everything: dict[str, Rounds] = {}
    print(
        f"{shape.nodes:,} nodes × 8 GPUs, {shape.gangs} gangs × {shape.size} pods, {options.pairs} pairs; "
        f"{os.cpu_count()} cores for everything"
    )
    for name, benchmark in benchmarks.items():
        if options.only == name or (options.only is None and name not in _ONLY_IF_ASKED):
            everything[name], reached = benchmark(shape, options.pairs)
            marks += reached
            for mark in reached:
                print(mark.line())
            if options.json is not None:
                _write(options.json, everything, marks)
    return 0 if all(mark.holds for mark in marks) else 1


def _volcano(shape: Shape, pairs: int) -> tuple[Rounds, list[Mark]]:
    """Volcano Jobs beside the same pods, and for information beside pods already pinned."""
    rounds = _alternate((Form.VOLCANO_JOB, Form.PODS, Form.PINNED_PODS), shape, pairs)
    form = Form.VOLCANO_JOB.value
    ratio = report.throughput(rounds, form, Form.PODS.value, must=0.95)
    return rounds, [ratio, report.memory(rounds), report.processor_time(rounds, form)]


def _jobs(shape: Shape, pairs: int) -> tuple[Rounds, list[Mark]]:
    """Indexed batch/v1 Jobs with a queue beside the same Jobs without."""
    rounds = _alternate((Form.QUEUED_JOB, Form.JOB), shape, pairs)
    form = Form.QUEUED_JOB.value
    ratio = report.throughput(rounds, form, Form.JOB.value, must=0.9)
    return rounds, [ratio, report.memory(rounds), report.processor_time(rounds, form)]


def _latency(shape: Shape, pairs: int) -> tuple[Rounds, list[Mark]]:
    """One gang at a time on an idle cluster."""
    few = Shape(nodes=shape.nodes, gangs=min(40, shape.gangs))
    forms = (Form.VOLCANO_JOB, Form.PODS, Form.QUEUED_JOB, Form.JOB)
    rounds = _alternate(forms, few, pairs, one_at_a_time=True)
    return rounds, [
        report.latency(rounds, Form.VOLCANO_JOB.value, Form.PODS.value),
        report.latency(rounds, Form.QUEUED_JOB.value, Form.JOB.value),
    ]


def _readers(shape: Shape, pairs: int) -> tuple[Rounds, list[Mark]]:
    """The same burst with and without clients that ask the read API without a pause."""
    quiet, asked = Form.VOLCANO_JOB.value, f"{Form.VOLCANO_JOB.value} while {_CLIENTS} clients ask"
    rounds: Rounds = {quiet: [], asked: []}
    for pair in range(pairs):
        for name in (quiet, asked) if pair % 2 == 0 else (asked, quiet):
            _say(f"pair {pair + 1} of {pairs}: {name}")
            rounds[name].append(play(Form.VOLCANO_JOB, shape, readers=_CLIENTS if name == asked else 0))
            _say(f" {rounds[name][-1].pods_per_second:.1f} pods/s {rounds[name][-1].answers}\n")
    print(report.table(rounds))
    return rounds, [report.undisturbed(rounds, asked, quiet)]


def _requests(shape: Shape, _: int) -> tuple[Rounds, list[Mark]]:
    """What the API server is asked for one gang over its life; counted apart, because counting takes time."""
    forms = (Form.VOLCANO_JOB, Form.QUEUED_JOB, Form.JOB)
    print(requests.table({form.value: requests.play(form, min(60, shape.gangs)) for form in forms}))
    return {}, []


def _stream(per_queue: int, count: int) -> tuple[Rounds, list[Mark]]:
    """Jobs that come faster than the quota lets them run."""
    rounds = _repeat("stream", lambda: stream.play(per_queue), count)
    print(stream.table(rounds))
    _say("without admission\n")
    print(
        f"the same Jobs without queues, and so without a quota: {stream.without_admission(per_queue):.1f} jobs/s"
    )
    return {}, stream.marks(rounds)


def _mix(seconds: float, count: int) -> tuple[Rounds, list[Mark]]:
    """Gangs of whole nodes on a cluster that has always too much to do."""
    rounds = _repeat("mix", lambda: mix.play(seconds), count)
    print(mix.table(rounds))
    return {}, mix.marks(rounds)


def _one_pod(count: int) -> tuple[Rounds, list[Mark]]:
    """Thousands of the smallest Jobs at once."""
    figures = one_pod_jobs.play_jobs(count)
    print(one_pod_jobs.table(figures))
    return {}, one_pod_jobs.marks(figures)


def _engine(_shape: Shape, _pairs: int) -> tuple[Rounds, list[Mark]]:
    """What a decision costs, on worlds in memory."""
    return {}, [mark for case in CASES.values() for mark in case()]


def _page() -> list[Mark]:
    """The page with a large cluster in a real browser."""
    from tests.browser import speed

    return speed.play()


def _policies(pods: int, pairs: int) -> tuple[Rounds, list[Mark]]:
    """What the API server works for the policies."""
    added = policies.play(pods, pairs)
    print(policies.table(added))
    return {}, policies.marks(added)


def _restart(options: argparse.Namespace) -> tuple[Rounds, list[Mark]]:
    """A new leader of a large cluster."""
    usual = ClusterSize()
    size = ClusterSize(
        nodes=options.nodes or usual.nodes,
        pending=options.pending,
        finished=options.finished,
        running=options.running,
        burst=min(options.burst, options.pending),
        departures=min(options.departures, options.finished),
        claims=options.claims,
    )
    figures = restart.play(size, options.logs)
    print(restart.table(figures))
    return {}, restart.marks(figures)


def _flood(jobs: int, logs: Path | None) -> tuple[Rounds, list[Mark]]:
    """A tenant that floods the cluster with short Jobs, and the gangs of another one."""
    figures = flood.play(jobs, logs)
    print(flood.table(figures))
    return {}, flood.marks(figures)


def _retention(options: argparse.Namespace) -> tuple[Rounds, list[Mark]]:
    """Sixty days, and a failover with a week of postings."""
    figures = retention.play(
        days=options.days,
        jobs=options.jobs,
        old_rows=options.old_rows,
        postings=options.postings,
        folder=options.logs,
    )
    print(retention.table(figures))
    return {}, retention.marks(figures)


def _alternate(forms: tuple[Form, ...], shape: Shape, pairs: int, *, one_at_a_time: bool = False) -> Rounds:
    rounds: Rounds = {form.value: [] for form in forms}
    for pair in range(pairs):
        # Whoever goes first may find the machine warmer or cooler, so they take turns.
        for form in forms if pair % 2 == 0 else forms[::-1]:
            _say(f"pair {pair + 1} of {pairs}: {form.value}")
            rounds[form.value].append(play(form, shape, one_at_a_time=one_at_a_time))
            _say(f" {rounds[form.value][-1].pods_per_second:.1f} pods/s\n")
    print(report.table(rounds))
    return rounds


def _repeat(name: str, play_one: Callable[[], _Round], count: int) -> list[_Round]:
    rounds = []
    for number in range(count):
        _say(f"round {number + 1} of {count}: {name}\n")
        rounds.append(play_one())
    return rounds


def _write(path: Path, everything: dict[str, Rounds], marks: list[Mark]) -> None:
    rounds = {
        name: {form: [asdict(one) for one in figures] for form, figures in forms.items()}
        for name, forms in everything.items()
    }
    reached = [{**asdict(mark), "holds": mark.holds, "aim_reached": mark.aim_reached} for mark in marks]
    path.write_text(json.dumps({"marks": reached, "rounds": rounds}, indent=1))


def _say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there as well")
    parser.add_argument(
        "--only",
        choices=(
            *("volcano", "jobs", "latency", "requests", "readers", "stream", "mix"),
            *(
                "one-pod",
                "agent",
                "faults",
                "policies",
                "engine",
                "expected-start",
                "page",
                "restart",
                "flood",
                "retention",
            ),
        ),
    )
    parser.add_argument("--gangs", type=int, default=500)
    parser.add_argument("--nodes", type=int, help="1000; of restart: 10000")
    parser.add_argument("--pairs", type=int, default=3, help="of stream and mix: rounds")
    parser.add_argument("--per-queue", type=int, default=100, metavar="JOBS", help="of stream")
    parser.add_argument("--seconds", type=float, default=120, help="of mix: work for so long")
    parser.add_argument("--one-pod-jobs", type=int, default=10_000, metavar="JOBS", help="of one-pod")
    parser.add_argument("--flood-jobs", type=int, default=2000, metavar="JOBS", help="of flood")
    parser.add_argument("--policy-pods", type=int, default=2000, metavar="PODS", help="of policies")
    parser.add_argument("--agents", type=int, default=500, metavar="N", help="of agent")
    parser.add_argument(
        "--traces",
        type=Path,
        default=expected_start.TRACES,
        metavar="DIR",
        help="of expected-start: recorded weeks",
    )
    of_restart = parser.add_argument_group("restart")
    usual = ClusterSize()
    for name in ("pending", "finished", "running", "burst", "departures"):
        of_restart.add_argument(f"--{name}", type=int, default=getattr(usual, name), metavar="JOBS")
    of_restart.add_argument("--claims", type=int, default=usual.claims, metavar="CLAIMS")
    of_restart.add_argument("--logs", type=Path, metavar="FOLDER", help="keep logs and database there")
    of_retention = parser.add_argument_group("retention")
    for name, value in (("days", 60), ("jobs", 1000), ("old-rows", 18_000_000), ("postings", 7_000_000)):
        of_retention.add_argument(f"--{name}", type=int, default=value, metavar="N")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
