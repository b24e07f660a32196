"""``kubectl muster nodes --wanted``: which nodes waiting gangs would need, by the shape of their pods."""

from typing import Final

import click

from admission.cli.access.age import told_age
from admission.cli.access.read_api import Route
from admission.cli.output import Output
from admission.cli.questions.pending import pages
from admission.cli.rendering.sentences import say
from admission.cli.rendering.wanted_nodes import wanted_lines, wanted_table
from admission.read_api.bodies import PendingList

#: Waiting workloads that are looked at. They are asked for in pages of 1000.
MOST_LOOKED_AT: Final = 10_000


def show_wanted_nodes(output: Output, route: Route) -> int:
    """Print what the waiting workloads that the user may see lack in nodes. Raises CommandFailed."""
    body = pages(route, "pending", PendingList, {}, MOST_LOOKED_AT)
    code = told_age(body)
    lines = wanted_lines(body.items)
    if (left_out := body.total - len(body.items)) > 0:
        told = f"Only the first {len(body.items)} waiting workloads were looked at; {left_out} more wait."
        say(told, err=True)
    if output.is_table and not lines:
        told = "No gang that you may see waits for nodes only. `kubectl muster pending -A` says what for."
        say(told, err=True)
        return code
    text = output.document({"items": lines}, name=lambda line: f"queue/{line.queue}")
    if text is None:
        text = wanted_table(lines, body.now, output)
    click.echo(output.fitted(text), nl=False)
    return code
