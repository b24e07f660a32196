"""Which rules a simulation plays by: the defaults, or what root says otherwise."""

from collections.abc import Mapping
from random import Random
from typing import Final

from queues.quota.queue import ROOT, Queue, QueuePolicy
from queues.workload import QueueName

#: Longer than any trace: never.
NEVER_SECONDS: Final = 10**9

DEFAULT: Final = Queue(name=ROOT, parent=None)
#: ``--no-preemption``: nobody is evicted for anybody.
NO_PREEMPTION: Final = Queue(
    name=ROOT,
    parent=None,
    policy=QueuePolicy(within_queue="never", reclaim="never", clear_after=NEVER_SECONDS),
)


def under(root: Queue, queues: Mapping[QueueName, Queue], seed: int | None = None) -> dict[QueueName, Queue]:
    """The queues below this root.

    ``seed`` shuffles the order in which they are handed to the engine, which must not matter.
    """
    everybody = [(ROOT, root), *queues.items()]
    if seed is not None:
        Random(seed).shuffle(everybody)
    return dict(everybody)
