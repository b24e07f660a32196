"""``python -m tests.bench.simulate``: the engine over recorded traces in virtual time, without a cluster."""

import sys
from pathlib import Path
from typing import Any

import click

from admission.cli.command_line import finish

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_TABLE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command()
@click.option("--case", type=_FOLDER, metavar="DIR", help="A trace of gangs: nodes, queues and jobs.")
@click.option(
    "--drf", type=_FOLDER, metavar="DIR", help="Applications that share a cluster that is too small."
)
@click.option("--pods", type=_TABLE, metavar="FILE", help="A list of pods that ask for parts of GPUs.")
@click.option("--nodes", type=_TABLE, metavar="FILE", help="The nodes for --pods.")
@click.option(
    "--out",
    type=_FILE,
    metavar="FILE",
    help="Where the schedule goes (id,start_s,end_s,nodes).",
)
@click.option("--no-preemption", is_flag=True, help="Evict no workload for another one.")
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="Shuffle the input: no schedule may change. With --pods: the order in which pods arrive.",
)
@click.option(
    "--summary",
    "summary_file",
    type=_FILE,
    metavar="FILE",
    help="Where the figures go, as JSON.",
)
def simulate(
    case: Path | None,
    drf: Path | None,
    pods: Path | None,
    nodes: Path | None,
    out: Path | None,
    no_preemption: bool,
    seed: int | None,
    summary_file: Path | None,
) -> int:
    """Simulate a recorded trace in virtual time, decided by the engine that the controller runs.

    --case: gangs that arrive and end, each in its tenant's queue. Run times reach the engine only when a job
    ends. An evicted job loses what it did since its last checkpoint, and needs 60 seconds to come back.

    --drf: one turn shares out six tenths of all requests to queues of equal weight; exit
    code 1 if a tenant gets more than one task more or less than in the recorded answer.

    --pods with --nodes: single pods arrive until 130 % of the GPUs are requested, and stay; the result is the
    part of the GPUs that is left.
    """
    if case is not None:
        return _case(case, out, no_preemption, seed, summary_file)
    if drf is not None:
        return _drf(drf, out, summary_file)
    if pods is None or nodes is None:
        raise click.UsageError("Expected one of --case DIR, --drf DIR, and --pods FILE with --nodes FILE.")
    return _pods(pods, nodes, 42 if seed is None else seed, summary_file)


def _write_figures(file: Path | None, figures: dict[str, Any]) -> None:
    import json

    if file is not None:
        file.write_text(json.dumps(figures, indent=1) + "\n")


def _case(folder: Path, out: Path | None, no_preemption: bool, seed: int | None, file: Path | None) -> int:
    from tests.bench.simulate import gang_trace, report, rules
    from tests.bench.simulate.gangs import Simulation

    case = gang_trace.load(folder, seed)
    root = rules.NO_PREEMPTION if no_preemption else rules.DEFAULT
    click.echo(f"configuration {rules.configuration(root)}")
    outcome = Simulation(case, rules.under(root, case.queues, seed)).run()
    figures = {"case": case.name, "configuration": rules.configuration(root), **report.summary(outcome)}
    if out is not None:
        report.write_schedule(out, outcome.segments)
    _write_figures(file, figures)
    click.echo(report.as_text(case.name, figures))
    return 1 if outcome.left else 0


def _drf(folder: Path, out: Path | None, file: Path | None) -> int:
    from tests.bench.simulate import drf

    division = drf.share_out(drf.load(folder))
    if out is not None:
        lines = [
            f"{app.name},{division.given.get(app.name, 0)},{app.expected}\n" for app in division.applications
        ]
        out.write_text("tenant,tasks,expected\n" + "".join(lines))
    figures = {
        "applications": len(division.applications),
        "asked": sum(app.tasks for app in division.applications),
        "given": sum(division.given.values()),
        "most_off": division.error(),
        "seconds": round(division.seconds, 3),
    }
    _write_figures(file, figures)
    click.echo(
        "{applications} applications got {given} of {asked} tasks in {seconds:.1f} s; "
        "at most {most_off} off what is expected".format(**figures)
    )
    return 0 if division.error() <= 1 else 1


def _pods(pods: Path, nodes: Path, seed: int, file: Path | None) -> int:
    from tests.bench.simulate import pods as simulation

    outcome = simulation.run(simulation.load(pods, nodes), seed)
    left = f"{outcome.left_percent():.2f}"
    figures = {
        "pods": pods.name,
        "seed": seed,
        "arrived": outcome.arrived,
        "placed": outcome.placed,
        "capacity_milli": outcome.capacity,
        "asked_milli": outcome.asked,
        "allocated_milli": outcome.allocated,
        "unallocated_percent": float(left),
    }
    _write_figures(file, figures)
    click.echo(
        f"{pods.name}, seed {seed}: {left} % of the GPUs unallocated; {outcome.placed} of {outcome.arrived} "
        f"pods placed in {outcome.seconds:.1f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(finish(simulate, "simulate"))
