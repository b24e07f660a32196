"""Views of lists: queues, what waits, what runs, the latest decisions, and one workload. Pure: answers in, HTML out."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from admission.cli.objects.queues import below, usual_resource
from admission.cli.page.charts.timeline import timeline
from admission.cli.page.layout import pages_of, render
from admission.read_api.bodies import DecisionList, ExplanationBody, PendingList, QueueBody, WorkloadList

#: Nodes of a workload that a list names.
_NODES: Final = 4


def queue_tree(queues: Sequence[QueueBody], resource: str | None) -> Markup:
    """All queues that the user may see, with bars for one resource."""
    return render("queues.html", queues=queues, resource=resource or usual_resource(queues))


def one_queue(
    queues: Sequence[QueueBody],
    name: str,
    waiting: PendingList,
    resource: str | None,
    planned: Markup,
    *,
    is_open: bool,
) -> Markup:
    """A queue that there is with those below it, all its amounts, its reservations and loans (``planned``), and its
    first waiting workloads. ``is_open``: any namespace may use it."""
    return render(
        "queue.html",
        queue=next(queue for queue in queues if queue.name == name),
        queues=queues,
        below=below(queues, [name]),
        waiting=waiting,
        resource=resource or usual_resource(queues),
        planned=planned,
        is_open=is_open,
    )


def waiting(body: PendingList, *, queue: str | None, namespace: str | None, is_first: bool = True) -> Markup:
    """What waits, by queue and position: ``body`` is a PendingList."""
    ways = pages_of("pending", body, is_first=is_first, queue=queue, namespace=namespace)
    return render("pending.html", body=body, queue=queue, namespace=namespace, **ways)


def live_workloads(body: WorkloadList, queue: str | None, *, is_first: bool = True) -> Markup:
    """What waits and what runs: ``body`` is a WorkloadList."""
    ways = pages_of("workloads", body, is_first=is_first, queue=queue)
    return render("workloads.html", body=body, queue=queue, most_nodes=_NODES, **ways)


def decisions(body: DecisionList) -> Markup:
    """The latest decisions, newest first: ``body`` is a DecisionList."""
    return render("decisions.html", body=body)


def workload_view(found: Sequence[ExplanationBody]) -> Markup:
    """All workloads of a name, live ones first: explanations of the read API."""
    return render("workload.html", found=found, timeline=timeline)
