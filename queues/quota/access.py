"""Which namespaces may use a queue (``access.namespaceSelector``). Pure.

Each queue on the path that states a selector has to select the namespace.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from queues.label_selectors import labels_text, selector_text, selects
from queues.quota.queue import Queue
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
        """The sentence for people."""
        at = "" if self.by == queue else f" (queue {queue} is below it)"
        return (
            f"namespace {namespace} may not use queue {queue}: access.namespaceSelector of queue {self.by}{at} "
            f"is {self.selector}, and the namespace has {self.labels}"
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
