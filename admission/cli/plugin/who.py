"""``kubectl muster who``: the users, what they use, and what they wait for."""

from collections.abc import Mapping

import click

from admission.cli.access.requests import Route, pages
from admission.cli.options import most_lines, of_queue, route
from admission.cli.output import Output, output
from admission.cli.rendering.terminal import (
    TableColumn,
    amounts,
    devices,
    hours,
    item_table,
    say,
    short_resource,
)
from queues.read_api.bodies import UserBody, UserList


@click.command(short_help="Users: what they use and wait for, their shares and ranks.")
@of_queue
@most_lines("users")
@output
@route
def who(queue: str | None, limit: int, output: Output, route: Route) -> int:
    """Show users: GPUs in use now, workloads that wait and run, share and rank.

    SHARE is of what the queue deserves (or may use; without -q, of all there is). The user who uses most has rank 1.
    Of yourself all work counts, of other users what you may list.
    """
    body = pages(route, "users", UserList, {"queue": queue}, limit=limit)
    if output.is_table and not body.complete:
        say("Work that you may not list is not counted, so there are no ranks.", err=True)
    return output.show(body, lambda: users_table(body, output), name=lambda one: f"user/{one.user}")


def users_table(body: UserList, output: Output) -> str:
    """One line per user, who uses most first."""
    columns: list[TableColumn[UserBody]] = [
        TableColumn("RANK", lambda one: one.rank, right=True, goes=1),
        TableColumn("USER", lambda one: (one.user or "unknown") + (" (you)" if one.you else ""), least=16),
        TableColumn("HOLDS", lambda one: amounts(one.used, all_of_them=True), wide=True),
        TableColumn("GPUS", lambda one: devices(one.used), right=True, least=8, wide=False),
        TableColumn(
            "SHARE", lambda one: None if one.share is None else f"{one.share:.2f}", right=True, goes=2
        ),
        TableColumn("WAITING", lambda one: one.pending, right=True),
        TableColumn("RUNNING", lambda one: one.admitted, right=True),
        TableColumn(f"GPU-HOURS({body.past_days}d)", lambda one: past_hours(one.past_hours), right=True),
    ]
    return item_table(columns, body.items, output)


def past_hours(past: Mapping[str, float] | None) -> str | None:
    """Hours of GPUs, or of each kind of device if there are several. None if not shown."""
    if past is None:
        return None
    gpus = {name: each for name, each in past.items() if "gpu" in short_resource(name)} or dict(past)
    if len(gpus) < 2:
        return hours(sum(gpus.values()))
    return ", ".join(f"{hours(each)} {short_resource(name)}" for name, each in gpus.items())
