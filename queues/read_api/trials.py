"""What ``POST /trials`` takes and answers, field by field. Docs: docs/reference/http.md."""

from collections.abc import Mapping
from typing import Any

from queues.read_api.bodies import Body, ChangeBody, ExpectedStartBody, ReasonBody, SeatsBody


class QueuePatchBody(Body, frozen=True, kw_only=True):
    """A Queue that would be written."""

    queue: str
    #: A merge patch of its spec: of guarantee, deserved, capability, flavors and loans.
    spec: dict[str, Any]


class TrialRequestBody(Body, frozen=True, kw_only=True):
    """What is to be tried."""

    #: Objects as they would be submitted.
    documents: tuple[dict[str, Any], ...] = ()
    #: Where documents are that name no namespace.
    namespace: str = "default"
    #: The queue that all of them are tried in; "": those that they name.
    queue: str = ""
    #: Who would submit them; "": the user who asks. Only for those who see everything.
    user: str = ""
    #: The groups of that user, and whether they may try every queue's quota: set for the leader, not taken from users.
    groups: tuple[str, ...] = ()
    administers_all: bool = False
    #: Limits that queues would have (``QUEUE.[LIMIT.]RESOURCE=AMOUNT``), of a flavor ("": the plain ones).
    quota: tuple[str, ...] = ()
    flavor: str = ""
    #: Writes of Queues, after one another.
    quota_patches: tuple[QueuePatchBody, ...] = ()


class QuotaTakenBody(Body, frozen=True, kw_only=True):
    """What a workload would take of one line of its queue's books."""

    queue: str
    #: "" sums over all flavors.
    flavor: str
    resource: str
    takes: str
    #: Of it, within what the queue deserves, and beyond that; null: the queue states no deserved amount.
    owned: str | None
    borrowed: str | None
    #: What the queue uses before, and what it deserves.
    used: str
    deserved: str | None


class VictimBody(Body, frozen=True, kw_only=True):
    """A workload that would be evicted."""

    #: null, as its names: the user may not see it.
    kind: str | None
    namespace: str | None
    name: str | None
    #: null: it is another's, and the user may not see the queue.
    queue: str | None
    code: str
    message: str


class TrialBody(Body, frozen=True, kw_only=True):
    """What would become of one object."""

    kind: str
    namespace: str
    name: str
    #: admitted | preempts | waits | refused | unmanaged
    state: str
    queue: str | None = None
    priority: int | None = None
    #: Pods that want a seat, and how many of them start together.
    pods: int = 0
    minimum: int = 0
    asks: Mapping[str, str] = {}
    #: Why it is not admitted at once; null: it is, or it is refused.
    reason: ReasonBody | None = None
    #: Why it would be refused.
    refusals: tuple[str, ...] = ()
    #: What the API server would warn of.
    warnings: tuple[str, ...] = ()
    #: Where its pods would be, at most 100; and how many nodes there are in all.
    places: tuple[SeatsBody, ...] = ()
    node_count: int = 0
    quota: tuple[QuotaTakenBody, ...] = ()
    #: At most 50; and how many there are in all.
    victims: tuple[VictimBody, ...] = ()
    victim_count: int = 0
    #: Of one that waits; null: it is not tried as it is, or there was no time to work it out.
    position: int | None = None
    queue_length: int | None = None
    #: What it waits behind, as a sentence.
    behind: str = ""
    #: What would let it in, the smallest first; null: there was no time to work it out.
    changes: tuple[ChangeBody, ...] | None = None
    #: Where it names a queue that there is not: names of queues that look alike, best first.
    nearest_queues: tuple[str, ...] = ()
    #: When one that waits should start; null: there is no forecast now.
    expected: ExpectedStartBody | None = None


class SkippedBody(Body, frozen=True, kw_only=True):
    """A document of a kind that waits in no queue."""

    api_version: str
    kind: str
    name: str


class DifferenceBody(Body, frozen=True, kw_only=True):
    """A workload for which the changes matter."""

    #: starts | waits | stops | restarts | grows | shrinks | stays
    what: str
    #: null, as its names: the user may not see it.
    kind: str | None
    namespace: str | None
    name: str | None
    #: null: it is another's, and the user may not see the queue.
    queue: str | None
    priority: int
    pods: int
    asks: Mapping[str, str]
    #: Why it waits or is evicted, with the changes; null: it does not, or is not.
    reason: ReasonBody | None = None
    #: The workload for which it is evicted, as KIND/NAMESPACE/NAME; null: none.
    beneficiary: str | None = None


class ComparisonBody(Body, frozen=True, kw_only=True):
    """The cluster at rest with the changes, beside the cluster at rest without them. No time passes."""

    #: The changes, as sentences.
    changes: tuple[str, ...]
    #: What the API server would warn of.
    warnings: tuple[str, ...] = ()
    #: How many workloads there are by ``what``.
    counts: Mapping[str, int]
    #: At most 200.
    workloads: tuple[DifferenceBody, ...]
    #: False: after 16 turns there was still something to decide.
    at_rest: bool = True


class TrialList(Body, frozen=True, kw_only=True):
    """``POST /trials``."""

    #: The time that was decided at; the cluster is that of the leader's last turn.
    now: str
    items: tuple[TrialBody, ...]
    skipped: tuple[SkippedBody, ...] = ()
    #: null: no changes were asked for.
    comparison: ComparisonBody | None = None


class ToldTrialList(TrialList, frozen=True, kw_only=True):
    """From the leader: the answer, with what the process that serves the user needs to leave queues out of it."""

    #: Queues whose names stand anywhere in the answer.
    named_queues: tuple[str, ...] = ()
    #: By queue of an item: the queues above it.
    above: Mapping[str, tuple[str, ...]] = {}


class TrialFailureBody(Body, frozen=True, kw_only=True):
    """From the leader: the question cannot be answered as it is asked."""

    status: int
    failure: str
    #: The queue that it is about; "": none.
    queue: str = ""
    #: Names of queues that look alike, best first.
    near: tuple[str, ...] = ()
