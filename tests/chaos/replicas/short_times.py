"""Short times for one run: what the product waits for in minutes happens in a second here.

Settings are given as an administrator would. The rest are constants of modules, set in the process that replicas are
forked from. Relations between them stay as they are: a request is carried out, if ever, well before its sender asks
what became of it (``ASKED_AFTER``); statements and idle transactions end before the lease does.
"""

from math import ceil
from types import ModuleType
from typing import Any, Final

from admission import controller, leadership, term
from admission.kube.client import session
from admission.kube.client.client import Client
from admission.kube.watch import lag, unseen_pods
from admission.kube.watch.informer import Timing
from admission.kube.watch.informers import Informers
from admission.kube.writers import (
    awaited_seats,
    companion_objects,
    dry_runs,
    recreate,
    repeated_writes,
    status,
    status_loop,
    work_queue,
)
from admission.workloads.inputs import Timeouts
from queues.sql import database
from queues.sql.leadership import LeaseTrust
from tests.chaos.drawn.pace import PACE

#: Of every replica: what an administrator may set. Few writes at a time, as for gangs that are much larger.
SETTINGS: Final = {"MUSTER_API_CONCURRENCY": "6"} | {
    name: str(round(seconds * PACE, 2))
    for name, seconds in {
        "MUSTER_LEASE_SECONDS": 2.5,
        "MUSTER_RETRY_SECONDS": 0.4,
        "MUSTER_REFUSAL_GRACE_SECONDS": 1,
        "MUSTER_BACKOFF_SECONDS": 0.5,
        "MUSTER_BACKOFF_MAX_SECONDS": 1,
        "MUSTER_TURN_AT_LEAST_EVERY_SECONDS": 0.5,
        "MUSTER_API_SERVER_LOST_SECONDS": 3,
        "MUSTER_DEAD_NODE_SECONDS": 1,
    }.items()
}

#: Seconds for which a client waits for an answer.
REQUEST_TIMEOUT: Final = 1.2 * PACE
#: Seconds after which the sender of a request without an answer asks what became of it.
ASKED_AFTER: Final = 1.2 * PACE
#: Whole seconds after which no sync of the Job controller makes pods any more. Those for each pod stay as they are.
JOB_SYNC: Final = ceil(2 * PACE)
#: Seconds for which a new leader keeps seats for requests of an earlier term; a late one is carried out sooner.
INHERITED_FOR: Final = 2.0 * PACE
#: Seconds of every pause that grows, at most.
_PAUSE: Final = 0.8 * PACE
_STATEMENT: Final = 1.2 * PACE
_EXPECTED: Final = 1.0 * PACE
#: Seconds by which a leader stops trusting its lease before it ends.
_MARGIN: Final = 0.3 * PACE

_CONSTANTS: Final[tuple[tuple[ModuleType, str, Any], ...]] = (
    (awaited_seats, "ASKED_AFTER", ASKED_AFTER),
    (awaited_seats, "LONGEST_PAUSE", _PAUSE),
    (repeated_writes, "EXPECTATION_SECONDS", _EXPECTED),
    (work_queue, "LONGEST_PAUSE", _PAUSE),
    (dry_runs, "LONGEST_PAUSE", _PAUSE),
    (unseen_pods, "LONGEST_PAUSE", _PAUSE),
    (recreate, "_UNSEEN", 2.5 * PACE),
    (status, "_AFTER_FAILURE", 0.5),
    (status, "COALESCE", 0.2),
    (status, "PASSING", 0.3),
    (status, "BETWEEN_WRITES", 0.4),
    (status, "BETWEEN_NUMBERS", 0.6),
    (status_loop, "QUEUES_EVERY", 0.5),
    (companion_objects, "_GROUP_DELAY", 0.2),
    (leadership, "LONGEST_PAUSE", _PAUSE),
    (leadership, "BEAT_EVERY", 0.5 * PACE),
    (term, "FIRST_PAUSE", 0.1),
    (term, "LONGEST_PAUSE", _PAUSE),
    (term, "PROVEN_SECONDS", 5.0),
    (term, "INHERITED_FOR", INHERITED_FOR),
    (controller, "FIRST_PAUSE", 0.1),
    (controller, "LONGEST_PAUSE", _PAUSE),
    (session, "_LONGEST_PAUSE", _PAUSE),
    # A leader with a late turn is not at rest.
    (lag, "_LATE", 0.3),
    (database, "CONNECT_TIMEOUT", _STATEMENT),
    (database, "SILENCE", 0.4 * PACE),
)

_WATCHES: Final = Timing(page=20, silence=2.0 * PACE, watch=20.0, first_pause=0.05, longest_pause=0.5 * PACE)


def shorten() -> None:
    """Set all of them in this process. Raises AttributeError for a name that is no more."""
    for module, name, value in _CONSTANTS:
        getattr(module, name)
        setattr(module, name, value)
    _default(Client.connect.__func__, "request_timeout", REQUEST_TIMEOUT)
    _default(database.Database.open.__func__, "statement_timeout", _STATEMENT)
    _default(Timeouts.__init__, "job_sync", JOB_SYNC)
    LeaseTrust.since.__func__.__defaults__ = (_MARGIN,)
    Informers.__init__.__defaults__ = (_WATCHES,)
    work_queue.WorkQueue.expect.__defaults__ = (_EXPECTED,)


def _default(function: Any, name: str, value: float) -> None:
    if name not in function.__kwdefaults__:
        raise AttributeError(f"{function.__qualname__} has no argument {name}")
    function.__kwdefaults__[name] = value
