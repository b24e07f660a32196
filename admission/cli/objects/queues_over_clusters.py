"""Use of queues over several clusters: a row for each cluster that has a queue, and the sum by the queue's name.

Each cluster is asked as the user of its context in the kubeconfig, and shows what it shows that user.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import click
from msgspec import to_builtins

from admission.cli.access.age import age_of
from admission.cli.access.read_api import Route, ask
from admission.cli.objects.queues import account_of
from admission.cli.rendering.table import Cell, short_resource, table
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table
from admission.read_api.bodies import QueueBody, QueueList
from queues.errors import MusterError

#: Clusters that are asked by one command, and of those how many at a time.
MOST_CLUSTERS: Final = 32
_AT_A_TIME: Final = 8
#: Name of the row with the sum.
TOTAL: Final = "all"
_NARROW: Final = Narrowing(names={"QUEUE": 20, "CLUSTER": 16}, left_out=("RUNNING", "STATE", "CAPABILITY"))
_NUMBERS: Final = "DESERVED CAPABILITY WAITING RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueues:
    """The answer of one cluster."""

    cluster: str
    #: Parents first.
    queues: tuple[QueueBody, ...] = ()
    #: Why there is none; "": there is one.
    error: str = ""
    #: A sentence if the answer is old, and the exit code that follows from its age.
    age: tuple[str, int] = ("", 0)


def named_contexts(text: str, route: Route) -> tuple[str, ...]:
    """The contexts of ``--contexts``, in their order. Raises UsageError."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise click.UsageError(
            f"--contexts: found {text!r}, expected names of contexts, each once: east,west."
        )
    if len(names) > MOST_CLUSTERS:
        raise click.UsageError(f"--contexts: found {len(names)} names, expected at most {MOST_CLUSTERS}.")
    if route.context is not None or route.server is not None:
        raise click.UsageError("--contexts excludes --context and --server (also MUSTER_SERVER).")
    return names


def asked(route: Route, contexts: Sequence[str]) -> list[ClusterQueues]:
    """The queues of each cluster, in the order of the contexts. One that does not answer keeps none of the others."""

    def one(context: str) -> ClusterQueues:
        try:
            body = ask(replace(route, context=context), "queues", QueueList)
            return ClusterQueues(cluster=context, queues=body.items, age=age_of(body))
        except MusterError as error:
            return ClusterQueues(cluster=context, error=" ".join(str(error).split()))

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(one, contexts))


def queue_names(answers: Sequence[ClusterQueues]) -> list[str]:
    """Names of the queues of all clusters, each once, parents before children as the first cluster has them."""
    return list(dict.fromkeys(queue.name for each in answers for queue in each.queues))


def use_table(
    answers: Sequence[ClusterQueues],
    names: Sequence[str],
    resource: str,
    *,
    headers: bool = True,
    width: int | None = None,
) -> str:
    """A line for each queue in each cluster, and a sum below those that more than one cluster has.

    ``width``: characters of a line, None for any number.
    """
    columns = ["QUEUE", "CLUSTER", "STATE", f"USED({short_resource(resource)})", *_NUMBERS.split()]
    rows: list[list[Cell]] = []
    for name in names:
        found = [(each.cluster, queue) for each in answers for queue in each.queues if queue.name == name]
        for cluster, queue in found:
            account = account_of(queue, resource)
            numbers = (account.used, account.deserved, account.capability)
            rows.append([name, cluster, queue.state, *numbers, *_workloads([queue])])
        if len(found) > 1:
            queues = [queue for _, queue in found]
            accounts = [account_of(queue, resource) for queue in queues]
            sums = [
                _sum(resource, [account.used for account in accounts]),
                _sum(resource, [account.deserved for account in accounts]),
                _sum(resource, [account.capability for account in accounts]),
            ]
            rows.append([name, TOTAL, None, *sums, *_workloads(queues)])
    right = f"{columns[3]} {_NUMBERS}"
    if width is None or not headers:
        return table(columns, rows, headers=headers, right=right)
    return fitted_table(columns, rows, _NARROW, width=width, right=right)


def document(answers: Sequence[ClusterQueues], names: Sequence[str]) -> dict[str, object]:
    """The same for programs: each queue with its cluster, and what did not answer."""
    return {
        "items": [
            {"cluster": each.cluster, **to_builtins(queue)}
            for each in answers
            for queue in each.queues
            if queue.name in names
        ],
        "unanswered": [{"cluster": each.cluster, "error": each.error} for each in answers if each.error],
    }


def _sum(resource: str, amounts: Sequence[str | None]) -> str | None:
    """The sum over all clusters. None if one states no amount, so that together they have no limit."""
    from queues.resources import amount, show

    if any(each is None for each in amounts):
        return None
    return show(resource, sum(amount(resource, each) for each in amounts if each is not None))


def _workloads(queues: Sequence[QueueBody]) -> tuple[int, int]:
    return sum(each.pending for each in queues), sum(each.admitted for each in queues)
