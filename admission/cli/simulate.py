"""``muster simulate``: the engine over recorded traces in virtual time, without a cluster."""

from pathlib import Path

import click

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Let the engine decide over a recorded trace.")
@click.option("--case", type=_FOLDER, metavar="DIR", help="A trace of gangs: nodes, queues and jobs.")
@click.option("--out", type=_FILE, metavar="FILE", help="Where the schedule goes (id,start_s,end_s,nodes).")
@click.option("--no-preemption", is_flag=True, help="Evict nobody for anybody.")
@click.option("--seed", type=int, metavar="N", help="Shuffle the input, which must not change the schedule.")
@click.option("--summary", "summary_file", type=_FILE, metavar="FILE", help="Where the figures go, as JSON.")
def simulate(
    case: Path | None,
    out: Path | None,
    no_preemption: bool,
    seed: int | None,
    summary_file: Path | None,
) -> int:
    """Play a recorded trace in virtual time, decided by the very engine that the controller runs.

    Run times reach the engine only when a job ends. An evicted job loses what it did since its last
    checkpoint, and needs 60 seconds to come back to work.
    """
    if case is None:
        raise click.UsageError("Nothing to simulate. Expected --case DIR.")
    return _case(case, out, no_preemption, seed, summary_file)


def _case(folder: Path, out: Path | None, no_preemption: bool, seed: int | None, file: Path | None) -> int:
    import json

    from admission.configuration import fingerprint
    from admission.simulate import report, rules, trace
    from admission.simulate.gangs import Simulation

    case = trace.load(folder)
    root = rules.NO_PREEMPTION if no_preemption else rules.DEFAULT
    click.echo(f"configuration {fingerprint(root)}")
    outcome = Simulation(case, rules.under(root, case.queues, seed)).run()
    figures = {"case": case.name, "configuration": fingerprint(root), **report.summary(outcome)}
    if out is not None:
        report.write_schedule(out, outcome.segments)
    if file is not None:
        file.write_text(json.dumps(figures, indent=1) + "\n")
    click.echo(report.as_text(case.name, figures))
    return 1 if outcome.left else 0
