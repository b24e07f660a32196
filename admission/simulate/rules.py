"""Which rules a simulation plays by: the defaults, or some of them switched off."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

from queues.quota import ROOT, Queue, QueuePolicy
from queues.workload import QueueName

#: Longer than any trace: never.
NEVER_SECONDS: Final = 10**9

DEFAULT: Final = QueuePolicy()
#: ``--no-preemption``: nobody is evicted for anybody.
NO_PREEMPTION: Final = QueuePolicy(within_queue="never", reclaim="never", clear_after=NEVER_SECONDS)


def under(
    queues: Mapping[QueueName, Queue], policy: QueuePolicy, seed: int | None = None
) -> dict[QueueName, Queue]:
    """The queues with a policy at root.

    ``seed`` shuffles the order in which they are handed to the engine, which must not matter.
    """
    root = replace(queues.get(ROOT, Queue(name=ROOT, parent=None)), policy=policy)
    everybody = list(({**queues, ROOT: root}).items())
    if seed is not None:
        Random(seed).shuffle(everybody)
    return dict(everybody)
