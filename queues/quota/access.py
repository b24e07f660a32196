"""What queues allow (``access``): which namespaces may use them, and for how long a workload may hold its seats.

Each queue on the path that states a selector has to select the namespace; of ``access.maxRunTime`` the smallest on the
path counts. Pure.

The time runs from the admission: from then on no other workload can use the seats, and the ledger knows that second,
whatever becomes of pods and leaders. How long a gang may take to get ready is the matter of ``policy.readyWithin``.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from queues.label_selectors import labels_text, selector_text, selects
from queues.quota.queue import Queue
from queues.text_format import span
from queues.workload import QueueName


class AccessRefusal(NamedTuple):
    """Why a namespace may not use a queue."""

    #: The queue that states the selector: the queue itself, or one above it.
    by: QueueName
    #: Its ``access.namespaceSelector``, as kubectl writes selectors.
    selector: str
    #: What the labels of the namespace say about the keys of the selector.
    labels: str

    def message(self, namespace: str, queue: QueueName) -> str:
        """The sentence for people, with what to do."""
        at = "" if self.by == queue else f" (queue {queue} is below it)"
        return (
            f"namespace {namespace} may not use queue {queue}: access.namespaceSelector of queue {self.by}{at} "
            f"is {self.selector}, and the namespace has {self.labels}; name another queue, or ask an "
            "administrator to label the namespace or to change the selector"
        )


def access_refusal(path: Iterable[Queue], labels: Mapping[str, str]) -> AccessRefusal | None:
    """Why a namespace with these labels may not use a queue. ``path``: the queue and those above it, nearest first.

    None if it may. A queue without a selector refuses no namespace; an empty selector selects all of them.
    """
    for queue in path:
        selector = queue.namespace_selector
        if selector is not None and not selects(selector, labels):
            return AccessRefusal(queue.name, selector_text(selector), labels_text(selector, labels))
    return None


#: A workload is warned when a tenth of the time is left, and at most so many seconds before its end.
_LONGEST_WARNING: Final = 1800


class RunLimit(NamedTuple):
    """The longest time that workloads of a queue may hold their seats."""

    seconds: int
    #: The queue that states it: the queue itself, or one above it.
    queue: QueueName

    def end(self, opened_at: int) -> int:
        """The second (since the epoch) at which a workload is ended that was admitted at that second."""
        return opened_at + self.seconds

    def warning(self, opened_at: int) -> int:
        """The second from which on such a workload is warned."""
        return self.end(opened_at) - min(max(1, self.seconds // 10), _LONGEST_WARNING)

    def used_up(self) -> str:
        """The sentence for people about a workload that is ended."""
        return f"it has held its seats for {self._allowed()}"

    def refusal(self, declared: int) -> str:
        """The sentence for people about a workload that declares a longer run time, in seconds."""
        return f"a run time of {span(declared)} is declared, longer than {self._allowed()}"

    def _allowed(self) -> str:
        return f"the {span(self.seconds)} that queue {self.queue} allows (access.maxRunTime)"


def run_limit(path: Iterable[Queue]) -> RunLimit | None:
    """The limit for workloads of a queue; None if there is none. ``path``: the queue and those above it, nearest first.

    Of equal limits it is the nearest.
    """
    limits = [RunLimit(queue.max_run_time, queue.name) for queue in path if queue.max_run_time is not None]
    return min(limits, key=lambda limit: limit.seconds, default=None)
