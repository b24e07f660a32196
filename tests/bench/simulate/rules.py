"""The rules of a simulation: the defaults, or other ones that root states."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from random import Random
from typing import Final

from admission.replay.fingerprint import fingerprint
from queues.quota.queue import ROOT, Queue, QueuePolicy
from queues.workload import QueueName
from tests.plugin_in_place import serve_in_place, tested_plugin

serve_in_place()

#: Longer than any trace: never.
NEVER_SECONDS: Final = 10**9

DEFAULT: Final = Queue(name=ROOT, parent=None)
#: ``--no-preemption``: no workload is evicted for another one.
NO_PREEMPTION: Final = Queue(
    name=ROOT,
    parent=None,
    policy=QueuePolicy(within_queue="never", reclaim="never", clear_after=NEVER_SECONDS),
)


def under(root: Queue, queues: Mapping[QueueName, Queue], seed: int | None = None) -> dict[QueueName, Queue]:
    """The queues of a case below this root.

    ``seed`` shuffles the order in which they are handed to the engine, which must not matter.
    """
    every_queue = [(ROOT, root), *queues.items()]
    if seed is not None:
        Random(seed).shuffle(every_queue)
    return dict(every_queue)


def configuration(root: Queue) -> str:
    """What decides a simulation: the hash of the engine, and of the rules that ``root`` states."""
    stated = (asdict(root.policy), root.order, root.placement, root.ageing_per_hour)
    hashed = f"{fingerprint()}-{sha256(json.dumps(stated).encode()).hexdigest()[:8]}"
    return f"{hashed}-{tested}" if (tested := tested_plugin()) else hashed
