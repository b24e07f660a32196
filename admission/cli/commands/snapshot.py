"""``muster snapshot``: what the leader's engine sees, in a file, to replay or to hand in with a question."""

from pathlib import Path

import click

from admission.cli.access.leader import from_leader
from admission.cli.access.read_api import Route
from admission.cli.options import route


@click.command(short_help="Save the last turn of the leader's engine.")
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Where to."
)
@route
def snapshot(out: Path, route: Route) -> None:
    """Save the last turn of the leader's engine: what it saw, and the plan it made of it.

    `muster replay` decides the same turn again, anywhere.
    """
    body = from_leader(route, "/api/v1/snapshot")
    out.write_bytes(body)
    click.echo(f"{out}: {len(body)} bytes")
