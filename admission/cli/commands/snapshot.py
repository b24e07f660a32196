"""``muster snapshot``: the input and plan of the leader's last turn in a file, to replay or to attach to an issue."""

from pathlib import Path

import click

from admission.cli.access.requests import Route, fetch
from admission.cli.options import route


@click.command(short_help="Save the last turn of the leader's engine.")
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File to write.",
)
@route
def snapshot(out: Path, route: Route) -> None:
    """Save the last turn of the leader's engine: its input and its plan.

    `muster replay` decides the same turn again, anywhere.
    """
    body = fetch(route, "snapshot")
    out.write_bytes(body)
    click.echo(f"{out}: {len(body)} bytes")
