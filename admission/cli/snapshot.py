"""``muster snapshot``: what the leader's engine sees, in a file, to replay or to hand in with a question."""

import time
from pathlib import Path
from typing import Final

import click

from admission.cli.options import route
from admission.cli.reading import Route, Unanswered, fetch

#: A Service leads to any replica; one of them leads.
_ATTEMPTS: Final = 12
_PAUSE_SECONDS: Final = 0.25
_NOT_LEADING: Final = 409


@click.command(short_help="Save what the leader's engine sees.")
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Where to."
)
@route
def snapshot(out: Path, route: Route) -> None:
    """Save what the leader's engine sees now. The same file always gives the same decisions."""
    body = from_leader(route)
    out.write_bytes(body)
    click.echo(f"{out}: {len(body)} bytes")


def from_leader(route: Route) -> bytes:
    """Asks until a replica that leads answers. Raises CommandFailed."""
    for attempt in range(_ATTEMPTS):
        try:
            return fetch(route, "/api/v1/snapshot")
        except Unanswered as error:
            if error.status != _NOT_LEADING or route.server is not None or attempt == _ATTEMPTS - 1:
                raise
        time.sleep(_PAUSE_SECONDS)
    raise AssertionError
