"""The result of a simulated case: the schedule as a table, and its figures."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.bench.simulate.gangs import Segment, SimulationOutcome


def write_schedule(path: Path, segments: Iterable[Segment]) -> None:
    """Rows ``id,start_s,end_s,nodes``: one per segment, one node per member, joined by ``;``."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["id", "start_s", "end_s", "nodes"])
        for each in segments:
            rows.writerow([each.job, each.start, each.end, ";".join(each.nodes)])


def summary(outcome: SimulationOutcome) -> dict[str, Any]:
    """The figures, JSON-able."""
    seconds = max(outcome.decide_seconds, 1e-9)
    return {
        "turns": outcome.turns,
        "admitted": outcome.admitted,
        "answers": outcome.answers,
        "evicted": dict(sorted(outcome.evicted.items())),
        "claims": outcome.claims,
        "never_ended": outcome.left,
        "seconds": round(outcome.seconds, 3),
        "decide_seconds": round(outcome.decide_seconds, 3),
        "longest_turn_ms": round(outcome.longest_turn * 1000, 1),
        "mean_turn_ms": round(1000 * outcome.decide_seconds / max(outcome.turns, 1), 3),
        "decisions_per_second": round(outcome.answers / seconds),
        "admitted_per_second": round(outcome.admitted / seconds),
    }


def as_text(name: str, figures: dict[str, Any]) -> str:
    """The figures as lines of text."""
    evicted = ", ".join(f"{count} {code}" for code, count in figures["evicted"].items()) or "none"
    lines = [
        f"{name}: {figures['admitted']} admissions in {figures['turns']} turns, evicted: {evicted}",
        f"  {figures['seconds']:.1f} s, of which {figures['decide_seconds']:.1f} s in decide(): "
        f"{figures['decisions_per_second']:,} decisions/s, {figures['mean_turn_ms']:.2f} ms a turn, "
        f"the longest {figures['longest_turn_ms']:.0f} ms",
    ]
    left = figures["never_ended"]
    if left:
        lines.append(f"  {len(left)} jobs never ended:")
        lines += [f"    {job}: {why}" for job, why in list(left.items())[:5]]
    return "\n".join(lines)
