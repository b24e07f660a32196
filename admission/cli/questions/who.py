"""``kubectl muster who``: the users, what they use, and what they wait for."""

from collections.abc import Mapping
from typing import Final

import click
from msgspec import structs

from admission.cli.access.age import told_age
from admission.cli.access.read_api import Route
from admission.cli.options import most_lines, route
from admission.cli.output import Output, list_output
from admission.cli.questions.pending import pages
from admission.cli.rendering.table import Cell, amounts, devices, hours, short_resource
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table
from admission.cli.rendering.terminal.sentences import say
from admission.read_api.bodies import UserList

_NARROW: Final = Narrowing(names={"USER": 16, "GPUS": 8}, left_out=("RANK", "SHARE"))


@click.command(short_help="Users: what they use and wait for, their shares and ranks.")
@click.option("-q", "--queue", metavar="QUEUE", help="Only this queue and what is below it.")
@most_lines("users")
@list_output
@route
def who(queue: str | None, limit: int, output: Output, route: Route) -> int:
    """Show users: GPUs in use now, workloads that wait and run, share and rank.

    SHARE is of what the queue deserves (or may use; without -q, of all there is). The user who uses most has rank 1.
    Of yourself all work counts, of other users what you may list.
    """
    body = pages(route, "users", UserList, {"queue": queue}, limit)
    code = told_age(body)
    body = structs.replace(body, items=tuple(output.sorted(body.items)))
    text = output.document(body, name=lambda one: f"user/{one.user}")
    if text is None:
        text = users_table(body, wide=output.is_wide, headers=output.headers, width=output.room)
        if not body.complete:
            say("Work that you may not list is not counted, so there are no ranks.", err=True)
        if len(body.items) < body.total:
            say(f"{len(body.items)} of {body.total} shown; --limit shows more.", err=True)
    click.echo(output.fitted(text), nl=False)
    return code


def users_table(body: UserList, *, wide: bool, headers: bool, width: int | None = None) -> str:
    """One line per user, who uses most first."""
    recent = f"GPU-HOURS({body.past_days}d)"
    columns = ["RANK", "USER", "HOLDS" if wide else "GPUS", "SHARE", "WAITING", "RUNNING", recent]
    rows: list[list[Cell]] = [
        [
            one.rank,
            (one.user or "unknown") + (" (you)" if one.you else ""),
            amounts(one.used, all_of_them=True) if wide else devices(one.used),
            None if one.share is None else f"{one.share:.2f}",
            one.pending,
            one.admitted,
            past_hours(one.past_hours),
        ]
        for one in body.items
    ]
    right = "RANK SHARE WAITING RUNNING" + ("" if wide else " GPUS") + f" {recent}"
    return fitted_table(columns, rows, _NARROW, width=width, headers=headers, right=right)


def past_hours(past: Mapping[str, float] | None) -> str | None:
    """Hours of GPUs, or of each kind of device if there are several. None if not shown."""
    if past is None:
        return None
    gpus = {name: each for name, each in past.items() if "gpu" in short_resource(name)} or dict(past)
    if len(gpus) < 2:
        return hours(sum(gpus.values()))
    return ", ".join(f"{hours(each)} {short_resource(name)}" for name, each in gpus.items())
