"""``python -m tests.bench.traces``: the engine over recorded gangs, judged by an independent scorer.

The folder of traces has ``score.py`` and ``gang/*``: see docs/reference/benchmarks.md. With ``--ablation``
every rule is switched off in turn, and what that costs is printed as a table.
"""

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from admission.replay.fingerprint import fingerprint
from admission.simulate import gang_trace, report, rules
from admission.simulate.gangs import Simulation
from queues.quota.queue import Queue, QueuePolicy
from tests.bench.mark import Mark

_HOUR: Final = 3600
#: Beside the repository unless told otherwise.
TRACES: Final = Path(__file__).parents[3] / "shared" / "traces"

FULL: Final = "everything"
NO_PREEMPTION: Final = "no preemption at all"


def _with(**rule: Any) -> Queue:
    return replace(rules.DEFAULT, policy=QueuePolicy(**rule))


#: What is switched off, and how root says so.
ABLATIONS: Final[Mapping[str, Queue]] = {
    FULL: rules.DEFAULT,
    "no clearing for starved gangs": _with(clear_after=rules.NEVER_SECONDS),
    "clearing after 4 h instead of 1 h": _with(clear_after=4 * _HOUR),
    "no reclaim of lent quota": _with(reclaim="never"),
    "spread instead of pack": replace(rules.DEFAULT, placement="spread"),
    "inside a queue by arrival alone": replace(rules.DEFAULT, order="fifo"),
    "inside a queue strictly by arrival": replace(rules.DEFAULT, order="strict-fifo"),
    "protected for ten minutes after the start": _with(min_run_time=600),
    NO_PREEMPTION: rules.NO_PREEMPTION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One case under one set of rules, in hours and shares."""

    case: str
    violations: Mapping[str, int]
    util_eff: float
    gang_p95_hours: float
    share_dev: float
    worst_tenant: float
    mean_wait_hours: float
    wasted: float
    evictions: int
    seconds: float
    decisions_per_second: float


def play(folder: Path, root: Queue) -> Score:
    """Simulate one case and judge the schedule."""
    case = gang_trace.load(folder)
    outcome = Simulation(case, rules.under(root, case.queues)).run()
    rows = [
        {"id": each.job, "start_s": each.start, "end_s": each.end, "nodes": ";".join(each.nodes)}
        for each in outcome.segments
    ]
    found = _scorer(folder.parents[1] / "score.py").score(folder, rows)
    figures = report.summary(outcome)
    return Score(
        case=case.name,
        violations=found["violations"],
        util_eff=float(found["util_eff"]),
        gang_p95_hours=found["gang_wait_p95"] / _HOUR,
        share_dev=float(found["share_dev"]),
        worst_tenant=float(found["worst_tenant"]),
        mean_wait_hours=found["wait_mean"] / _HOUR,
        wasted=float(found["wasted"]),
        evictions=outcome.evicted.total(),
        seconds=outcome.seconds,
        decisions_per_second=figures["decisions_per_second"],
    )


def _scorer(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("score", path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marks(scores: Sequence[Score], *, preemption: bool) -> list[Mark]:
    """What was reached, mean over the cases, beside what must be and what is aimed at."""

    def mark(name: str, unit: str, field: str, must: float, aim: float, *, upwards: bool = False) -> Mark:
        reached = fmean(getattr(score, field) for score in scores)
        factor = 100 if unit == "%" else 1
        return Mark(name=name, unit=unit, reached=reached * factor, must=must, aim=aim, upwards=upwards)

    broken = sum(sum(score.violations.values()) for score in scores)
    every = [Mark(name="invariants violated", unit="", reached=broken, must=0, aim=0, upwards=False)]
    if preemption:
        return [
            *every,
            mark("utilisation of what was possible", "%", "util_eff", 97, 98.7, upwards=True),
            mark("95th percentile of the waits of gangs", "h", "gang_p95_hours", 6, 3),
            mark("deviation from fair shares", "%", "share_dev", 7.5, 5.5),
            mark("worst tenant, of its fair share", "%", "worst_tenant", 55, 70, upwards=True),
            mark("mean wait", "h", "mean_wait_hours", 4.2, 2.5),
            mark("work that was wasted", "%", "wasted", 0.5, 0.2),
        ]
    return [
        *every,
        mark("without preemption: utilisation of what was possible", "%", "util_eff", 96, 97, upwards=True),
        mark("without preemption: 95th percentile of the waits of gangs", "h", "gang_p95_hours", 92, 60),
        mark("without preemption: deviation from fair shares", "%", "share_dev", 9.6, 7),
        mark("without preemption: mean wait", "h", "mean_wait_hours", 2.4, 1.8),
    ]


def table(rows: Mapping[str, Sequence[Score]]) -> str:
    """A line per name: means over its scores, as a Markdown table."""
    return "\n".join([_HEAD, *(_row(name, scores) for name, scores in rows.items())])


_HEAD: Final = """\
| | util_eff | p95 wait of gangs, h | share_dev | worst tenant | mean wait, h | wasted | evictions |
|---|---|---|---|---|---|---|---|"""


def _row(name: str, scores: Sequence[Score]) -> str:
    def mean(field: str) -> float:
        return fmean(getattr(score, field) for score in scores)

    return (
        f"| {name} | {mean('util_eff'):.3f} | {mean('gang_p95_hours'):.1f} | {mean('share_dev'):.3f} "
        f"| {mean('worst_tenant'):.2f} | {mean('mean_wait_hours'):.1f} | {mean('wasted') * 100:.2f} % "
        f"| {mean('evictions'):.0f} |"
    )


def main() -> int:
    """Exit code 1: something that must hold does not."""
    options = _options()
    folders = [folder for folder in sorted((options.traces / "gang").iterdir()) if folder.is_dir()]
    folders = [folder for folder in folders if not options.cases or folder.name in options.cases]
    names = list(ABLATIONS) if options.ablation else [FULL, NO_PREEMPTION]
    if options.only:
        names = [name for name in ABLATIONS if name in options.only]
    print(f"configuration {fingerprint(rules.DEFAULT)}")
    reached: dict[str, list[Score]] = {}
    held = True
    with ProcessPoolExecutor(options.processes) as pool:
        asked = {name: [pool.submit(play, folder, ABLATIONS[name]) for folder in folders] for name in names}
        for name, answers in asked.items():
            print(f"\n{name}\n{_HEAD}", flush=True)
            reached[name] = []
            for answer in answers:
                reached[name].append(answer.result())
                print(_row(reached[name][-1].case, reached[name][-1:]), flush=True)
            print(f"{_row('mean', reached[name])}\n{_seconds(reached[name])}\n")
            if name in (FULL, NO_PREEMPTION):
                every = marks(reached[name], preemption=name == FULL)
                held = held and all(mark.holds for mark in every)
                print("\n".join(mark.line() for mark in every), flush=True)
    if options.ablation:
        print(f"\n{table(reached)}")
    if options.json is not None:
        figures = {name: [_plain(score) for score in scores] for name, scores in reached.items()}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if held else 1


def _seconds(scores: Sequence[Score]) -> str:
    rate = fmean(score.decisions_per_second for score in scores)
    broken = sum(sum(score.violations.values()) for score in scores)
    return f"{sum(score.seconds for score in scores):.0f} s, {rate:,.0f} decisions/s, {broken} invariants violated"


def _plain(score: Score) -> dict[str, Any]:
    return {name: getattr(score, name) for name in Score.__slots__}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.traces", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases; without them all")
    parser.add_argument(
        "--traces", type=Path, default=TRACES, metavar="DIR", help="folder with score.py and gang/"
    )
    parser.add_argument("--ablation", action="store_true", help="switch every rule off in turn")
    parser.add_argument("--only", action="append", metavar="RULES", help=f"one of: {', '.join(ABLATIONS)}")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
