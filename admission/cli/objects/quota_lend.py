"""``kubectl muster quota lend``: a queue lends what it deserves until a time, and gets it back by itself."""

import time
from datetime import UTC, datetime
from math import ceil
from typing import Any

import click

from admission.cli.access.objects import ClusterRoute
from admission.cli.objects.quota_set import Writing, writing
from admission.cli.options import cluster
from admission.cli.resource_names import full_resource
from admission.cli.times import FutureTime, LastingTime
from queues.resources import GPU


@click.command(short_help="Lend a deserved amount to another queue until a time.")
@click.argument("lender", metavar="FROM")
@click.argument("receiver", metavar="TO")
@click.argument("amount_", metavar="[AMOUNT]", required=False)
@click.option("--until", type=FutureTime(), metavar="TIME", help="When it ends: friday, 2026-11-27T18:00.")
@click.option("--for", "for_", type=LastingTime(), metavar="DURATION", help="How long it lasts: 12h, 3d.")
@click.option("--end", is_flag=True, help="End now what FROM lends to TO.")
@click.option("--resource", metavar="NAME", help=f"What is lent [{GPU}; with --end: all].")
@writing
@cluster
def lend(
    lender: str,
    receiver: str,
    amount_: str | None,
    resource: str | None,
    how: Writing,
    cluster: ClusterRoute,
    **when: Any,
) -> None:
    """Have TO deserve AMOUNT more, and FROM as much less, until a time. Then it goes back by itself.

    Also if Muster is down then: it has gone back when Muster is up. What TO still uses of it is borrowed from then on,
    and FROM gets it by reclaim. A guarantee is never lent. --end ends a loan before its time.
    """
    if lender == receiver:
        raise click.UsageError("FROM and TO are the same queue.")
    ends = _ends(amount_, **when)
    if resource is not None:
        resource = full_resource("--resource", resource)
    # These load the quota tree, for which no other command has to wait.
    from admission.cli.objects.loans import begin_loan, end_loan

    if ends is None or amount_ is None:
        end_loan(cluster, lender, receiver, resource, how)
    else:
        begin_loan(cluster, lender, receiver, (amount_, resource or GPU, ends), how)


def _ends(amount_: str | None, until: datetime | None, for_: str | None, end: bool) -> datetime | None:
    """When the loan ends. None for at once. Raises UsageError."""
    if end:
        if amount_ is not None or until is not None or for_ is not None:
            raise click.UsageError(
                "--end takes neither AMOUNT nor --until nor --for: it ends the whole loan."
            )
        return None
    if amount_ is None:
        raise click.UsageError("Missing AMOUNT: `kubectl muster quota lend FROM TO 16 --until friday`.")
    if (until is None) is (for_ is None):
        raise click.UsageError("Say when the loan ends, by one of --until friday and --for 12h.")
    # Up to a whole second, so that nothing ends before its time.
    return until or datetime.fromtimestamp(ceil(time.time()) + int((for_ or "0s")[:-1]), UTC)
