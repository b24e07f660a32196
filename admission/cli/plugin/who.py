"""``kubectl muster who``: the users, what they use, and what they wait for."""

import click

from admission.cli.access.requests import Route, pages
from admission.cli.options import most_lines, of_queue, route
from admission.cli.output import Output, output
from admission.cli.rendering.terminal import (
    TableColumn,
    amounts,
    devices,
    item_table,
    say,
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
        say("You may not see the work of all users, so they are not ranked.", err=True)
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
    ]
    return item_table(columns, body.items, output)
